//! `key:value,key:[k:v,k:v]` as pairs. Blanks mean nothing anywhere.

/// A value of the configuration string.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A single word.
    Word(&'a str),
    /// `[k:v,…]`.
    List(Vec<(&'a str, &'a str)>),
}

impl Value<'_> {
    /// The value as it is written in a configuration string.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Word(word) => (*word).to_owned(),
            Self::List(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{k}:{v}")).collect();
                format!("[{}]", pairs.join(","))
            }
        }
    }
}

/// The pairs of `conf`, which must be free of blanks; `Err` holds a piece that has no such form.
pub(super) fn pairs(conf: &str) -> Vec<Result<(&str, Value<'_>), &str>> {
    items(conf)
        .map(|item| {
            let (key, value) = item.split_once(':').ok_or(item)?;
            let value = match value.strip_prefix('[') {
                Some(rest) => Value::List(list(rest.strip_suffix(']').ok_or(item)?).ok_or(item)?),
                None => Value::Word(value),
            };
            let clean = |text: &str| !text.is_empty() && !text.contains([':', '[', ']']);
            let well_formed = clean(key) && !matches!(value, Value::Word(word) if !clean(word));
            if well_formed { Ok((key, value)) } else { Err(item) }
        })
        .collect()
}

/// The items between the commas that are outside brackets; empty ones are dropped.
fn items(conf: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    conf.split(move |c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
    .filter(|item| !item.is_empty())
}

fn list(inner: &str) -> Option<Vec<(&str, &str)>> {
    let pairs = inner.split(',').filter(|item| !item.is_empty()).map(|item| {
        let (key, value) = item.split_once(':')?;
        let clean = |text: &str| !text.is_empty() && !text.contains([':', '[', ']']);
        (clean(key) && clean(value)).then_some((key, value))
    });
    pairs.collect()
}
