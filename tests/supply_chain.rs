//! What is built into the binary: where it comes from, under which licences, and what runs while it is built.
//!
//! The same rules as in deny.toml, for machines that have no cargo-deny and no network.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Licences that a binary under MIT OR Apache-2.0 may contain.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages under other licences, which are known. The CDDL asks that the source of its files can be had, and it can:
/// they come unchanged from crates.io. The other is a licence in the manner of BSD's.
const OTHER_LICENCES: [(&str, &str); 2] = [("inferno", "CDDL-1.0"), ("libbz2-rs-sys", "bzip2-1.0.6")];

/// Packages that are there in two versions: macros are moving from one version of syn to the next, and Parquet and
/// serde-pickle need older ones than the rest.
const TWICE: [&str; 5] = ["getrandom", "num-bigint", "syn", "zstd", "zstd-safe"];

/// The member of the workspace that is not built by default.
const SQL: &str = "oomscope-sql";

/// Crates whose build scripts were read: they ask the compiler what it can do, and zstd-sys compiles the C code that it
/// brings along. None of them uses the network.
const BUILD_SCRIPTS: [&str; 27] = [
    "ahash",
    "anyhow",
    "constant_time_eq",
    "crc32fast",
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-utils",
    "getrandom",
    "libc",
    "libm",
    "nix",
    "num-traits",
    "portable-atomic",
    "proc-macro2",
    "proc-macro2-diagnostics",
    "quote",
    "rayon-core",
    "rustix",
    "rustversion",
    "serde",
    "serde_core",
    "serde_json",
    "thiserror",
    "zerocopy",
    "zmij",
    "zstd-safe",
    "zstd-sys",
];

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What cargo answers, or why it does not.
fn cargo(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// `name version` of what `package` is built from and with; dependencies of tests and benchmarks are left out.
///
/// The metadata of a workspace has every member's features switched on in all packages; the tree has those of one.
fn tree(package: &str) -> BTreeSet<String> {
    let arguments =
        ["tree", "--locked", "--offline", "--package", package, "--edges", "normal,build", "--prefix", "none"];
    let text = cargo(&[&arguments[..], &["--format", "{p}", "--target", PLATFORM]].concat());
    let text = text.unwrap_or_else(|error| panic!("run `cargo fetch` first: {error}"));
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.trim_start_matches('v')))
    });
    words.collect()
}

/// What cargo knows of every package of the workspace.
fn metadata() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM];
    // Who has built only the core lacks the packages of the member, which cargo wants to see as well.
    let text = cargo(&[&arguments[..], &["--offline"]].concat()).or_else(|_| cargo(&arguments));
    let text = text.unwrap_or_else(|error| panic!("run `cargo fetch` first: {error}"));
    let metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The packages that `package` is built from and with.
fn packages(package: &str) -> Vec<Value> {
    let tree = tree(package);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let key = |package: &Value| format!("{} {}", text(&package["name"]), text(&package["version"]));
    let found: Vec<Value> = metadata().into_iter().filter(|package| tree.contains(&key(package))).collect();
    assert_eq!(found.len(), tree.len());
    found
}

fn is_own(package: &Value) -> bool {
    [env!("CARGO_PKG_NAME"), SQL].iter().any(|own| package["name"] == *own)
}

/// Licences and sources, which hold for all that is built here.
fn assert_origin(package: &Value) {
    let name = package["name"].as_str().unwrap();
    let licence = package["license"].as_str().unwrap_or("none");
    assert!(is_allowed(licence) || OTHER_LICENCES.contains(&(name, licence)), "{name}: {licence}");
    if !is_own(package) {
        let source = package["source"].as_str().unwrap_or("a path");
        assert!(source.starts_with("registry+"), "{name} comes from {source}");
    }
}

/// Whether one of the alternatives of `expression` needs allowed licences only.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    // `(A OR B) AND C`, the one mixed form in use, reads as `A OR B AND C` without its brackets: stricter.
    plain.split(" OR ").any(|alternative| alternative.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn dependencies_are_what_was_agreed_on() {
    let packages = packages(env!("CARGO_PKG_NAME"));
    assert!(packages.len() > 20);
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut scripts = BTreeSet::new();
    let own: (u64, u64) = rust_version(env!("CARGO_PKG_RUST_VERSION"));
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        assert_origin(package);
        if let Some(version) = package["rust_version"].as_str() {
            assert!(rust_version(version) <= own, "{name} needs Rust {version}");
        }
        let targets = package["targets"].as_array().unwrap();
        if targets.iter().any(|target| target["kind"][0] == "custom-build") {
            scripts.insert(name);
        }
        *versions.entry(name).or_default() += 1;
    }
    let twice: Vec<&str> = versions.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    assert_eq!(twice, TWICE, "in two versions");
    let unread: Vec<_> = scripts.iter().filter(|name| !BUILD_SCRIPTS.contains(name)).collect();
    assert!(unread.is_empty(), "build scripts that nobody has read: {unread:?}");
}

/// The SQL plug-in, which is built by those who ask for it, has an engine with some three hundred packages behind it.
/// They are held to licences and sources; nobody has read their build scripts, and it needs a newer Rust.
#[test]
fn the_plug_in_is_apart() {
    let plug_in = packages(SQL);
    for package in &plug_in {
        assert_origin(package);
    }
    // Nothing of it gets into the core.
    let core = tree(env!("CARGO_PKG_NAME"));
    assert!(core.len() < plug_in.len() / 2, "{} and {} packages", core.len(), plug_in.len());
    for heavy in ["datafusion", "ballista", "tokio", "arrow-array"] {
        assert!(!core.iter().any(|package| package.starts_with(&format!("{heavy} "))), "{heavy} is in the core");
    }
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
