//! What the frames of a stack tell about the block that was allocated there, or freed.

use super::super::owner::{Owner, is_python, owner};
use crate::snapshot::{Frame, FrameId, Snapshot, StackId};

/// Where in a program a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// What the innermost telling frame says.
    pub place: Place,
    /// Whether it runs within a backward pass.
    pub in_backward: bool,
    /// Whether it is known to run in the program's main course, so that no backward pass is under way any more.
    pub is_main: bool,
}

/// What a frame tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing: there are no frames.
    NoFrames,
    /// No frame tells.
    Elsewhere,
    /// The construction, conversion or loading of a module.
    Construction,
    /// A constructor of the program itself.
    Constructor,
    /// A module's forward pass.
    Forward,
    /// The engine of the backward pass.
    Backward,
    /// An optimiser's step.
    Optimizer,
    /// Where an optimiser makes its state.
    OptimizerState,
    /// A cache of keys and values.
    KvCache,
    /// A collective, or what prepares one.
    Communication,
    /// Scratch memory of a library.
    Workspace,
    /// A batch on its way to the device.
    DataCopy,
}

/// The origin of every stack, by [`StackId`].
pub(super) fn origins(snapshot: &Snapshot) -> Vec<Origin> {
    let marks: Vec<Mark> = snapshot.frames.iter().map(|frame| mark(snapshot, frame)).collect();
    let has_python = snapshot.frames.iter().any(|frame| is_python(snapshot.text(frame.filename)));
    (0..snapshot.stacks.len() as u32).map(|stack| origin(snapshot, StackId(stack), &marks, has_python)).collect()
}

/// What one frame tells.
#[derive(Clone, Copy)]
struct Mark {
    place: Option<Place>,
    in_backward: bool,
    /// Whether it is named `backward`.
    is_backward: bool,
    /// Whether it calls the forward or the backward function of an `autograd.Function`.
    applies_function: bool,
    is_python: bool,
    /// Whether its name is that of a function which moves a batch to the device.
    moves_data: bool,
    /// Whether it is a constructor.
    constructs: bool,
    is_user: bool,
}

fn origin(snapshot: &Snapshot, stack: StackId, marks: &[Mark], has_python: bool) -> Origin {
    let frames = snapshot.stacks.get(stack);
    if frames.is_empty() {
        // Threads without Python frames are those of the backward pass, when other stacks have some.
        let place = if has_python { Place::Backward } else { Place::NoFrames };
        return Origin { place, in_backward: has_python, is_main: false };
    }
    let of = |frame: &FrameId| marks[frame.index()];
    let calls_backward = |pair: &[FrameId]| of(&pair[0]).is_backward && of(&pair[1]).applies_function;
    let in_backward = frames.iter().any(|frame| of(frame).in_backward) || frames.windows(2).any(calls_backward);
    let user = frames.iter().map(of).find(|mark| mark.is_user);
    let place = match frames.iter().find_map(|frame| of(frame).place) {
        Some(place) => place,
        None if user.is_some_and(|user| user.constructs) => Place::Constructor,
        None if in_backward => Place::Backward,
        None if user.is_some_and(|user| user.moves_data) => Place::DataCopy,
        None => Place::Elsewhere,
    };
    let outermost = frames.iter().rev().find(|frame| of(frame).is_python);
    let is_module = outermost.is_some_and(|&frame| snapshot.text(snapshot.frame(frame).name) == "<module>");
    let is_main = !in_backward && (is_module || !matches!(place, Place::Elsewhere | Place::Backward));
    Origin { place, in_backward, is_main }
}

fn mark(snapshot: &Snapshot, frame: &Frame) -> Mark {
    let (path, name) = (snapshot.text(frame.filename), snapshot.text(frame.name));
    let nothing = Mark {
        place: None,
        in_backward: false,
        is_backward: false,
        applies_function: false,
        is_python: false,
        moves_data: false,
        constructs: false,
        is_user: false,
    };
    if !is_python(path) {
        let is = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let place = match () {
            _ if is(&WORKSPACE) => Some(Place::Workspace),
            _ if is(&["c10d::", "ncclComm"]) => Some(Place::Communication),
            _ => None,
        };
        return Mark { place, in_backward: is(&ENGINE), ..nothing };
    }
    let path = path.replace('\\', "/");
    let is_in = |part: &str| path.contains(part) || path.starts_with(part.trim_start_matches('/'));
    let is_user = owner(snapshot, frame) == Owner::User;
    let makes_module = CONSTRUCTION.contains(&name);
    let file = path.rsplit('/').next().unwrap_or_default();
    let place = match () {
        _ if is_in("/torch/optim/") || OPTIMIZERS.iter().any(|part| is_in(part)) => Some(match name {
            "_init_group" | "_init_state" | "init_state" | "state_init" | "load_state_dict" => Place::OptimizerState,
            _ => Place::Optimizer,
        }),
        _ if is_in("/torch/distributed/fsdp/") && SHARDING.contains(&name) => Some(Place::Construction),
        _ if COMMUNICATION.iter().any(|part| is_in(part)) => Some(Place::Communication),
        _ if KV_FILES.contains(&file) || is_kv_name(name) => Some(Place::KvCache),
        _ if is_in("/torch/utils/data/") || DATA_FUNCTIONS.contains(&name) && !is_user => Some(Place::DataCopy),
        _ if is_in("/torch/nn/modules/module.py") && makes_module => Some(Place::Construction),
        _ if is_in("/torch/nn/modules/") && matches!(name, "__init__" | "reset_parameters") => {
            Some(Place::Construction)
        }
        _ if is_in("/torch/nn/init.py") || is_in("/torch/nn/parameter.py") => Some(Place::Construction),
        _ if LOADERS.iter().any(|part| is_in(part)) => Some(Place::Construction),
        _ if matches!(name, "from_pretrained" | "_load_state_dict_into_model" | "create_weights") => {
            Some(Place::Construction)
        }
        _ if is_in("/torch/nn/modules/module.py") && name.ends_with("_call_impl") => Some(Place::Forward),
        _ => None,
    };
    let in_backward = match () {
        _ if is_in("/torch/autograd/__init__.py") => {
            name == "backward" || name == "grad" || name.starts_with("_make_grads")
        }
        _ if is_in("/torch/autograd/graph.py") => name == "_engine_run_backward",
        _ if is_in("/torch/utils/checkpoint.py") => {
            matches!(name, "backward" | "unpack_hook" | "recompute_fn" | "recompute_context_fn")
        }
        _ if is_in("/torch/_functorch/") => name == "backward",
        _ => is_in("/torch/_tensor.py") && name == "backward",
    };
    Mark {
        place,
        in_backward,
        is_backward: name == "backward",
        applies_function: is_in("/torch/autograd/function.py") && name == "apply",
        is_python: true,
        moves_data: DATA_FUNCTIONS.contains(&name),
        constructs: name == "__init__",
        is_user,
    }
}

/// Parts of C++ names of what only runs in a backward pass.
const ENGINE: [&str; 2] = ["torch::autograd::Engine::", "torch::autograd::Node::operator()"];

/// Parts of C++ names that allocate scratch memory for a library.
const WORKSPACE: [&str; 6] = [
    "at::cuda::getNewWorkspace",
    "at::cuda::getCurrentCUDABlasHandle",
    "CUDABlasLtWorkspace",
    "CublasLtWorkspace",
    "cudnn::Workspace",
    "at::native::Workspace::",
];

/// Functions of `torch.nn.Module` that make or replace parameters.
const CONSTRUCTION: [&str; 12] = [
    "__init__",
    "_apply",
    "convert",
    "to",
    "to_empty",
    "cuda",
    "half",
    "float",
    "bfloat16",
    "double",
    "load_state_dict",
    "_load_from_state_dict",
];

/// Functions of FSDP that make the parts of parameters which a rank keeps; what it gathers is communication.
const SHARDING: [&str; 5] = [
    "flatten_tensors",
    "_init_flat_param_and_metadata",
    "shard",
    "_init_sharded_param",
    "_materialize_with_param_init_fn",
];

/// Files that read parameters from disk.
const LOADERS: [&str; 4] = [
    "/torch/serialization.py",
    "/safetensors/",
    "/vllm/model_executor/model_loader/",
    "/transformers/modeling_utils.py",
];

/// Optimisers outside torch.
const OPTIMIZERS: [&str; 6] = [
    "/bitsandbytes/optim/",
    "/apex/optimizers/",
    "/deepspeed/ops/adam/",
    "/transformers/optimization.py",
    "/torchao/optim/",
    "/galore_torch/",
];

const COMMUNICATION: [&str; 7] = [
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/_functional_collectives.py",
    "/torch/distributed/fsdp/",
    "/torch/distributed/_symmetric_memory/",
    "/torch/nn/parallel/distributed.py",
    "/torch/nn/parallel/comm.py",
    "/deepspeed/comm/",
];

/// Files that are only about caches of keys and values.
const KV_FILES: [&str; 6] =
    ["cache_utils.py", "kv_cache.py", "kvcache.py", "cache_engine.py", "kv_cache_manager.py", "kv_cache_interface.py"];

/// Whether a function's name says that it is about such a cache.
fn is_kv_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("kv_cache") || name.contains("kvcache")
}

/// Functions that move a batch to the device, by the names that people and frameworks give them.
const DATA_FUNCTIONS: [&str; 16] = [
    "batch",
    "get_batch",
    "next_batch",
    "load_batch",
    "fetch_batch",
    "make_batch",
    "collate",
    "collate_fn",
    "prefetch",
    "preload",
    "move_to_device",
    "batch_to_device",
    "transfer_batch_to_device",
    "move_data_to_device",
    "send_to_device",
    "_prepare_inputs",
];
