//! Every command in the documentation runs, and the README's picture is what the tool draws.

mod common;

use std::fs;
use std::path::Path;

use common::{files, oomscope, run_in, testdata};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lines of the `sh` blocks of a Markdown text without comments, and the status that each ends with: 0 unless its
/// comment says `exit status N`.
fn commands(text: &str) -> Vec<(String, i32)> {
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = line == "```sh";
        } else if in_block {
            let (command, comment) = line.split_once(" #").unwrap_or((line, ""));
            let status = comment.split_once("exit status ").map_or(0, |(_, status)| status.trim().parse().unwrap());
            found.push((command.trim().to_owned(), status));
        }
    }
    found
}

#[test]
fn documented_commands_run() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(testdata(), directory.path().join("testdata")).unwrap();
    let mut pages = files(&project().join("docs"), |name| name.ends_with(".md"));
    pages.push(project().join("README.md"));
    let mut visited = 0;
    for page in pages {
        for (command, status) in commands(&fs::read_to_string(&page).unwrap()) {
            let own = command.strip_prefix("cargo run --release -- ").or(command.strip_prefix("oomscope "));
            let Some(arguments) = own else {
                // Building and testing are what runs this test.
                assert!(
                    command.starts_with("cargo ") || command.starts_with("benches/"),
                    "{}: {command}",
                    page.display()
                );
                continue;
            };
            let run = run_in(directory.path(), arguments.split_whitespace(), &[]);
            assert_eq!(run.status, status, "{}: {command}\n{}", page.display(), run.stderr);
            visited += 1;
        }
    }
    assert!(visited > 15, "{visited} commands");
}

#[test]
fn the_picture_of_the_readme_is_current() {
    let picture = project().join("docs/timeline.svg");
    let drawn = oomscope(["timeline", "testdata/rig/2.6.0/decode_atoom.pickle"]).stdout;
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        fs::write(&picture, &drawn).unwrap();
    }
    assert_eq!(drawn, fs::read_to_string(picture).unwrap(), "OOMSCOPE_BLESS=1 accepts the new picture");
}

/// The report printed in the README is the one that its first command prints.
#[test]
fn the_report_of_the_readme_is_current() {
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    let shown = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let printed = oomscope(["report", "testdata/rig/2.6.0/decode_atoom.pickle"]).stdout;
    for line in shown.lines() {
        assert!(printed.contains(line), "not printed: {line}");
    }
}

/// The conclusion printed in the recipes is the one that the command before it prints.
#[test]
fn the_conclusion_of_the_recipes_is_current() {
    let recipes = fs::read_to_string(project().join("docs/recipes.md")).unwrap();
    let shown = recipes.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let files = ["testdata/rig/2.6.0/decode.pickle", "testdata/rig/2.6.0/decode_expandable.pickle"];
    let printed = oomscope(["diff", files[0], files[1]]).stdout;
    assert!(printed.contains(shown), "{printed}");
}
