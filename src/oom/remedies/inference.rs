//! Inference servers and pipelines.

use super::{Class, DIFFUSERS_MEMORY, Remedy, SGLANG_TUNING, VLLM_MEMORY, unknown};
use crate::oom::marks::Phase;
use crate::oom::message::Kind;
use crate::oom::remedies::Case;
use crate::oom::verdict::Verdict;

/// vLLM's allocator failed for want of memory that its own budget decides on.
fn vllm_oom(case: &Case) -> bool {
    let is_short = case.is_capacity()
        || case.is(Verdict::Outside)
        || case.is(Verdict::Undecidable)
        || case.is_kind(Kind::CudaError);
    case.programs.vllm && is_short && !case.programs.training && !case.is_loading()
}

fn sglang_oom(case: &Case) -> bool {
    case.programs.sglang && (case.is_capacity() || case.is_fragmented()) && !case.is_loading()
}

fn diffusers_oom(case: &Case) -> bool {
    case.programs.diffusers && case.is_capacity() && !case.is_training()
}

fn kv_too_small(case: &Case) -> bool {
    case.is_kind(Kind::VllmKvCache)
}

/// See the module.
pub(super) const ROWS: &[Remedy] = &[
    Remedy {
        id: "vllm_lower_utilization",
        class: Class::Free,
        what: "lower --gpu-memory-utilization from {utilization}: by what CUDA graphs and other processes need",
        why: "vLLM gives all of its share to the KV cache; graphs, NCCL and others need what is left (before v0.21 graphs are outside the share)",
        applies: |case| vllm_oom(case) && !case.in_phase(&Phase::Profile) && !case.in_phase(&Phase::KvCache),
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_raise_utilization",
        class: Class::Free,
        what: "raise --gpu-memory-utilization from {utilization}, as far as other processes leave the card free",
        why: "the KV cache is what is left of vLLM's share after weights and activations",
        applies: kv_too_small,
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_free_first",
        class: Class::Free,
        what: "end the processes that hold the card, or lower --gpu-memory-utilization below what is free",
        why: "vLLM refuses to start when less is free than its share",
        applies: |case| case.is_kind(Kind::VllmStartupMemory),
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_max_model_len",
        class: Class::Result,
        what: "--max-model-len {kv_tokens}",
        why: "one sequence of full length must fit into the KV cache",
        applies: kv_too_small,
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_kv_dtype",
        class: Class::Result,
        what: "--kv-cache-dtype fp8",
        why: "keys and values take half the bytes",
        applies: |case| kv_too_small(case) || (vllm_oom(case) && case.was_ready),
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: "https://docs.vllm.ai/en/latest/features/quantization/quantized_kvcache.html",
    },
    Remedy {
        id: "vllm_tensor_parallel",
        class: Class::Slower,
        what: "--tensor-parallel-size 2, when there is a second card",
        why: "weights and KV cache are divided",
        applies: |case| kv_too_small(case) || (vllm_oom(case) && case.in_phase(&Phase::Profile)),
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: "https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html",
    },
    Remedy {
        id: "vllm_eager",
        class: Class::Slower,
        what: "--enforce-eager, or fewer and smaller cudagraph_capture_sizes",
        why: "it failed while CUDA graphs were captured, and each takes memory",
        applies: |case| case.programs.vllm && case.in_phase(&Phase::Graphs),
        bytes: |case| case.budget.graphs,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_batched_tokens",
        class: Class::Slower,
        what: "--max-num-batched-tokens: half of it; limit_mm_per_prompt and mm_processor_kwargs for images",
        why: "activations grow with the tokens of one pass, and profiling runs the largest",
        applies: |case| vllm_oom(case) && (case.in_phase(&Phase::Profile) || case.was_ready),
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "vllm_max_num_seqs",
        class: Class::Result,
        what: "--max-num-seqs: half of it",
        why: "the sampler's and the graphs' memory grows with the sequences served at once",
        applies: |case| {
            vllm_oom(case) && (case.in_phase(&Phase::Profile) || case.in_phase(&Phase::Graphs) || case.was_ready)
        },
        bytes: unknown,
        conflicts: &[],
        since: "vLLM",
        link: VLLM_MEMORY,
    },
    Remedy {
        id: "sglang_raise_fraction",
        class: Class::Free,
        what: "raise --mem-fraction-static",
        why: "it is the share of weights and KV pool together; at start-up the weights have taken it all",
        applies: |case| case.is_kind(Kind::SglangStartupMemory),
        bytes: unknown,
        conflicts: &["--mem-fraction-static lowered"],
        since: "SGLang",
        link: SGLANG_TUNING,
    },
    Remedy {
        id: "sglang_lower_fraction",
        class: Class::Free,
        what: "lower --mem-fraction-static to 0.8 or 0.7; leave 5 to 8 GB free in the log's available_gpu_mem",
        why: "activations and graphs need what the static pool leaves",
        applies: |case| {
            sglang_oom(case) && (case.in_phase(&Phase::Graphs) || case.was_ready || case.in_phase(&Phase::Request))
        },
        bytes: unknown,
        conflicts: &["--mem-fraction-static raised"],
        since: "SGLang",
        link: SGLANG_TUNING,
    },
    Remedy {
        id: "sglang_prefill",
        class: Class::Slower,
        what: "--chunked-prefill-size 4096, then 2048",
        why: "activations grow with the tokens of one prefill",
        applies: |case| sglang_oom(case) && case.in_phase(&Phase::Request),
        bytes: unknown,
        conflicts: &[],
        since: "SGLang",
        link: SGLANG_TUNING,
    },
    Remedy {
        id: "sglang_running",
        class: Class::Slower,
        what: "--max-running-requests: half of it",
        why: "decoding needs memory for each running request",
        applies: |case| sglang_oom(case) && case.in_phase(&Phase::Request),
        bytes: unknown,
        conflicts: &[],
        since: "SGLang",
        link: SGLANG_TUNING,
    },
    Remedy {
        id: "diffusers_slicing",
        class: Class::Free,
        what: "pipe.vae.enable_slicing(), when the batch has more than one image",
        why: "images are decoded one by one",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[],
        since: "Diffusers",
        link: DIFFUSERS_MEMORY,
    },
    Remedy {
        id: "diffusers_model_offload",
        class: Class::Slower,
        what: "pipe.enable_model_cpu_offload(), without .to(\"cuda\")",
        why: "only the component at work is on the card",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[".to(\"cuda\") before it"],
        since: "Diffusers",
        link: DIFFUSERS_MEMORY,
    },
    Remedy {
        id: "diffusers_group_offload",
        class: Class::Slower,
        what: "enable_group_offload on the largest component",
        why: "groups of layers come and go; between the other two in speed and savings",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[".to(\"cuda\") before it"],
        since: "Diffusers 0.33",
        link: DIFFUSERS_MEMORY,
    },
    Remedy {
        id: "diffusers_sequential_offload",
        class: Class::Slower,
        what: "pipe.enable_sequential_cpu_offload(), never after .to(\"cuda\")",
        why: "single modules come and go: it saves most and is slowest",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[".to(\"cuda\") before it"],
        since: "Diffusers",
        link: DIFFUSERS_MEMORY,
    },
    Remedy {
        id: "diffusers_tiling",
        class: Class::Result,
        what: "pipe.vae.enable_tiling(), where the VAE supports it",
        why: "the picture is decoded in tiles; tones may differ between them, and decoding takes longer",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[],
        since: "Diffusers",
        link: DIFFUSERS_MEMORY,
    },
    Remedy {
        id: "diffusers_quantise",
        class: Class::Result,
        what: "quantise the transformer and the text encoders (8 or 4 bits)",
        why: "they are the largest parts of a pipeline",
        applies: diffusers_oom,
        bytes: unknown,
        conflicts: &[],
        since: "Diffusers 0.31",
        link: "https://huggingface.co/docs/diffusers/quantization/overview",
    },
    Remedy {
        id: "quantise",
        class: Class::Result,
        what: "load the weights in a smaller precision: bf16 instead of fp32, or 8 or 4 bits",
        why: "the weights alone need what there is",
        applies: |case| case.is_capacity() && case.is_loading(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://huggingface.co/docs/transformers/quantization/overview",
    },
    Remedy {
        id: "second_card",
        class: Class::Slower,
        what: "divide the model over several cards (device_map=\"auto\", tensor parallelism)",
        why: "the weights alone need what there is",
        applies: |case| case.is_capacity() && case.is_loading(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: "https://huggingface.co/docs/accelerate/usage_guides/big_modeling",
    },
];
