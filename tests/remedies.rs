//! For each remedy a case that gets it and one that must not, and no forbidden combination anywhere.

use std::collections::{BTreeMap, BTreeSet};

use oomscope::oom::remedies::{Advice, Class, table};
use oomscope::oom::{Facts, Inputs, Marks, diagnose, read};

const CARD: &str = "GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. ";
const OWN: &str = "Including non-PyTorch memory, this process has 79.00 GiB memory in use. ";

/// A message of the current wording.
fn text(asked: &str, allocated: &str, rest: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. {CARD}{OWN}Of the allocated memory \
         {allocated} is allocated by PyTorch, and {rest} is reserved by PyTorch but unallocated. "
    )
}

fn full() -> String {
    text("4.50 GiB", "78.00 GiB", "200.00 MiB")
}

fn pieces() -> String {
    text("2.00 GiB", "60.00 GiB", "18.00 GiB")
}

fn old_pieces() -> String {
    "CUDA out of memory. Tried to allocate 648.00 MiB (GPU 5; 39.59 GiB total capacity; 22.96 GiB already allocated; \
     228.19 MiB free; 36.19 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory"
        .to_owned()
}

fn advice(log: &str) -> Vec<Advice> {
    let log = read(log.as_bytes(), &Marks::built_in());
    let message = log.messages.first().expect("a message");
    let account = oomscope::oom::reconcile::reconcile(&oomscope::oom::reconcile::Sources {
        message: Some(message),
        ..Default::default()
    });
    diagnose(Inputs {
        facts: log.facts(message),
        log: Some(&log),
        message: Some(message),
        account,
        ..Inputs::default()
    })
    .remedies
}

/// Advice from figures that only a snapshot gives.
fn advice_of(facts: Facts, settings: oomscope::oom::remedies::Settings) -> Vec<Advice> {
    diagnose(Inputs { facts, settings, ..Inputs::default() }).remedies
}

fn snapshot() -> Facts {
    const GIB: u64 = 1 << 30;
    Facts {
        device_free: Some(GIB),
        request: Some(2 * GIB),
        segment: Some(2 * GIB),
        reserved: Some(78 * GIB),
        active: Some(77 * GIB),
        pending: Some(0),
        pool_idle: Some(0),
        stranded: Some(GIB),
        from_snapshot: true,
        ..Facts::default()
    }
}

/// All cases, by name.
fn cases() -> BTreeMap<&'static str, Vec<Advice>> {
    use oomscope::oom::remedies::Settings;
    const GIB: u64 = 1 << 30;
    let vllm = "INFO api_server.py vLLM API server version 0.9\n";
    let loading = format!("{vllm}Starting to load model\n  File \"vllm/x.py\"\n{}", full());
    let graphs = format!("{vllm}gpu_memory_utilization (0.98)\nCapturing CUDA graph shapes\n{}", full());
    let profile = format!("{vllm}Starting to load model\n  File \"a.py\", line 1, in profile_run\n{}", full());
    let training =
        format!("File \"transformers/trainer.py\", line 9, in training_step\n    loss.backward()\n[rank0]: {}", full());
    let others = "[rank3]: CUDA out of memory. Tried to allocate 572.00 MiB. GPU 0 has a total capacity of 39.49 GiB of which 321.31 MiB is free. \
        Process 1 has 414.00 MiB memory in use. Including non-PyTorch memory, this process has 37.46 GiB memory in use. Process 2 has 414.00 MiB memory in use. \
        Process 3 has 414.00 MiB memory in use. Process 4 has 414.00 MiB memory in use. Of the allocated memory 36.04 GiB is allocated by PyTorch, and 321.37 MiB is reserved by PyTorch but unallocated.";
    let other = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 18.62 MiB is free. Process 73820 has 30.58 GiB memory in use. Including non-PyTorch memory, this process has 764.00 MiB memory in use. Of the allocated memory 165.30 MiB is allocated by PyTorch, and 4.70 MiB is reserved by PyTorch but unallocated.";
    let sleep = "CUDA out of memory. Tried to allocate 2.12 GiB. GPU 0 has a total capacity of 79.19 GiB of which 2.11 GiB is free. Including non-PyTorch memory, this process has 76.96 GiB memory in use. Of the allocated memory 83.48 GiB is allocated by PyTorch, and 30.59 GiB is reserved by PyTorch but unallocated.";
    let wsl = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 15.99 GiB of which 0 bytes is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 30.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.";
    let pools = "CUDA out of memory. Tried to allocate 5.61 GiB. GPU 0 has a total capacity of 31.33 GiB of which 4.01 GiB is free. Including non-PyTorch memory, this process has 27.20 GiB memory in use. Of the allocated memory 26.51 GiB is allocated by PyTorch, with 6.02 GiB allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but unallocated.";
    let fraction = "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 47.54 GiB total capacity; 23.68 GiB already allocated; 23.44 GiB free; 23.77 GiB allowed; 23.77 GiB reserved in total by PyTorch)";
    let asynchronous = "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 21.55 GiB\nRequested               : 952.00 MiB\nDevice limit            : 24.00 GiB\nFree (according to CUDA): 0 bytes\n";
    let mps = "MPS backend out of memory (MPS allocated: 1.45 GB, other allocations: 7.42 GB, max allowed: 9.07 GB). Tried to allocate 563.62 MB on private pool.";
    let old_full = "  File \"train.py\"\n    loss.backward()\nCUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 3.94 GiB total capacity; 2.98 GiB already allocated; 14.25 MiB free; 3.00 GiB reserved in total by PyTorch)";
    let growing = Facts {
        growth: Some(oomscope::oom::Growth { bytes: 40 * GIB, sites: vec!["a.py:1".to_owned()], keeper: None }),
        ..snapshot()
    };
    let keeper = oomscope::oom::Keeper {
        line: "a.py:1".to_owned(),
        live: 50 * GIB,
        kind: "tensors collected",
        remedy: "clear the list",
        ..Default::default()
    };
    let kept = Facts {
        growth: Some(oomscope::oom::Growth { bytes: 40 * GIB, sites: vec!["b.py:2".to_owned()], keeper: Some(keeper) }),
        ..snapshot()
    };
    let pinned =
        Facts { active: Some(50 * GIB), stranded: Some(28 * GIB), pin: Some(("a.py:1".to_owned(), GIB)), ..snapshot() };
    let in_pieces = Facts { active: Some(50 * GIB), stranded: Some(28 * GIB), ..snapshot() };
    let set = |expandable, max_split| Settings {
        expandable: Some(expandable),
        max_split: Some(max_split),
        ..Settings::default()
    };
    let desktop = {
        let log = read(other.as_bytes(), &Marks::built_in());
        let smi = oomscope::oom::smi::parse(
            "| NVIDIA-SMI 535 |\n|    0   N/A  N/A      2000      G   /usr/lib/xorg/Xorg     31000MiB |\n|    0   N/A  N/A      2001      C   python       764MiB |",
        );
        let account = oomscope::oom::reconcile::reconcile(&oomscope::oom::reconcile::Sources {
            message: log.messages.first(),
            smi: smi.first(),
            ..Default::default()
        });
        diagnose(Inputs {
            facts: log.facts(&log.messages[0]),
            log: Some(&log),
            message: log.messages.first(),
            account,
            ..Inputs::default()
        })
        .remedies
    };
    BTreeMap::from([
        ("full", advice(&full())),
        ("full, Diffusers", advice(&format!("File \"diffusers/pipelines/x.py\"\n{}", full()))),
        ("full, loading", advice(&loading)),
        ("full, loading by torch", advice(&format!("Loading checkpoint shards: 50%\n{}", full()))),
        ("full, graphs", advice(&graphs)),
        ("full, profile", advice(&profile)),
        (
            "full, served by vLLM",
            advice(&format!("{vllm}Application startup complete\nReceived request 1\n{}", full())),
        ),
        (
            "full, SGLang prefill",
            advice(&format!("Load weight begin\nThe server is fired up and ready to roll!\nPrefill batch\n{}", full())),
        ),
        ("full, SGLang graphs", advice(&format!("Load weight begin\nCapture cuda graph begin\n{}", full()))),
        ("full, training", advice(&training)),
        ("full, DeepSpeed", advice(&format!("File \"deepspeed/runtime/engine.py\"\n{training}"))),
        ("full, old training", advice(old_full)),
        (
            "full, evaluation",
            advice(&format!("File \"transformers/trainer.py\", line 9, in evaluation_loop\n{}", full())),
        ),
        ("pieces", advice(&pieces())),
        ("pieces, training", advice(&format!("  loss.backward()\n{}", pieces()))),
        ("pieces, sleep mode", advice(&format!("enable_sleep_mode=True\n{}", pieces()))),
        ("pieces, expandable on", advice(&format!("{} expandable_segments is enabled.", pieces()))),
        ("pieces, old", advice(&old_pieces())),
        ("pieces, HIP", advice(&pieces().replace("CUDA", "HIP"))),
        ("pieces, max_split on", advice_of(in_pieces.clone(), set(false, true))),
        ("pieces, both on", advice_of(in_pieces.clone(), set(true, true))),
        ("pieces, snapshot", advice_of(in_pieces, set(false, false))),
        ("ranks on card 0", advice(others)),
        ("other process", advice(other)),
        ("desktop", desktop),
        ("sleep", advice(sleep)),
        ("WSL", advice(wsl)),
        ("pools", advice(pools)),
        ("fraction", advice(fraction)),
        ("async", advice(asynchronous)),
        ("MPS", advice(mps)),
        ("giant", advice(&text("300.00 GiB", "10.00 GiB", "1.00 GiB"))),
        (
            "no shortage",
            advice(
                "HIP out of memory. Tried to allocate 2.00 MiB. GPU 7 has a total capacity of 287.98 GiB of which 203.49 GiB is free. Of the allocated memory 68.63 GiB is allocated by PyTorch, and 14.93 GiB is reserved by PyTorch but unallocated.",
            ),
        ),
        (
            "4 GiB",
            advice(
                "Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
            ),
        ),
        ("growing", advice_of(growing, Settings::default())),
        ("growing, kept", advice_of(kept, Settings::default())),
        ("pieces, pinned", advice_of(pinned, set(false, false))),
        ("pending", advice_of(Facts { pending: Some(8 * GIB), ..snapshot() }, Settings::default())),
        ("NVML", advice("NVML_SUCCESS == r INTERNAL ASSERT FAILED at x")),
        ("NCCL", advice("Failed to CUDA calloc 8388608 bytes")),
        ("cuBLAS", advice("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
        ("host", advice("[1.0] Out of memory: Killed process 4711 (python)")),
        ("KV cache", advice(include_str!("../testdata/oom/vllm_kv_too_small.log"))),
        (
            "vLLM start",
            advice(
                "ValueError: Free memory on device (3.25/23.43 GiB) on startup is less than desired GPU memory utilization (0.96, 22.49 GiB).",
            ),
        ),
        ("SGLang start", advice("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")),
    ])
}

#[test]
fn each_remedy_is_given_to_some_and_not_to_all() {
    let cases = cases();
    let mut never = Vec::new();
    for remedy in table() {
        let given: Vec<&str> =
            cases.iter().filter(|(_, all)| all.iter().any(|a| a.id == remedy.id)).map(|(n, _)| *n).collect();
        assert!(given.len() < cases.len(), "{} is given to everybody", remedy.id);
        if given.is_empty() {
            never.push(remedy.id);
        }
    }
    assert!(never.is_empty(), "never given: {never:?}");
}

/// Which case gets which remedies: the cheapest first, and what must not be among them.
#[test]
fn cases_get_their_remedies() {
    let cases = cases();
    let has = |case: &str, id: &str| cases[case].iter().any(|advice| advice.id == id);
    for (case, wanted, forbidden) in [
        (
            "full",
            &["micro_batch", "gradient_checkpointing", "no_allocator_option"][..],
            &["expandable_segments", "set_device", "stop_others", "vllm_eager"][..],
        ),
        (
            "full, loading",
            &["quantise", "second_card"],
            &["micro_batch", "shorter", "vllm_max_num_seqs", "vllm_lower_utilization", "load_on_cpu"],
        ),
        (
            "full, loading by torch",
            &["load_on_cpu", "quantise"],
            &["micro_batch", "gradient_checkpointing", "inference_mode"],
        ),
        (
            "full, graphs",
            &["vllm_lower_utilization", "vllm_eager"],
            &["micro_batch", "vllm_raise_utilization", "quantise"],
        ),
        ("full, profile", &["vllm_batched_tokens", "vllm_max_num_seqs"], &["vllm_lower_utilization", "micro_batch"]),
        ("full, SGLang graphs", &["sglang_lower_fraction"], &["sglang_raise_fraction", "sglang_prefill"]),
        ("full, SGLang prefill", &["sglang_prefill", "sglang_running"], &["micro_batch"]),
        ("full, training", &["micro_batch", "adamw_8bit", "zero"], &["inference_mode", "deepspeed_stage"]),
        ("full, DeepSpeed", &["deepspeed_stage"], &["zero"]),
        ("full, evaluation", &["eval_accumulation", "inference_mode"], &["micro_batch", "gradient_checkpointing"]),
        ("full, Diffusers", &["diffusers_model_offload", "diffusers_sequential_offload"], &["micro_batch"]),
        (
            "pieces",
            &["expandable_segments", "no_empty_cache", "no_gc_threshold"],
            &["max_split_size", "no_allocator_option", "pad_lengths"],
        ),
        ("pieces, sleep mode", &["max_split_size", "no_expandable_with_sleep"], &["expandable_segments"]),
        ("pieces, expandable on", &["long_lived_first"], &["expandable_segments", "max_split_size"]),
        ("pieces, old", &["max_split_size"], &["expandable_segments", "drop_max_split"]),
        ("pieces, max_split on", &["drop_max_split"], &["expandable_segments", "max_split_size"]),
        ("pieces, both on", &["forbidden_pair"], &["expandable_segments", "max_split_size", "drop_max_split"]),
        ("ranks on card 0", &["set_device"], &["stop_others", "expandable_segments"]),
        (
            "other process",
            &["stop_others", "other_card", "no_allocator_option"],
            &["micro_batch", "expandable_segments", "set_device"],
        ),
        ("sleep", &["sleep_mode_budget", "no_expandable_with_sleep"], &["spill_policy", "expandable_segments"]),
        ("WSL", &["spill_policy"], &["sleep_mode_budget", "expandable_segments"]),
        ("pools", &["share_graph_pool", "no_graphs", "no_empty_cache_pools"], &["expandable_segments"]),
        ("fraction", &["raise_fraction"], &["expandable_segments", "micro_batch", "stop_others"]),
        ("no shortage", &["check_fraction"], &["expandable_segments", "micro_batch"]),
        ("growing", &["detach", "no_empty_cache_leak"], &["expandable_segments", "micro_batch"]),
        // What is known to be kept has its own remedy, and a line to be moved must be known where a snapshot was read.
        ("growing, kept", &["let_go", "gc_collect"], &["detach", "bound_caches", "inference_mode"]),
        ("pieces, pinned", &["long_lived_first"], &["let_go"]),
        ("pieces, snapshot", &["expandable_segments"], &["long_lived_first"]),
        ("pending", &["record_stream", "no_fragmentation_options"], &["expandable_segments"]),
        ("giant", &["check_shape", "sdpa"], &["expandable_segments", "stop_others"]),
        ("KV cache", &["vllm_raise_utilization", "vllm_max_model_len"], &["vllm_lower_utilization", "micro_batch"]),
        ("SGLang start", &["sglang_raise_fraction"], &["sglang_lower_fraction"]),
    ] {
        for id in wanted {
            assert!(has(case, id), "{case} lacks {id}: {:?}", cases[case].iter().map(|a| a.id).collect::<Vec<_>>());
        }
        for id in forbidden {
            assert!(!has(case, id), "{case} must not have {id}");
        }
    }
    let length = cases["KV cache"].iter().find(|a| a.id == "vllm_max_model_len").expect("the length");
    assert_eq!(length.what, "--max-model-len 3664");
    let hip = cases["pieces, HIP"].iter().find(|a| a.id == "expandable_segments").expect("the option");
    assert!(hip.what.starts_with("PYTORCH_HIP_ALLOC_CONF="));
}

#[test]
fn advice_is_ordered_sourced_and_free_of_contradictions() {
    for (case, advice) in cases() {
        assert!(advice.is_sorted_by_key(|a| a.class), "{case}");
        let ids: BTreeSet<&str> = advice.iter().map(|a| a.id).collect();
        assert_eq!(ids.len(), advice.len(), "{case}: twice the same");
        let pair = |a: &str, b: &str| assert!(!(ids.contains(a) && ids.contains(b)), "{case}: {a} with {b}");
        pair("expandable_segments", "max_split_size");
        pair("expandable_segments", "no_expandable_with_sleep");
        pair("expandable_segments", "no_allocator_option");
        pair("vllm_lower_utilization", "vllm_raise_utilization");
        pair("sglang_lower_fraction", "sglang_raise_fraction");
        pair("no_empty_cache", "mps_close_others");
        for a in &advice {
            assert!(a.link.starts_with("https://"), "{}", a.id);
            assert!(!a.what.contains('{') || a.what.contains("{'"), "{}: {}", a.id, a.what);
            // The option does nothing without a memory fraction, so it is never advised.
            assert!(a.class == Class::No || !a.what.contains("garbage_collection_threshold"), "{}", a.id);
        }
    }
}

/// Bytes come from figures, never from folklore.
#[test]
fn bytes_only_where_they_were_computed() {
    let cases = cases();
    let bytes = |case: &str, id: &str| cases[case].iter().find(|a| a.id == id).and_then(|a| a.expected_bytes);
    assert_eq!(bytes("pieces", "expandable_segments"), None);
    assert_eq!(bytes("pieces, snapshot", "expandable_segments"), Some(28 << 30));
    assert_eq!(bytes("pending", "record_stream"), Some(8 << 30));
    assert_eq!(bytes("growing", "detach"), Some(40 << 30));
    assert_eq!(bytes("growing, kept", "let_go"), Some(50 << 30));
    assert_eq!(bytes("ranks on card 0", "set_device"), Some((4 * 414) << 20));
    assert_eq!(bytes("full", "micro_batch"), None);
}

/// What is said against the allocator's options agrees with the headroom that the verdict names.
#[test]
fn no_option_helps_for_a_reason_that_the_figures_bear() {
    let why = |facts: Facts| {
        let found = advice_of(facts, Default::default());
        found.into_iter().find(|advice| advice.id == "no_allocator_option").expect("the remedy").why
    };
    const GIB: u64 = 1 << 30;
    let fits = Facts { active: Some((77 << 30) - (29 << 20)), request: Some(2 * GIB), ..snapshot() };
    assert_eq!(why(fits), "even with all memory in one piece only 29.0 MiB would be left");
    let too_much = Facts { active: Some(78 * GIB), ..snapshot() };
    assert_eq!(why(too_much), "the memory is not in pieces of PyTorch's cache");
}
