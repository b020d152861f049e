//! What sets the program up: completions, manual pages, `--version` and `--help`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{oomscope, run_in};

const COMMANDS: [&str; 19] = [
    "report",
    "oom",
    "info",
    "top",
    "flame",
    "segments",
    "map",
    "timeline",
    "leaks",
    "diff",
    "check",
    "whatif",
    "estimate",
    "fleet",
    "sql",
    "howto",
    "export",
    "completions",
    "man",
];

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = oomscope(["completions", shell]);
        assert_eq!(run.status, 0, "{shell}: {}", run.stderr);
        for name in COMMANDS.iter().chain(&["--redact-functions"]) {
            let name = if shell == "fish" { name.trim_start_matches("--") } else { name };
            assert!(run.stdout.contains(name), "{shell}: {name}");
        }
    }
    assert_eq!(oomscope(["completions", "tcsh"]).status, 2);
}

/// The shell itself accepts the script, and completes with it.
#[test]
fn bash_completes_a_command() {
    let script = "eval \"$(\"$0\" completions bash)\"; COMP_WORDS=(oomscope segm); COMP_CWORD=1; \
                  _oomscope oomscope segm oomscope; echo \"${COMPREPLY[@]}\"";
    let Ok(output) = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_oomscope")]).output() else {
        println!("skipped: no bash");
        return;
    };
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "segments");
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let run = run_in(directory.path(), ["man", "man1"], &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = |name: &str| fs::read_to_string(directory.path().join("man1").join(name)).unwrap();
    assert!(page("oomscope.1").contains("oomscope\\-top(1)"));
    for name in COMMANDS {
        let text = page(&format!("oomscope-{name}.1"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains("Example"), "{name}");
    }
}

#[test]
fn the_version_names_the_build() {
    let long = oomscope(["--version"]).stdout;
    let short = oomscope(["-V"]).stdout;
    assert_eq!(short.trim(), format!("oomscope {}", env!("CARGO_PKG_VERSION")));
    assert!(long.starts_with(short.trim()), "{long}");
    for fact in ["commit", "target", std::env::consts::ARCH, "profile"] {
        assert!(long.contains(fact), "{long}");
    }
}

#[test]
fn help_groups_commands_by_question() {
    let help = oomscope(["--help"]).stdout;
    let position = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
    assert!(position("What happened?") < position("\n  report "));
    assert!(position("Where is the free memory?") < position("\n  segments "));
    assert!(position("\n  segments ") < position("How did it get there?"));
    for name in COMMANDS {
        assert_eq!(help.matches(&format!("\n  {name} ")).count(), 1, "{name}");
    }
    assert!(!help.contains("\nMore\n"), "a command stands under no question: {help}");
    assert!(help.lines().all(|line| line.chars().count() <= 120));
    // Calling it without anything, or asking for help as a command, says the same.
    assert!(oomscope::<&str>([]).stderr.contains("What happened?"));
    assert!(oomscope(["help"]).stdout.contains("What happened?"));
}

/// Without its plug-in, `sql` says what it would do and how to get it.
#[test]
fn sql_explains_itself_without_its_plug_in() {
    let run = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), ["sql", "--help"], &[("PATH", "")]);
    if run.status == 0 {
        println!("skipped: the plug-in is there");
        return;
    }
    assert_eq!(run.status, 2);
    assert!(
        run.stdout.contains("SQL over the snapshots") && run.stdout.contains("--query peak-by-rank"),
        "{}",
        run.stdout
    );
    assert!(run.stderr.contains("cargo install --path sql"), "{}", run.stderr);
    assert_eq!(run_in(Path::new(env!("CARGO_MANIFEST_DIR")), ["sql"], &[("PATH", "")]).stdout, "");
}

/// The heading of the allocator's rules covers these and nothing else, and every command shows how it is called.
#[test]
fn help_of_a_command_puts_flags_under_their_headings() {
    // The help of sql is that of its plug-in.
    for name in COMMANDS.into_iter().filter(|&name| name != "sql") {
        let help = oomscope([name, "--help"]).stdout;
        if let Some((before, rules)) = help.split_once("Allocator rules") {
            let rules = rules.split_once("\nExample").map_or(rules, |(rules, _)| rules);
            assert_eq!(rules.matches("\n      --").count(), 8, "{name}: {rules}");
            assert!(before.contains("--json") || before.contains("--output"), "{name}");
        }
        assert!(help.contains("Usage: oomscope") && help.contains("Example"), "{name}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{name}");
    }
}
