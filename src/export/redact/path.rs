//! Which parts of a path are everybody's, and stand-ins for the others.

use std::collections::HashMap;

/// Packages whose files are public, so that their names tell nothing about who runs them.
const PUBLIC_PACKAGES: [&str; 38] = [
    "accelerate",
    "apex",
    "bitsandbytes",
    "datasets",
    "deepspeed",
    "diffusers",
    "flash_attn",
    "functorch",
    "huggingface_hub",
    "ignite",
    "jax",
    "lightning",
    "lightning_fabric",
    "megatron",
    "mmcv",
    "monai",
    "numpy",
    "nvidia",
    "peft",
    "pytorch_lightning",
    "ray",
    "safetensors",
    "scipy",
    "sentence_transformers",
    "sglang",
    "tensorrt",
    "timm",
    "torch",
    "torch_npu",
    "torch_xla",
    "torchaudio",
    "torchgen",
    "torchvision",
    "transformers",
    "triton",
    "trl",
    "vllm",
    "xformers",
];

/// Names of what is executed without a file.
const PUBLIC_TEXTS: [&str; 5] = ["<string>", "<stdin>", "<unknown>", "<unknown file>", "<module>"];

/// Directories by which C++ code is known to be torch's or the interpreter's.
const NATIVE_DIRECTORIES: [&str; 13] =
    ["torch", "csrc", "aten", "src", "ATen", "c10", "cuda", "core", "Python", "Objects", "Modules", "lib", "bin"];

/// How the files of their binaries begin.
const NATIVE_LIBRARIES: [&str; 7] =
    ["libtorch", "libc10", "libpython", "libstdc++", "libc.so", "libpthread", "ld-linux"];

/// Endings that say what kind of file it is.
const ENDINGS: [&str; 16] = [
    ".py", ".pyx", ".ipynb", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cu", ".cuh", ".so", ".inl", ".hip", ".mm",
    ".dll",
];

/// Stand-ins in order of appearance: `dir1`, `file2.py`. Equal names have equal ones.
#[derive(Default)]
pub(super) struct Paths {
    directories: HashMap<String, usize>,
    files: HashMap<String, usize>,
}

impl Paths {
    /// `path` from byte `start` on, with its private components replaced. Whether a component is private is judged by
    /// the whole path.
    pub(super) fn replace(&mut self, path: &str, start: usize) -> String {
        if path.is_empty() || path == "??" || PUBLIC_TEXTS.contains(&path) || path.starts_with("<frozen ") {
            return path.to_owned();
        }
        if let Some(inner) = path.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            // Code without a name of its own is told by this word.
            let kind = if inner.contains("unknown") { "unknown " } else { "" };
            return format!("<{kind}{}>", self.file(path));
        }
        let parts: Vec<&str> = path.split(['/', '\\']).collect();
        let public = public(&parts);
        let mut replaced = String::with_capacity(path.len());
        let mut at = 0;
        for (number, part) in parts.iter().enumerate() {
            let is_last = number + 1 == parts.len();
            if at >= start {
                match *part {
                    "" | "." | ".." => replaced.push_str(part),
                    _ if public[number] => replaced.push_str(part),
                    _ if is_last => replaced.push_str(&self.file(part)),
                    _ => replaced.push_str(&self.directory(part)),
                }
                if !is_last {
                    replaced.push_str(&path[at + part.len()..][..1]);
                }
            }
            at += part.len() + 1;
        }
        replaced
    }

    fn directory(&mut self, name: &str) -> String {
        let next = self.directories.len() + 1;
        format!("dir{}", self.directories.entry(name.to_owned()).or_insert(next))
    }

    fn file(&mut self, name: &str) -> String {
        let next = self.files.len() + 1;
        let number = *self.files.entry(name.to_owned()).or_insert(next);
        let library = NATIVE_LIBRARIES.iter().find(|library| name.starts_with(*library));
        let ending = ENDINGS.iter().find(|ending| name.ends_with(*ending));
        let (library, ending) = (library.map_or(String::new(), |library| format!("{library}-")), ending.unwrap_or(&""));
        format!("{library}file{number}{ending}")
    }
}

/// For each component whether everybody may see it.
fn public(parts: &[&str]) -> Vec<bool> {
    let mut public = vec![false; parts.len()];
    let Some((file, directories)) = parts.split_last() else { return public };
    let is_interpreter = |name: &str| {
        let rest = name.to_ascii_lowercase();
        let version = rest.strip_prefix("python").map(|version| version.trim_start_matches('-').to_owned());
        version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    // The standard library, or the packages in it.
    let library =
        directories.windows(2).position(|pair| pair[0].eq_ignore_ascii_case("lib") && is_interpreter(pair[1]));
    if let Some(at) = library {
        (public[at], public[at + 1]) = (true, true);
    }
    if let Some(at) = directories.iter().position(|part| matches!(*part, "site-packages" | "dist-packages")) {
        public[at] = true;
        if parts.get(at + 1).is_some_and(|package| PUBLIC_PACKAGES.contains(package)) {
            public[at + 1..].fill(true);
        }
        return public;
    }
    if [".py", ".pyx", ".ipynb"].iter().any(|ending| file.ends_with(ending)) {
        match library {
            Some(at) => public[at..].fill(true),
            None if directories.first() == Some(&"torch") => public.fill(true),
            None => {
                // Windows: `Python311\Lib\queue.py`.
                if let [.., python, library] = directories
                    && is_interpreter(python)
                    && library.eq_ignore_ascii_case("lib")
                {
                    let count = parts.len();
                    public[count - 3..].fill(true);
                }
            }
        }
        return public;
    }
    let known = directories.iter().position(|part| matches!(*part, "torch" | "aten" | "c10" | "Python" | "Objects"));
    if let Some(at) = known {
        // From there on words of their trees only: a program may have a `torch` directory of its own.
        for number in at..directories.len() {
            public[number] = NATIVE_DIRECTORIES.contains(&directories[number]);
        }
    }
    if let [.., "bin"] = directories
        && is_interpreter(file)
    {
        let count = parts.len();
        public[count - 2..].fill(true);
    }
    if let Some(at) = directories.iter().position(|part| *part == "x86_64-linux-gnu") {
        public[at.saturating_sub(1)..=at].fill(true);
    }
    public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_components_are_replaced_and_public_ones_stay() {
        let mut paths = Paths::default();
        let mut of = |path: &str| paths.replace(path, 0);
        assert_eq!(of("/home/alice/proj/train.py"), "/dir1/dir2/dir3/file1.py");
        assert_eq!(of("/home/alice/proj/model.py"), "/dir1/dir2/dir3/file2.py");
        assert_eq!(of("C:\\Users\\alice\\train.py"), "dir4\\dir5\\dir2\\file1.py");
        let torch = of("/home/alice/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py");
        assert_eq!(torch, "/dir1/dir2/dir6/lib/python3.11/site-packages/torch/nn/modules/linear.py");
        let own = of("/opt/lib/python3.11/site-packages/acme_models/secret.py");
        assert_eq!(own, "/dir7/lib/python3.11/site-packages/dir8/file3.py");
        assert_eq!(of("/usr/lib/python3.11/asyncio/events.py"), "/dir9/lib/python3.11/asyncio/events.py");
        assert_eq!(of("torch/nn/functional.py"), "torch/nn/functional.py");
        assert_eq!(of("/home/alice/torch/train.py"), "/dir1/dir2/dir10/file1.py");
        assert_eq!(of("<ipython-input-3-abc>"), "<file4>");
        for same in ["<string>", "<frozen runpy>", "??", ""] {
            assert_eq!(of(same), same);
        }
    }

    #[test]
    fn c_plus_plus_keeps_what_tells_whose_it_is() {
        let mut paths = Paths::default();
        let mut of = |path: &str| paths.replace(path, 0);
        assert_eq!(of("/build/alice/c10/cuda/Allocator.cpp"), "/dir1/dir2/c10/cuda/file1.cpp");
        assert_eq!(of("/home/alice/ext/op.cu"), "/dir3/dir2/dir4/file2.cu");
        assert_eq!(of("/opt/alice/libtorch_cpu.so"), "/dir5/dir2/libtorch-file3.so");
    }

    #[test]
    fn what_stands_before_the_start_is_left_out() {
        let path = "/home/alice/proj/train.py";
        assert_eq!(Paths::default().replace(path, "/home/alice/".len()), "dir1/file1.py");
    }
}
