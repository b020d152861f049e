//! Every command in the documentation runs, its pictures are what the tool draws, and its links lead somewhere.

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

/// The words of a command as a shell has them: what stands in single quotes is one.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in command.split('\'').enumerate() {
        let mut pieces = if at % 2 == 0 { part.split(' ').collect() } else { vec![part] }.into_iter();
        if let (Some(first), Some(last)) = (pieces.next(), words.last_mut()) {
            last.push_str(first);
        }
        words.extend(pieces.map(str::to_owned));
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn documented_commands_run() {
    let mut pages = files(&project().join("docs"), |name| name.ends_with(".md"));
    pages.push(project().join("README.md"));
    let mut visited = 0;
    for page in pages {
        // Pages may use the same names for what they write.
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(testdata(), directory.path().join("testdata")).unwrap();
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
            let run = run_in(directory.path(), words(arguments), &[]);
            assert_eq!(run.status, status, "{}: {command}\n{}", page.display(), run.stderr);
            visited += 1;
        }
    }
    assert!(visited > 15, "{visited} commands");
}

/// The pictures of the documentation, and the commands that draw them.
const PICTURES: [(&str, &[&str]); 3] = [
    ("docs/timeline.svg", &["timeline", "testdata/rig/2.6.0/decode_atoom.pickle"]),
    ("docs/map.svg", &["map", "testdata/rig/2.6.0/decode_atoom.pickle"]),
    ("docs/flame.svg", &["flame", "testdata/rig/2.6.0/oom_train_atoom.pickle"]),
];

#[test]
fn the_pictures_are_current() {
    for (name, command) in PICTURES {
        let picture = project().join(name);
        let drawn = oomscope(command).stdout;
        if std::env::var_os("OOMSCOPE_BLESS").is_some() {
            fs::write(&picture, &drawn).unwrap();
        }
        assert!(drawn.starts_with("<svg") || drawn.starts_with("<?xml"), "{name}");
        assert_eq!(drawn, fs::read_to_string(picture).unwrap(), "{name}: OOMSCOPE_BLESS=1 accepts the new picture");
    }
}

/// Targets of the links and pictures in a Markdown text, outside of code.
fn links(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_block ^= line.starts_with("```");
        if !in_block {
            found.extend(line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
    }
    found
}

/// The anchors that a renderer gives the headings of a Markdown text.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letters = |heading: &str| heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
    headings.map(letters).map(|text: String| text.to_lowercase().replace(' ', "-")).collect()
}

/// Pages of the book link to pages of the book, the README and SECURITY.md to anything that is there.
#[test]
fn links_lead_somewhere() {
    let docs = project().join("docs");
    let mut pages = files(&docs, |name| name.ends_with(".md"));
    pages.extend(["README.md", "SECURITY.md"].map(|name| project().join(name)));
    let mut followed = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name("").join(path) };
            assert!(target.is_file(), "{}: {link} leads nowhere", page.display());
            assert!(!page.starts_with(&docs) || !path.contains(".."), "{}: {link} leaves the book", page.display());
            let known = || anchors(&fs::read_to_string(&target).unwrap());
            assert!(anchor.is_empty() || known().iter().any(|known| known == anchor), "{}: {link}", page.display());
            followed += 1;
        }
    }
    assert!(followed > 40, "{followed} links");
}

/// The book has every page, once.
#[test]
fn the_summary_lists_every_page() {
    let docs = project().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed = links(&summary);
    listed.sort_unstable();
    let pages = files(&docs, |name| name.ends_with(".md") && name != "SUMMARY.md");
    let mut there: Vec<&str> = pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap()).collect();
    there.sort_unstable();
    assert_eq!(listed, there);
    assert!(fs::read_to_string(project().join("book.toml")).unwrap().contains("src = \"docs\""));
}

/// The README names every command, by the question that it answers or in a section of its own.
#[test]
fn the_documentation_names_every_command() {
    let help = oomscope(["--help"]).stdout;
    let (commands, _) = help.split_once("\nOptions:").unwrap();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let mut named = 0;
    let text: String = files(&project().join("docs"), |name| name.ends_with(".md"))
        .into_iter()
        .chain([project().join("README.md")])
        .map(|page| fs::read_to_string(page).unwrap())
        .collect();
    for name in commands.lines().filter(is_name).filter_map(|line| line.split_whitespace().next()) {
        assert!(text.contains(&format!("oomscope {name}")), "{name}");
        named += 1;
    }
    assert!(named >= 17, "{named} commands");
}

/// Code to paste runs on every release that records: `torch.OutOfMemoryError` came with 2.5 only.
#[test]
fn code_to_paste_names_what_every_release_has() {
    for page in
        files(&project().join("docs"), |name| name.ends_with(".md")).into_iter().chain([project().join("README.md")])
    {
        let text = fs::read_to_string(&page).unwrap();
        assert!(!text.contains("except torch.OutOfMemoryError"), "{}", page.display());
    }
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
