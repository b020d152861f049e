//! Whose code a frame is: told from paths and, for C++, from names.
//!
//! Names are compared as wholes or by how they start. A part of a name would do harm: `_start` is in `train_start` too.

use crate::snapshot::{Frame, Snapshot};

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The program that was run.
    User,
    /// An installed package other than torch.
    Package,
    /// Torch or the standard library, in Python.
    Library,
    /// C++ outside torch.
    Native,
    /// C++ that may be outside torch: its file is not known.
    Unplaced,
    /// C++ of torch, the Python interpreter or the C library.
    NativeLibrary,
    /// The engine of the backward pass.
    Autograd,
}

/// Whose code `frame` is.
pub(super) fn owner(snapshot: &Snapshot, frame: &Frame) -> Owner {
    let filename = snapshot.text(frame.filename);
    let name = snapshot.text(frame.name);
    if is_python(filename) {
        let parts: Vec<&str> = filename.split(['/', '\\']).collect();
        let directories = &parts[..parts.len().saturating_sub(1)];
        let after_packages =
            directories.iter().position(|part| matches!(*part, "site-packages" | "dist-packages")).map(|at| at + 1);
        return match after_packages.and_then(|at| parts.get(at)) {
            Some(package) if is_torch(package) => Owner::Library,
            Some(_) => Owner::Package,
            None if is_standard_library(directories) || filename.starts_with("<frozen ") => Owner::Library,
            // A torch checkout, or paths with their roots stripped (`torch/nn/modules/linear.py`).
            None if directories.first() == Some(&"torch") => Owner::Library,
            None if is_generated(&parts) => Owner::Library,
            None => Owner::User,
        };
    }
    if ENGINE.iter().any(|part| name.contains(part)) {
        return Owner::Autograd;
    }
    let named = name.trim_start_matches("void ");
    let is_library = LIBRARY_NAMES.iter().any(|prefix| named.starts_with(prefix))
        || LIBRARY_PATHS.iter().any(|part| filename.contains(part))
        || RUNTIME_NAMES.contains(&name)
        || (matches!(filename, "" | "??") && matches!(name, "" | "??"));
    match filename {
        _ if is_library => Owner::NativeLibrary,
        // Symbolisers name the wrong function of a library that has no symbols.
        "" | "??" => Owner::Unplaced,
        _ => Owner::Native,
    }
}

/// Parts of names that only the backward pass has on its stack: forward operators are in `torch::autograd` too.
const ENGINE: [&str; 2] = ["torch::autograd::Engine::", "torch::autograd::Node::operator()"];

/// How C++ names of torch, of the C++ library and of the Python interpreter start.
const LIBRARY_NAMES: [&str; 13] = [
    "torch::",
    "at::",
    "c10::",
    "caffe2::",
    "std::",
    "__gnu_cxx::",
    "pybind11::",
    "_Py",
    "Py",
    "cuda",
    "cublas",
    "nccl",
    "THP",
];

/// Parts of the paths of their sources and binaries.
const LIBRARY_PATHS: [&str; 14] = [
    "/torch/",
    "/aten/",
    "/c10/",
    "libtorch",
    "libc10",
    "libpython",
    "libstdc++",
    "libc.so",
    "libpthread",
    "ld-linux",
    "/lib/x86_64-linux-gnu/",
    "/bin/python",
    "Python/",
    "Objects/",
];

/// Functions that start programs and threads.
const RUNTIME_NAMES: [&str; 8] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "clone",
    "clone3",
    "start_thread",
    "execute_native_thread_routine",
];

/// Code that torch.compile or torch.fx wrote: the program's line is the one that calls it.
fn is_generated(parts: &[&str]) -> bool {
    let file = parts.last().copied().unwrap_or_default();
    file.starts_with("<eval_with_key>")
        || file.starts_with("fx_generated_")
        || parts.iter().any(|part| part.starts_with("torchinductor_"))
}

/// Python source, a notebook cell, or text that was executed.
pub(super) fn is_python(filename: &str) -> bool {
    let file = filename.split(['/', '\\']).next_back().unwrap_or(filename);
    file.ends_with(".py")
        || file.ends_with(".pyx")
        || file.ends_with(".ipynb")
        || filename.starts_with("<eval_with_key>")
        || (filename.starts_with('<') && filename.ends_with('>') && !filename.contains("unknown"))
}

fn is_torch(package: &str) -> bool {
    matches!(package, "torch" | "torch_npu" | "torch_xla" | "torchgen" | "functorch" | "triton")
}

/// A directory `lib/python3.11` (or `Lib` on Windows, without packages in it).
fn is_standard_library(directories: &[&str]) -> bool {
    directories.windows(2).any(|pair| {
        pair[0].eq_ignore_ascii_case("lib")
            && pair[1].strip_prefix("python").is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    }) || matches!(directories, [.., python, "Lib"] | [.., python, "lib"] if python.to_ascii_lowercase().starts_with("python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_whose_code_it_is() {
        assert!(is_python("/app/train.py") && is_python("<ipython-input-3-abc>") && is_python("<string>"));
        assert!(!is_python("/app/alloc.cpp") && !is_python("??") && !is_python("libtorch.so"));
        assert!(is_standard_library(&["", "usr", "lib", "python3.11", "asyncio"]));
        assert!(is_standard_library(&["C:", "Python311", "Lib"]));
        assert!(!is_standard_library(&["", "home", "lib", "trainer"]));
        assert!(is_python("<eval_with_key>.7") && is_generated(&["<eval_with_key>.7"]));
        assert!(is_generated(&["", "tmp", "torchinductor_me", "ab", "cab.py"]));
        assert!(!is_generated(&["", "home", "me", "generated.py"]));
    }
}
