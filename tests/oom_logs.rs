//! Whole logs: several ranks, phases, `nvidia-smi`, arbitrary bytes, speed.

use oomscope::oom::reconcile::{Sources, reconcile};
use oomscope::oom::smi::{self, Use};
use oomscope::oom::tag::Tag;
use oomscope::oom::{Facts, Marks, Phase, Verdict, judge, read, scan};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn log(text: &str) -> oomscope::oom::Log {
    read(text.as_bytes(), &Marks::built_in())
}

#[test]
fn ranks_that_interleave_are_told_apart() {
    let text = "\
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total
[rank0]: capacity of 80.00 GiB of which 512.00 MiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch,
[rank1]: capacity of 40.00 GiB of which 256.00 MiB is free. Of the allocated memory 30.00 GiB is allocated by PyTorch,
[rank0]: and 1.00 GiB is reserved by PyTorch but unallocated.
[rank1]: and 2.00 GiB is reserved by PyTorch but unallocated.
";
    let messages = scan(text.as_bytes());
    assert_eq!(messages.len(), 2, "{messages:#?}");
    for (message, rank, total, allocated, rest) in [(&messages[0], 0, 80, 70, 1), (&messages[1], 1, 40, 30, 2)] {
        assert_eq!(message.source, Some(Tag::Rank(rank)));
        assert_eq!(message.device, Some(rank));
        assert_eq!(message.total, Some(total << 30));
        assert_eq!(message.allocated, Some(allocated << 30));
        assert_eq!(message.reserved_unallocated, Some(rest << 30));
    }
}

#[test]
fn repeats_are_counted_and_echoes_left_out() {
    let one = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 2.00 GiB of which 0 bytes is free.\n";
    let text = format!(
        "    raise RuntimeError(\"CUDA out of memory\")\n{one}retrying\n{one}{one}This error means you ran out of memory on your GPU.\n"
    );
    let messages = scan(text.as_bytes());
    assert_eq!(messages.len(), 1, "{messages:#?}");
    assert_eq!((messages[0].count, messages[0].line), (3, 2));
}

#[test]
fn other_texts_of_pytorch() {
    let one = |text: &str| scan(text.as_bytes()).pop().unwrap_or_else(|| panic!("{text}"));
    let verdict = |text: &str| judge(&Facts::of_message(&one(text))).verdict;
    let rejected = "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 3.00 GiB";
    assert_eq!((one(rejected).tried, verdict(rejected)), (Some(3 << 30), Verdict::Limit));
    assert_eq!(verdict("CUDA out of memory. Tried to allocate more than 1EB memory."), Verdict::Giant);
    assert_eq!(
        one("CUDA out of memory. Tried to allocate 1.00 GiB. GPU \x01 has a total capacity of 8.00 GiB").device,
        Some(1)
    );
    // 2.3 ends the text at the zero byte of device 0.
    let cut = one("CUDA out of memory. Tried to allocate 1.00 GiB. GPU ");
    assert_eq!((cut.device, cut.is_cut, cut.tried), (None, true, Some(1 << 30)));
    let allowed = "CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 3.55 GiB is free. Including non-PyTorch memory, this process has 4.45 GiB memory in use. 4.00 GiB allowed; Of the allocated memory 4.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.";
    assert_eq!((one(allowed).allowed, verdict(allowed)), (Some(4 << 30), Verdict::Limit));
    let needed = one(
        "ValueError: To serve at least one request with the model's max seq len (40960), (4.38 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated maximum model length is 9344.",
    );
    assert_eq!((needed.kv_tokens_needed, needed.kv_tokens_available), (Some(40960), Some(9344)));
    assert_eq!((needed.kv_needed, needed.kv_available), (Some(4_702_989_189), Some(1 << 30)));
    let start = one(
        "ValueError: Free memory on device cuda:0 (3.25/23.43 GiB) on startup is less than desired GPU memory utilization (0.96, 22.49 GiB).",
    );
    assert_eq!((start.free, start.total), (Some(3_489_660_928), Some(25_157_770_936)));
    assert!(scan(b"we ran out of memory budget; already allocated seats").is_empty());
}

/// A log that breaks lines anywhere gives the same figures.
#[test]
fn wrapping_changes_nothing() {
    let text = "CUDA out of memory. Tried to allocate 7.65 GiB. GPU 2 has a total capacity of 79.19 GiB of which 6.87 GiB is free. Including non-PyTorch memory, this process has 72.31 GiB memory in use. Of the allocated memory 70.63 GiB is allocated by PyTorch, and 134.28 MiB is reserved by PyTorch but unallocated.";
    let plain = scan(text.as_bytes()).pop().expect("the message");
    for width in 30..130 {
        let mut wrapped = String::new();
        for (at, c) in text.chars().enumerate() {
            if at > 0 && at % width == 0 {
                wrapped.push('\n');
            }
            wrapped.push(c);
        }
        let found = scan(wrapped.as_bytes());
        assert_eq!(found.len(), 1, "{width}: {found:#?}");
        assert_eq!((found[0].tried, found[0].total, found[0].free), (plain.tried, plain.total, plain.free), "{width}");
        assert_eq!((found[0].allocated, found[0].reserved_unallocated), (plain.allocated, plain.reserved_unallocated));
    }
}

#[test]
fn phases_and_the_times_between_them() {
    let log = log("\
2025-03-01 10:00:00,000 INFO vLLM API server version 0.8.1
2025-03-01 10:00:10,500 INFO Starting to load model meta
2025-03-01 10:02:10,500 INFO Model loading took 14.99 GiB and 119.0 seconds
2025-03-01 10:02:20,500 INFO Available KV cache memory: 33.40 GiB
2025-03-01 10:02:21,500 INFO Capturing CUDA graphs
2025-03-01 10:02:30,000 INFO Application startup complete.
2025-03-01 10:05:00,000 INFO Received request cmpl-1
2025-03-01 10:05:01,000 ERROR CUDA out of memory. Tried to allocate 1.00 GiB.
");
    let phases: Vec<_> = log.chronology.entries.iter().map(|entry| (entry.phase.clone(), entry.after_us)).collect();
    assert_eq!(
        phases,
        [
            (Phase::Start, None),
            (Phase::Weights, Some(10_500_000)),
            (Phase::Profile, Some(120_000_000)),
            (Phase::KvCache, Some(10_000_000)),
            (Phase::Graphs, Some(1_000_000)),
            (Phase::Ready, Some(8_500_000)),
            (Phase::Request, Some(150_000_000)),
        ]
    );
    let message = &log.messages[0];
    assert_eq!(log.chronology.before(message).map(|entry| &entry.phase), Some(&Phase::Request));
    assert!(log.chronology.was_ready(message));
    assert_eq!((log.budget.weights, log.budget.kv_cache), (Some(16_095_389_942), Some(35_862_976_922)));
}

#[test]
fn steps_are_numbered_and_ranks_have_their_own_phase() {
    let log = log(
        "[rank0]: step 7 loss 1.0\n[rank1]: Loading checkpoint shards\n[rank0]: step 8 loss 0.9\n[rank0]: CUDA out of memory. Tried to allocate 1.00 GiB.\n[rank1]: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    );
    let of = |at: usize| log.chronology.before(&log.messages[at]).map(|entry| (entry.phase.clone(), entry.number));
    assert_eq!(of(0), Some((Phase::Step, Some(8))));
    assert_eq!(of(1), Some((Phase::Weights, None)));
    assert!(!log.chronology.entries.is_empty());
}

#[test]
fn the_plain_table_of_nvidia_smi() {
    let text = "\
Fri Mar  1 10:00:00 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   34C    P0             65W /  400W |   30000MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0  On |                    0 |
| N/A   34C    P0             65W /  400W |      10MiB /  81920MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      4242      C   /usr/bin/python3 train.py                  28000MiB |
|    0   N/A  N/A      1000      G   /usr/lib/xorg/Xorg                            90MiB |
|    1     7    0      5000    C+G   thing                                           N/A |
";
    let moments = smi::parse(text);
    let [moment] = moments.as_slice() else { panic!("{moments:?}") };
    assert_eq!(moment.gpus.len(), 2);
    assert_eq!((moment.gpus[0].total, moment.gpus[0].used), (Some(81920 * MIB), Some(30000 * MIB)));
    assert_eq!(moment.gpus[1].name.as_deref(), Some("NVIDIA A100-SXM4-80GB"));
    let processes: Vec<_> = moment.processes.iter().map(|p| (p.gpu, p.pid, p.usage, p.bytes)).collect();
    assert_eq!(
        processes,
        [
            (Some(0), 4242, Use::Compute, Some(28000 * MIB)),
            (Some(0), 1000, Use::Graphics, Some(90 * MIB)),
            (Some(1), 5000, Use::Both, None)
        ]
    );
    assert_eq!(moment.processes[0].name, "/usr/bin/python3 train.py");
    assert_eq!(moment.processes[2].instance, Some((7, 0)));
    assert_eq!(moment.card(0, Some("1,0")).and_then(|gpu| gpu.index), Some(1));
}

#[test]
fn csv_and_xml_of_nvidia_smi() {
    let csv = "\
index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]
0, GPU-aaaa, NVIDIA L4, 23034 MiB, 22000 MiB, 700 MiB
1, GPU-bbbb, NVIDIA L4, 23034 MiB, 1 MiB, 22900 MiB
gpu_uuid, pid, process_name, used_gpu_memory [MiB]
GPU-aaaa, 77, python, train.py, --x=1, 21000 MiB
GPU-bbbb, 78, python, [N/A]
";
    let moments = smi::parse(csv);
    let [moment] = moments.as_slice() else { panic!("{moments:?}") };
    assert_eq!((moment.gpus.len(), moment.processes.len()), (2, 2));
    assert_eq!(moment.processes[0].name, "python, train.py, --x=1");
    assert_eq!((moment.processes[0].bytes, moment.processes[1].bytes), (Some(21000 * MIB), None));
    let card = moment.card(0, Some("GPU-bb")).expect("by the beginning of its UUID");
    assert_eq!(moment.processes_on(Some(card)).map(|p| p.pid).collect::<Vec<_>>(), [78]);

    let xml = r#"<?xml version="1.0" ?>
<nvidia_smi_log><gpu id="00000000:07:00.0"><product_name>NVIDIA A100 &amp; more</product_name>
<mig_mode><current_mig>Enabled</current_mig></mig_mode><uuid>GPU-cccc</uuid><minor_number>3</minor_number>
<fb_memory_usage><total>81920 MiB</total><reserved>500 MiB</reserved><used>1000 MiB</used><free>80420 MiB</free></fb_memory_usage>
<processes><process_info><gpu_instance_id>N/A</gpu_instance_id><pid>9</pid><type>C</type><process_name>python</process_name><used_memory>900 MiB</used_memory></process_info>
<process_info><pid>10</pid><type>G</type><process_name>Xorg</process_name><used_memory>N/A</used_memory></process_info></processes></gpu></nvidia_smi_log>"#;
    let moments = smi::parse(xml);
    let [moment] = moments.as_slice() else { panic!("{moments:?}") };
    let gpu = &moment.gpus[0];
    assert_eq!((gpu.total, gpu.reserved, gpu.is_mig), (Some(81920 * MIB), Some(500 * MIB), true));
    assert_eq!(gpu.name.as_deref(), Some("NVIDIA A100 & more"));
    assert_eq!(
        moment.processes.iter().map(|p| (p.pid, p.bytes)).collect::<Vec<_>>(),
        [(9, Some(900 * MIB)), (10, None)]
    );
}

#[test]
fn the_card_is_accounted_for() {
    let moments = smi::parse(include_str!("../testdata/oom/nvidia_smi_rank0.txt"));
    let sources = Sources { smi: moments.first(), reserved: Some(25000 * MIB), ..Sources::default() };
    let account = reconcile(&sources).expect("an account");
    assert_eq!(account.others, Some(7 * 871 * MIB));
    assert_eq!(account.sibling_contexts, 7 * 871 * MIB);
    let line = |name| account.lines.iter().find(|line| line.name == name).expect("the line").bytes;
    assert_eq!(line("context and libraries"), Some(1167 * MIB));
    assert_eq!(account.unexplained, None, "the excerpt does not have the card");

    let text = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 18.62 MiB is free. Process 73820 has 30.58 GiB memory in use. Including non-PyTorch memory, this process has 764.00 MiB memory in use. Of the allocated memory 165.30 MiB is allocated by PyTorch, and 4.70 MiB is reserved by PyTorch but unallocated.";
    let message = scan(text.as_bytes()).pop().expect("the message");
    let account = reconcile(&Sources { message: Some(&message), ..Sources::default() }).expect("an account");
    // 31.36 GiB − 18.62 MiB − 170 MiB − 594 MiB − 30.58 GiB, to the decimals of the text.
    assert!(account.unexplained.expect("the rest").unsigned_abs() < 20 * MIB, "{account:?}");
}

#[test]
fn two_moments_are_compared() {
    let moment = |used: u64, own: &str| {
        format!(
            "index, uuid, memory.total [MiB], memory.used [MiB]\n0, GPU-a, 81920 MiB, {used} MiB\ngpu_uuid, pid, process_name, used_memory [MiB]\nGPU-a, 5, other, 4000 MiB\n{own}"
        )
    };
    let before = smi::parse(&moment(4100, "")).pop();
    let now = smi::parse(&moment(80000, "GPU-a, 6, python, 75000 MiB\n")).pop();
    let account = reconcile(&Sources {
        smi: now.as_ref(),
        before: before.as_ref(),
        reserved: Some(74000 * MIB),
        ..Sources::default()
    })
    .expect("an account");
    let notes = account.notes.join("\n");
    assert!(
        notes.contains("4.00 GiB before the start to 78.1 GiB") || notes.contains("before the start to 78.12 GiB"),
        "{notes}"
    );
    assert!(notes.contains("process 5 (other) was there before the start"), "{notes}");
}

#[test]
fn utf16_logs_are_read() {
    let text = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free.";
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(read(&bytes, &Marks::built_in()).messages[0].total, Some(8 << 30));
}

const PARTS: [&str; 16] = [
    "CUDA out of memory. ",
    "Tried to allocate 20.00 MiB. ",
    "GPU \x01 has a total capacity of 8.00 GiB of which ",
    "17179869184.00 GiB ",
    "Process 1 has ",
    " memory in use. ",
    "Of the allocated memory 1.00 GiB is allocated by PyTorch, ",
    "(GPU 0; ",
    "MPS backend out of memory (MPS allocated: ",
    "[rank3]: ",
    "\x1b[31m",
    "\\u001b[",
    "max seq len (",
    "Free memory on device (1/",
    "\n",
    "\u{feff}é",
];

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let log = read(&bytes, &Marks::built_in());
        for message in &log.messages {
            judge(&log.facts(message));
        }
        smi::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_of_messages_are_read(parts in proptest::collection::vec(0..PARTS.len(), 0..60)) {
        let text: String = parts.iter().map(|&part| PARTS[part]).collect();
        let log = read(text.as_bytes(), &Marks::built_in());
        for message in &log.messages {
            prop_assert!(message.end <= text.len() && message.offset <= message.end);
            judge(&log.facts(message));
        }
    }
}

/// 100 MB are scanned at 300 MB/s and more. Slow machines and builds without optimisation may miss it: run with
/// `cargo test --release --test oom_logs -- --ignored`.
#[test]
#[ignore = "a measurement"]
fn large_logs_are_scanned_fast() {
    let line = "2025-03-01 10:00:00,123 [rank3] INFO trainer.py:812 step 1200 loss 2.3321 grad_norm 0.71 lr 1.2e-4 tokens/s 81234.1 memory 61.2 GiB allocated\n";
    let plain = "2025-03-01 10:00:00,123 INFO something ordinary happened with a request of some length, and took 12.3 ms in total\n";
    for (name, line) in [("steps", line), ("plain", plain)] {
        let mut log = line.repeat(100_000_000 / line.len()).into_bytes();
        log.extend_from_slice(b"CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free.\n");
        let marks = Marks::built_in();
        read(&log[..1000], &marks);
        let start = std::time::Instant::now();
        let found = read(&log, &marks);
        let speed = log.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{name}: {speed:.0} MB/s");
        assert_eq!(found.messages.len(), 1);
        assert!(speed > 300.0, "{name}: {speed:.0} MB/s");
    }
}
