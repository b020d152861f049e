//! Changes in the program: what is kept, in which order it is allocated, and what is computed at once.

use super::{CUDA_NOTES, Class, HF_GPU, Remedy, unknown};
use crate::oom::marks::Phase;
use crate::oom::verdict::Verdict;

const TUNING: &str = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html";

/// See the module.
pub(super) const ROWS: &[Remedy] = &[
    Remedy {
        id: "let_go",
        class: Class::Free,
        what: "{keeper}",
        why: "this line keeps what it adds with every step",
        applies: |case| case.is(Verdict::Accumulation) && case.keeper().is_some(),
        bytes: |case| case.keeper().map(|keeper| keeper.live),
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    },
    Remedy {
        id: "detach",
        class: Class::Free,
        what: "keep numbers, not graphs: `total += loss.item()` or loss.detach(), and .cpu() for outputs that are collected",
        why: "a tensor that is kept keeps its whole graph, or the whole storage that it is a view of",
        // Where it is known what is kept, the remedy for that goes before what usually is.
        applies: |case| case.is(Verdict::Accumulation) && case.keeper().is_none(),
        bytes: |case| case.facts.growth.as_ref().map(|growth| growth.bytes),
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    },
    Remedy {
        id: "inference_mode",
        class: Class::Free,
        what: "if this was evaluation: run it under torch.inference_mode() or torch.no_grad()",
        why: "without it every forward pass keeps what a backward pass would need",
        applies: |case| {
            ((case.is(Verdict::Accumulation) && case.keeper().is_none()) || (case.is_capacity() && !case.is_loading()))
                && !case.is_training()
                && !case.programs.vllm
                && !case.programs.sglang
        },
        bytes: unknown,
        conflicts: &[],
        since: "1.9",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html",
    },
    Remedy {
        id: "bound_caches",
        class: Class::Free,
        what: "bound caches keyed by shape or step, and clear lists that are filled in every step",
        why: "the growing lines never let go of what they add",
        applies: |case| case.is(Verdict::Accumulation) && case.keeper().is_none(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    },
    Remedy {
        id: "gc_collect",
        class: Class::Slower,
        what: "gc.collect() once every N steps, if the tensors hang in reference cycles",
        why: "Python frees cycles late; in every step it is slow",
        applies: |case| case.is(Verdict::Accumulation),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://docs.python.org/3/library/gc.html",
    },
    Remedy {
        id: "no_empty_cache_leak",
        class: Class::No,
        what: "torch.cuda.empty_cache()",
        why: "it gives back what is free; what is kept is not",
        applies: |case| case.is(Verdict::Accumulation),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "long_lived_first",
        class: Class::Free,
        what: "allocate {pins} before what comes and goes, or in one buffer",
        why: "beside short-lived blocks it pins the segments that they leave",
        // A snapshot tells whether there is such a line; a text does not.
        applies: |case| case.is_fragmented() && (case.facts.pin.is_some() || !case.facts.from_snapshot),
        bytes: |case| case.facts.pin.as_ref().map(|(_, pinned)| *pinned),
        conflicts: &[],
        since: "",
        link: TUNING,
    },
    Remedy {
        id: "longest_first",
        class: Class::Free,
        what: "run the longest batch first",
        why: "later batches then fit into the blocks of the first",
        applies: |case| case.is_fragmented() && case.is_training(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: TUNING,
    },
    Remedy {
        id: "pad_lengths",
        class: Class::Slower,
        what: "pad lengths to a few sizes (buckets)",
        why: "equal sizes reuse each other's blocks",
        applies: |case| case.is_fragmented() && case.is_training(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: TUNING,
    },
    Remedy {
        id: "check_shape",
        class: Class::Free,
        what: "find the line of the traceback and the shape of its result: a broadcast, an index, or a full attention matrix explains such a size",
        why: "one tensor of that size is seldom meant",
        applies: |case| case.is(Verdict::Giant),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
    },
    Remedy {
        id: "sdpa",
        class: Class::Free,
        what: "attn_implementation=\"sdpa\" or \"flash_attention_2\", scaled_dot_product_attention in code of your own",
        why: "a request of this size may be attention scores, which they never keep whole",
        applies: |case| {
            let may_be_scores = case.is(Verdict::Giant) || (case.is_capacity() && case.has_large_request());
            may_be_scores
                && !case.is_loading()
                && !case.programs.vllm
                && !case.programs.sglang
                && !case.torch.is_below((2, 0))
        },
        bytes: unknown,
        conflicts: &[],
        since: "2.0",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    },
    Remedy {
        id: "logits",
        class: Class::Slower,
        what: "compute the loss in chunks, or fused with the output layer, and logits only for positions that are used",
        why: "logits take batch × length × vocabulary × 4 bytes, often three times over",
        applies: |case| {
            (case.is(Verdict::Giant) || (case.is_capacity() && case.has_large_request())) && case.may_train()
        },
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: HF_GPU,
    },
    Remedy {
        id: "chunk",
        class: Class::Slower,
        what: "compute it in chunks along the batch or the length",
        why: "the request shrinks with the chunk",
        applies: |case| case.is(Verdict::Giant),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.chunk.html",
    },
    Remedy {
        id: "record_stream",
        class: Class::Free,
        what: "TORCH_NCCL_AVOID_RECORD_STREAMS=1, and no record_stream of your own: keep a reference until the event is done",
        why: "freed blocks wait until another stream has passed them",
        applies: |case| case.is(Verdict::Pending),
        bytes: |case| case.facts.pending,
        conflicts: &[],
        since: "2.1",
        link: "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html",
    },
    Remedy {
        id: "synchronise",
        class: Class::Slower,
        what: "bound the run-ahead: synchronise once a step, or limit_all_gathers of FSDP",
        why: "a CPU that runs ahead frees blocks long before the GPU is done with them",
        applies: |case| case.is(Verdict::Pending),
        bytes: |case| case.facts.pending,
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/fsdp.html",
    },
    Remedy {
        id: "no_fragmentation_options",
        class: Class::No,
        what: "expandable_segments and max_split_size_mb",
        why: "the blocks are whole, only not yet free",
        applies: |case| case.is(Verdict::Pending) && !case.judgement.has(Verdict::Fragmentation),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "share_graph_pool",
        class: Class::Free,
        what: "capture the largest graph first and let all graphs share one pool (torch.cuda.graph_pool_handle)",
        why: "each graph's pool keeps its own idle memory",
        applies: |case| case.is(Verdict::Pools),
        bytes: |case| case.facts.pool_idle,
        conflicts: &[],
        since: "1.10",
        link: "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
    },
    Remedy {
        id: "no_graphs",
        class: Class::Slower,
        what: "no CUDA graphs: torch.compile without mode=\"reduce-overhead\"; vLLM --enforce-eager; SGLang --disable-cuda-graph",
        why: "graph pools are not shared with the rest of the program",
        applies: |case| case.is(Verdict::Pools),
        bytes: |case| case.facts.pool_idle,
        conflicts: &[],
        since: "",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    },
    Remedy {
        id: "no_empty_cache_pools",
        class: Class::No,
        what: "torch.cuda.empty_cache()",
        why: "private pools are not flushed while they live",
        applies: |case| case.is(Verdict::Pools),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "load_on_cpu",
        class: Class::Free,
        what: "load with map_location=\"cpu\", mmap=True and low_cpu_mem_usage=True, and delete the state dict before training goes on",
        why: "a checkpoint read to the card is there twice",
        applies: |case| {
            case.in_phase(&Phase::Weights) && !case.programs.vllm && !case.programs.sglang && !case.is(Verdict::Outside)
        },
        bytes: unknown,
        conflicts: &[],
        since: "2.1",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.load.html",
    },
];
