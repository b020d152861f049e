//! The allocator's own options.

use super::{CUDA_NOTES, Class, Remedy, unknown};
use crate::oom::message::Kind;
use crate::oom::verdict::Verdict;

/// See the module.
pub(super) const ROWS: &[Remedy] = &[
    Remedy {
        id: "expandable_segments",
        class: Class::Free,
        what: "{conf}=expandable_segments:True, set before Python starts",
        why: "pieces can then be joined; less so where every 2 MiB hold a live block",
        applies: |case| case.is_fragmented() && case.may_expand(),
        bytes: |case| case.facts.stranded.filter(|_| case.facts.from_snapshot),
        conflicts: &[
            "max_split_size_mb",
            "sleep mode",
            "CUDAPluggableAllocator or MemPool",
            "CUDA IPC",
            "cudaMallocAsync",
        ],
        since: "2.1",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "drop_max_split",
        class: Class::Free,
        what: "remove max_split_size_mb from {conf}, and set expandable_segments:True instead",
        why: "the two must not be combined: some releases assert, others corrupt memory",
        applies: |case| {
            let may_expand = case.is_native() && !case.torch.is_below((2, 1)) && !case.programs.sleep_mode;
            case.is_fragmented()
                && case.settings.max_split == Some(true)
                && may_expand
                && case.settings.expandable != Some(true)
        },
        bytes: unknown,
        conflicts: &["sleep mode", "CUDAPluggableAllocator or MemPool", "CUDA IPC"],
        since: "2.1",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "forbidden_pair",
        class: Class::Free,
        what: "remove max_split_size_mb from {conf}: expandable_segments is on as well",
        why: "the two must not be combined: some releases assert, others corrupt memory",
        applies: |case| case.settings.max_split == Some(true) && case.settings.expandable == Some(true),
        bytes: unknown,
        conflicts: &[],
        since: "2.1",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "roundup",
        class: Class::Free,
        what: "{conf}=roundup_power2_divisions:4, when sizes keep changing",
        why: "near-equal sizes become equal and fit each other's holes, for somewhat larger blocks",
        applies: |case| {
            case.is_fragmented()
                && case.is_native()
                && !case.torch.is_below((1, 12))
                && case.settings.roundup != Some(true)
        },
        bytes: unknown,
        conflicts: &["cudaMallocAsync"],
        since: "1.12",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "max_split_size",
        class: Class::Slower,
        what: "{conf}=max_split_size_mb:512, a last resort where expandable segments cannot be used",
        why: "blocks above that size are not split, so small ones cannot pin them",
        applies: |case| {
            let cannot_expand = case.torch.is_below((2, 1)) || case.programs.sleep_mode;
            case.is_fragmented()
                && case.is_native()
                && cannot_expand
                && !case.torch.is_below((1, 10))
                && case.settings.expandable != Some(true)
                && case.settings.max_split != Some(true)
        },
        bytes: unknown,
        conflicts: &["expandable_segments", "cudaMallocAsync"],
        since: "1.10",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "native_backend",
        class: Class::Free,
        what: "remove backend:cudaMallocAsync from {conf} (ComfyUI: --disable-cuda-malloc)",
        why: "the driver's pool ignores PyTorch's options and leaves no segments to look at; some reporters' failures ended with it",
        applies: |case| case.is_kind(Kind::CudaMallocAsync),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "no_empty_cache",
        class: Class::No,
        what: "torch.cuda.empty_cache()",
        why: "live blocks pin what it would give back",
        applies: |case| case.is_fragmented() && case.is_native(),
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "no_gc_threshold",
        class: Class::No,
        what: "garbage_collection_threshold",
        why: "it acts only where a memory fraction is set, and frees no more than the flush before the failure did",
        applies: |case| case.is_fragmented() && case.is_native() && case.settings.memory_fraction != Some(true),
        bytes: unknown,
        conflicts: &[],
        since: "1.12",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "no_allocator_option",
        class: Class::No,
        what: "expandable_segments, max_split_size_mb and other allocator options",
        why: "{not_in_pieces}",
        applies: |case| {
            matches!(
                case.judgement.verdict,
                Verdict::Outside | Verdict::Giant | Verdict::Capacity | Verdict::Accumulation
            ) && case.is_native()
                && !case.judgement.has(Verdict::Fragmentation)
        },
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
    Remedy {
        id: "no_expandable_with_sleep",
        class: Class::No,
        what: "expandable_segments",
        why: "it must not be combined with sleep mode and other pools that are moved to the host",
        applies: |case| {
            case.is_native() && (case.programs.sleep_mode || (case.is(Verdict::Counters) && !case.is_hip()))
        },
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: CUDA_NOTES,
    },
];
