//! The commands in `oomscope --help`, by the question that they answer.

use clap::Command;

/// Questions and the commands that answer them. A command that is not here is listed at the end.
const QUESTIONS: [(&str, &[&str]); 9] = [
    ("What happened?", &["report", "oom", "info"]),
    ("Who holds the memory?", &["top", "flame"]),
    ("Where is the free memory?", &["segments", "map"]),
    ("How did it get there?", &["timeline", "leaks"]),
    ("What changed?", &["diff", "check"]),
    ("What would have helped?", &["whatif", "estimate"]),
    ("Which of many ranks is it?", &["fleet", "sql"]),
    ("How do I get a snapshot, and pass it on?", &["howto", "export"]),
    ("How do I set up this program?", &["completions", "man"]),
];

/// Columns of the list.
const COLUMNS: usize = 100;

/// `command` with a help text that groups its subcommands.
pub fn grouped(command: Command) -> Command {
    let list = list(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\nOptions:\n{{options}}{{after-help}}"
    ))
}

fn list(command: &Command) -> String {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let grouped = |name: &&str| QUESTIONS.iter().any(|(_, names)| names.contains(name));
    let others: Vec<&str> = names.into_iter().filter(|name| !grouped(name)).collect();
    let mut text = String::new();
    for (question, names) in QUESTIONS.into_iter().chain([("More", others.as_slice())]) {
        let found: Vec<&Command> = names.iter().filter_map(|name| command.find_subcommand(name)).collect();
        if found.is_empty() {
            continue;
        }
        text += &format!("{question}\n");
        for command in found {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:width$}  ", command.get_name());
            wrap(&mut text, &about, width + 4);
        }
    }
    text
}

/// Appends `words` in lines of at most [`COLUMNS`], the first of which begins at column `indent`.
fn wrap(text: &mut String, words: &str, indent: usize) {
    let mut column = indent;
    for (number, word) in words.split_whitespace().enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > COLUMNS {
            *text += &format!("\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            text.push(' ');
            column += 1;
        }
        *text += word;
        column += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_listed_once() {
        let command = ["report", "top", "stranger"].into_iter().fold(Command::new("oomscope"), |command, name| {
            command.subcommand(Command::new(name).about(format!("about {name}")))
        });
        let text = list(&command);
        assert_eq!(
            text,
            "What happened?\n  report    about report\nWho holds the memory?\n  top       about top\n\
             More\n  stranger  about stranger\n"
        );
    }
}
