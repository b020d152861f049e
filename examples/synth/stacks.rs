//! The stacks of the imaginary program: Python frames, and C++ frames where they are wanted.

use serde::Serialize;

/// A frame as the file shows it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Frame {
    pub name: String,
    pub filename: String,
    pub line: u32,
}

/// Index into [`Stacks::stacks`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StackId(pub usize);

/// Distinct frames, and stacks of them, innermost first.
pub struct Stacks {
    pub frames: Vec<Frame>,
    pub stacks: Vec<Vec<usize>>,
    depth: usize,
    cpp: bool,
}

/// What a stack does at its inner end.
#[derive(Clone, Copy, PartialEq)]
pub enum Inner {
    Malloc,
    Free,
}

const TORCH: &str = "/usr/lib/python3.12/site-packages/torch";
const HOME: &str = "/home/user/train";

const CPP_MALLOC: [(&str, &str); 9] = [
    ("torch::unwind::unwind()", "??"),
    ("torch::CapturedTraceback::gather(bool, bool, bool)", "??"),
    ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
    (
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, unsigned long, CUstream_st*)",
        "CUDACachingAllocator.cpp",
    ),
    (
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, unsigned long, CUstream_st*)",
        "CUDACachingAllocator.cpp",
    ),
    (
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
        "CUDACachingAllocator.cpp",
    ),
    (
        "at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*, c10::DispatchKeySet, c10::ScalarType, \
         std::optional<c10::MemoryFormat>)",
        "??",
    ),
    (
        "at::detail::empty_cuda(c10::ArrayRef<long>, c10::ScalarType, std::optional<c10::Device>, std::optional<c10::MemoryFormat>)",
        "??",
    ),
    ("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)", "??"),
];
const CPP_FREE: [(&str, &str); 6] = [
    ("torch::unwind::unwind()", "??"),
    ("torch::CapturedTraceback::gather(bool, bool, bool)", "??"),
    ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
    ("c10::cuda::CUDACachingAllocator::Native::local_raw_delete(void*)", "CUDACachingAllocator.cpp"),
    ("c10::StorageImpl::~StorageImpl()", "??"),
    ("c10::TensorImpl::~TensorImpl()", "??"),
];
const CPP_BACKWARD: [(&str, &str); 7] = [
    ("torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", "??"),
    (
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&, torch::autograd::Node*, \
         torch::autograd::InputBuffer&, std::shared_ptr<torch::autograd::ReadyQueue> const&)",
        "??",
    ),
    ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "??"),
    ("torch::autograd::Engine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> const&, bool)", "??"),
    (
        "torch::autograd::python::PythonEngine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> const&, bool)",
        "??",
    ),
    ("execute_native_thread_routine", "thread48.o"),
    ("start_thread", "./nptl/pthread_create.c"),
];

impl Stacks {
    /// No stacks yet; each will have about `depth` Python frames, and C++ frames between them if `cpp`.
    pub fn new(depth: usize, cpp: bool) -> Self {
        Self { frames: Vec::new(), stacks: Vec::new(), depth, cpp }
    }

    /// A stack that runs Python: `inner` frames of the program or of torch, enough frames around them, and the main program.
    pub fn python(&mut self, inner: &[(&str, &str, u32)], at: Inner, operator: &str) -> StackId {
        let main = [("train_step", "train.py", 118), ("main", "train.py", 204), ("<module>", "train.py", 231)];
        let room = self.depth.saturating_sub(main.len()).max(1);
        let mut frames: Vec<Frame> =
            inner.iter().take(room).map(|&(name, file, line)| python_frame(name, file, line)).collect();
        let wrappers = [
            ("_call_impl", "nn/modules/module.py", 1750),
            ("_wrapped_call_impl", "nn/modules/module.py", 1739),
            ("forward", "model.py", 0),
        ];
        for n in 0..room - frames.len() {
            let (name, file, line) = wrappers[n % 3];
            // Each wrapping module is another place in the program.
            frames.push(python_frame(name, file, if line == 0 { 300 + n as u32 } else { line }));
        }
        frames.extend(main.map(|(name, file, line)| python_frame(name, file, line)));
        let mut stack = self.cpp_operator(at, operator);
        for frame in frames {
            let id = self.frame(frame);
            stack.push(id);
            if self.cpp {
                for name in ["_PyEval_EvalFrameDefault", "_PyFunction_Vectorcall"] {
                    stack.push(self.frame(cpp_frame(name, "/usr/src/python/Python/ceval.c")));
                }
            }
        }
        self.add(stack)
    }

    /// A stack of the backward thread, which has no Python frames.
    pub fn backward(&mut self, at: Inner, operator: &str) -> StackId {
        let mut stack = self.cpp_operator(at, &format!("torch::autograd::generated::{operator}::apply"));
        if self.cpp {
            stack.extend(CPP_BACKWARD.map(|(name, file)| self.frame(cpp_frame(name, file))));
        }
        self.add(stack)
    }

    fn cpp_operator(&mut self, at: Inner, operator: &str) -> Vec<usize> {
        if !self.cpp {
            return Vec::new();
        }
        let inner: &[(&str, &str)] = if at == Inner::Malloc { &CPP_MALLOC } else { &CPP_FREE };
        let mut stack: Vec<usize> = inner.iter().map(|&(name, file)| self.frame(cpp_frame(name, file))).collect();
        for suffix in [
            "redispatch(c10::DispatchKeySet, at::Tensor const&, at::Tensor const&)",
            "call(at::Tensor const&, at::Tensor const&)",
        ] {
            stack.push(self.frame(cpp_frame(&format!("at::_ops::{operator}::{suffix}"), "??")));
        }
        stack
    }

    fn frame(&mut self, frame: Frame) -> usize {
        self.frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
            self.frames.push(frame);
            self.frames.len() - 1
        })
    }

    fn add(&mut self, stack: Vec<usize>) -> StackId {
        self.stacks.push(stack);
        StackId(self.stacks.len() - 1)
    }
}

/// Paths with a folder are torch's, others the program's.
fn python_frame(name: &str, file: &str, line: u32) -> Frame {
    let root = if file.contains('/') { TORCH } else { HOME };
    Frame { name: name.to_owned(), filename: format!("{root}/{file}"), line }
}

fn cpp_frame(name: &str, file: &str) -> Frame {
    Frame { name: name.to_owned(), filename: file.to_owned(), line: 0 }
}
