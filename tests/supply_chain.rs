//! What is built into the binary: where it comes from, under which licences, and what runs while it is built.
//!
//! The same rules as in deny.toml, for machines that have no cargo-deny and no network.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Licences that a binary under MIT OR Apache-2.0 may contain.
const LICENCES: [&str; 9] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates whose build scripts were read: they ask the compiler what it can do, and zstd-sys compiles the C code that it
/// brings along. None of them uses the network.
const BUILD_SCRIPTS: [&str; 23] = [
    "anyhow",
    "constant_time_eq",
    "crc32fast",
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-utils",
    "getrandom",
    "libc",
    "nix",
    "num-traits",
    "portable-atomic",
    "proc-macro2",
    "quote",
    "rayon-core",
    "rustix",
    "rustversion",
    "serde",
    "serde_core",
    "serde_json",
    "thiserror",
    "zmij",
    "zstd-safe",
    "zstd-sys",
];

/// The packages of the shipped binary (dependencies of tests and benchmarks are left out).
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let shipped =
            |dependency: &&Value| dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] != "dev");
        let dependencies = node["deps"].as_array().unwrap().iter().filter(shipped);
        needs.insert(text(&node["id"]), dependencies.map(|dependency| text(&dependency["pkg"])).collect());
    }
    let mut found = BTreeSet::new();
    let mut open = vec![text(&metadata["resolve"]["root"])];
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(needs[&id].iter().cloned());
        }
    }
    let all = metadata["packages"].as_array().unwrap().iter();
    all.filter(|package| found.contains(package["id"].as_str().unwrap())).cloned().collect()
}

/// Whether one of the alternatives of `expression` needs allowed licences only.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    // `(A OR B) AND C`, the one mixed form in use, reads as `A OR B AND C` without its brackets: stricter.
    plain.split(" OR ").any(|alternative| alternative.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn dependencies_are_what_was_agreed_on() {
    let packages = packages();
    assert!(packages.len() > 20);
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut scripts = BTreeSet::new();
    let own: (u64, u64) = rust_version(env!("CARGO_PKG_RUST_VERSION"));
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_allowed(licence), "{name}: {licence}");
        if name != env!("CARGO_PKG_NAME") {
            let source = package["source"].as_str().unwrap_or("a path");
            assert!(source.starts_with("registry+"), "{name} comes from {source}");
        }
        if let Some(version) = package["rust_version"].as_str() {
            assert!(rust_version(version) <= own, "{name} needs Rust {version}");
        }
        let targets = package["targets"].as_array().unwrap();
        if targets.iter().any(|target| target["kind"][0] == "custom-build") {
            scripts.insert(name);
        }
        *versions.entry(name).or_default() += 1;
    }
    // Macros are moving from one version of syn to the next; it runs at build time only.
    let twice: Vec<_> = versions.iter().filter(|(name, count)| **count > 1 && **name != "syn").collect();
    assert!(twice.is_empty(), "in two versions: {twice:?}");
    let unread: Vec<_> = scripts.iter().filter(|name| !BUILD_SCRIPTS.contains(name)).collect();
    assert!(unread.is_empty(), "build scripts that nobody has read: {unread:?}");
}

fn rust_version(text: &str) -> (u64, u64) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap_or(0))
}

#[test]
fn licence_expressions_are_understood() {
    for allowed in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "BSD-3-Clause AND BSD-2-Clause"] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in ["GPL-3.0", "MIT AND GPL-3.0", "none", ""] {
        assert!(!is_allowed(refused), "{refused}");
    }
}
