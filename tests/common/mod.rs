//! What several tests need.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use oomscope::snapshot::{FrameId, LoadOptions, Snapshot, Source, StackId, load};

/// The project's own test files.
pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The collection of real snapshots beside a developer's checkout (`OOMSCOPE_SHARED`), when it is there.
pub fn shared_data() -> Option<PathBuf> {
    let root = std::env::var_os("OOMSCOPE_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let data = root.join("data");
    if data.is_dir() {
        return Some(data);
    }
    println!("skipped: no {} (set OOMSCOPE_SHARED)", data.display());
    None
}

/// Files below `dir` that `keep` accepts, sorted.
pub fn files(dir: &Path, keep: impl Fn(&str) -> bool + Copy) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, keep));
        } else if keep(path.file_name().unwrap().to_str().unwrap()) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// [`files`] of [`testdata`] that a recorder, or somebody who knows the format, has written: none of the hostile ones.
pub fn honest_files(keep: impl Fn(&str) -> bool + Copy) -> Vec<PathBuf> {
    let hostile = testdata().join("hostile");
    files(&testdata(), keep).into_iter().filter(|path| !path.starts_with(&hostile)).collect()
}

/// Whether a name is that of a snapshot pickle, compressed or not.
pub fn is_pickle(name: &str) -> bool {
    [".pickle", ".pickle.gz", ".pickle.zst"].iter().any(|ending| name.ends_with(ending))
}

/// `path` without its endings: `dir/NAME` of `dir/NAME.pickle.gz`.
pub fn stem(path: &Path) -> String {
    let text = path.to_str().unwrap();
    text.split(".pickle").next().unwrap().to_owned()
}

pub fn read(path: &Path) -> Snapshot {
    load(&Source::Path(path.to_owned()), &LoadOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn json(path: impl AsRef<Path>) -> serde_json::Value {
    let path = path.as_ref();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a run of the binary gave.
pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `oomscope` with `arguments` in the project's directory.
pub fn oomscope<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    run_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, &[])
}

/// Runs `oomscope` in `directory` with further environment variables.
pub fn run_in<S: AsRef<std::ffi::OsStr>>(
    directory: &Path,
    arguments: impl IntoIterator<Item = S>,
    variables: &[(&str, &str)],
) -> Run {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_oomscope"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("COLUMNS")
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The JSON that a command prints; the run must succeed.
pub fn json_of(arguments: &[&str]) -> serde_json::Value {
    let run = oomscope(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// Everything that a snapshot says, a line a row, with all handles resolved.
pub fn describe(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![
        format!("{} devices visible", snapshot.visible_devices),
        format!("settings {:?}", snapshot.settings),
        format!("torch {}", snapshot.format.torch()),
    ];
    for device in snapshot.devices.iter().chain(&snapshot.host) {
        lines.push(format!("device {} {}", device.ordinal, device.consistent));
        for segment in snapshot.segments_of(device) {
            lines.push(format!(
                "segment {} {:#x} {} {:?} {:?} {:?} stream {:#x} {:?} {:?} {} {} blocks {}",
                segment.device,
                segment.address,
                segment.total_size,
                segment.allocated_size,
                segment.active_size,
                segment.requested_size,
                snapshot.streams[segment.stream.index()],
                segment.kind,
                snapshot.pools[segment.pool.index()],
                segment.expandable,
                segment.blocks.len(),
                stack(snapshot, segment.stack),
            ));
            for block in snapshot.blocks_of(segment) {
                lines.push(format!(
                    "block {:#x} {} {} {:?} {} forward {}",
                    block.address,
                    block.size,
                    block.requested,
                    block.state,
                    stack(snapshot, block.stack),
                    stack(snapshot, block.forward),
                ));
            }
        }
        lines.extend(device.events.clone().map(|row| event(snapshot, row, true)));
    }
    lines.extend(snapshot.annotations.iter().map(|annotation| {
        let name = snapshot.text(annotation.name);
        format!("annotation {name} {} {} {}", annotation.starts, annotation.device, annotation.time_us)
    }));
    lines
}

/// One trace entry, resolved.
pub fn event(snapshot: &Snapshot, row: usize, with_time: bool) -> String {
    let event = snapshot.events.get(row);
    format!(
        "event {:?} {:#x} {} stream {:#x} {:?} {:?} {:?} time {} {} forward {}",
        event.action,
        event.addr,
        event.size,
        snapshot.streams[event.stream.index()],
        snapshot.pools[event.pool.index()],
        snapshot.text(event.compile_context),
        snapshot.text(event.user_metadata),
        if with_time { event.time_us } else { 0 },
        stack(snapshot, event.stack),
        stack(snapshot, event.forward),
    )
}

fn stack(snapshot: &Snapshot, stack: StackId) -> String {
    if stack == StackId::NONE {
        return "no stack".to_owned();
    }
    let frame = |id: &FrameId| {
        let frame = snapshot.frame(*id);
        format!("{}:{} {}", snapshot.text(frame.filename), frame.line, snapshot.text(frame.name))
    };
    format!("[{}]", snapshot.stacks.get(stack).iter().map(frame).collect::<Vec<_>>().join(" < "))
}

/// A Python that has `pyarrow` and `duckdb`, or `None` with a printed line: `OOMSCOPE_PYTHON`, else a virtual
/// environment made here, when the package index can be reached.
pub fn python_with_arrow() -> Option<PathBuf> {
    static PYTHON: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let found = PYTHON.get_or_init(|| {
        let works = |python: &Path| {
            let mut command = std::process::Command::new(python);
            command.args(["-c", "import duckdb, pyarrow.parquet"]).output().is_ok_and(|output| output.status.success())
        };
        if let Some(python) = std::env::var_os("OOMSCOPE_PYTHON").map(PathBuf::from) {
            assert!(works(&python), "{} has no pyarrow and duckdb", python.display());
            return Some(python);
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arrow-venv");
        let python = directory.join("bin/python");
        if !works(&python) {
            let run = |program: &Path, arguments: &[&std::ffi::OsStr]| {
                let output = std::process::Command::new(program).args(arguments).output();
                output.is_ok_and(|output| output.status.success())
            };
            let install = ["-m", "pip", "install", "--quiet", "--timeout", "15", "pyarrow", "duckdb", "pytz"];
            let _ = run(Path::new("python3"), &["-m".as_ref(), "venv".as_ref(), directory.as_os_str()])
                && run(&python, &install.map(std::ffi::OsStr::new));
        }
        works(&python).then_some(python)
    });
    if found.is_none() {
        println!("skipped: no Python with pyarrow and duckdb, and none could be installed (set OOMSCOPE_PYTHON)");
    }
    found.clone()
}
