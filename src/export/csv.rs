//! Tables as comma-separated values, as RFC 4180 has them: a header, CRLF, quotes where they are needed.
//!
//! A missing value is an empty field, an empty text is `""`. A spreadsheet takes a text that begins with `=`, `+`,
//! `-`, `@`, a tab or a carriage return for a formula, and whoever wrote the snapshot chose its names: such a text gets
//! an apostrophe in front, which spreadsheets do not show. Numbers are left alone.

use std::io::Write;

use super::tables::{Column, Table, Values, chunks};
use super::{Result, TableFormat};

/// The CSV format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Csv;

impl TableFormat for Csv {
    fn write(&self, table: &dyn Table, out: &mut dyn Write) -> Result<()> {
        let names: Vec<&str> = table.schema().columns.iter().map(|column| column.name).collect();
        writeln!(out, "{}\r", names.join(","))?;
        for chunk in chunks(table) {
            for row in 0..chunk.rows {
                for (at, column) in chunk.columns.iter().enumerate() {
                    if at > 0 {
                        out.write_all(b",")?;
                    }
                    field(column, row, out)?;
                }
                out.write_all(b"\r\n")?;
            }
        }
        Ok(())
    }
}

fn field(column: &Column, row: usize, out: &mut dyn Write) -> std::io::Result<()> {
    if !column.is_valid(row) {
        return Ok(());
    }
    match &column.values {
        Values::U64(values) => write!(out, "{}", values[row]),
        Values::I64(values) => write!(out, "{}", values[row]),
        Values::F64(values) => write!(out, "{}", values[row]),
        Values::Bool(values) => write!(out, "{}", values[row]),
        Values::Text(texts) => text(texts.get(row), out),
    }
}

fn text(text: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        return write!(out, "{}{text}", if is_formula { "'" } else { "" });
    }
    out.write_all(if is_formula { b"\"'" } else { b"\"" })?;
    for (at, part) in text.split('"').enumerate() {
        out.write_all(if at > 0 { b"\"\"" } else { b"" })?;
        out.write_all(part.as_bytes())?;
    }
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    fn field(text: &str) -> String {
        let mut out = Vec::new();
        super::text(text, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn quotes_where_needed() {
        assert_eq!(field("train.py:41"), "train.py:41");
        assert_eq!(field(""), "\"\"");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"no\"\n"), "\"say \"\"no\"\"\n\"");
    }

    #[test]
    fn names_are_no_formulas() {
        for name in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(\"x\",\"y\")"] {
            let field = field(name);
            assert!(field.trim_start_matches('"').starts_with('\''), "{field}");
        }
    }
}
