//! `oomscope oom`, `estimate`, `howto`, and `report --log`, through the binary.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{json, json_of, oomscope, run_in, testdata};
use serde_json::Value;

/// Runs `oomscope ARGUMENTS` with `input` on standard input.
fn piped(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_error_text_alone_gives_a_verdict_and_advice() {
    let rig = json(testdata().join("rig/2.6.0/decode.json"));
    let (status, text, errors) = piped(&["oom"], rig["oom"].as_str().unwrap());
    assert_eq!((status, errors.as_str()), (0, ""));
    for words in
        ["VERDICT  Fragmentation", "2.88 GiB", "expandable_segments:True", "torch.cuda.empty_cache()", "oomscope howto"]
    {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
}

#[test]
fn json_has_the_stable_keys() {
    let rig = json(testdata().join("rig/2.15.0/oom_bigone.json"));
    let (status, text, _) = piped(&["oom", "-", "--json"], rig["oom"].as_str().unwrap());
    assert_eq!(status, 0);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["command"], &document["file"]), (&"oom".into(), &"standard input".into()));
    let message = &document["messages"][0];
    for key in [
        "kind",
        "device",
        "tried",
        "total",
        "free",
        "process_in_use",
        "other_processes",
        "allowed",
        "allocated",
        "private_pools",
        "reserved_unallocated",
        "live",
        "outside_pytorch",
        "verdict",
        "evidence",
        "remedies",
    ] {
        assert!(message.get(key).is_some(), "no {key}");
    }
    assert_eq!(message["verdict"], "giant");
    assert_eq!(message["tried"], 107_374_182_400u64);
    assert_eq!(message["other_processes"][0]["pid"], 4242);
    for key in ["class", "do", "why", "expected_bytes", "conflicts", "link"] {
        assert!(message["remedies"][0].get(key).is_some(), "no {key}");
    }
}

#[test]
fn a_log_without_a_message_ends_in_2() {
    let (status, text, errors) = piped(&["oom"], "all is well\n");
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(errors.contains("no out-of-memory message"), "{errors}");
    let run = oomscope(["oom", "testdata/no_such.log"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("no_such.log"), "{}", run.stderr);
}

#[test]
fn servers_are_understood_by_their_logs() {
    let graphs = json_of(&["oom", "testdata/oom/vllm_graph_capture.log", "--json"]);
    let message = &graphs["messages"][0];
    assert_eq!((&message["verdict"], &message["phase"]["phase"]), (&"capacity".into(), &"graphs".into()));
    assert_eq!(message["phase"]["was_ready"], false);
    assert_eq!(graphs["budget"]["utilization"], 0.98);
    let text = oomscope(["oom", "testdata/oom/vllm_graph_capture.log"]).stdout;
    assert!(text.contains("--gpu-memory-utilization from 0.98"), "{text}");
    let small = oomscope(["oom", "testdata/oom/vllm_kv_too_small.log"]).stdout;
    assert!(small.contains("--max-model-len 3664") && small.contains("Not PyTorch's allocator"), "{small}");
}

#[test]
fn marks_and_nvidia_smi_of_the_user() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).unwrap();
    };
    path(
        "job.log",
        "merging part 3\nCUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 26.00 GiB of which 1.00 GiB is free. Of the allocated memory 16.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n",
    );
    path("marks", "merge | my tool | merging part {n}\n");
    path("bad", "merge\n");
    path("empty", "nothing\n");
    let smi = testdata().join("oom/nvidia_smi_rank0.txt");
    let smi = smi.to_str().unwrap();
    let run = run_in(directory.path(), ["oom", "job.log", "--marks", "marks", "--nvidia-smi", smi], &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    for words in [
        "merge, by \"merging part 3\"",
        "7 other processes hold about 871.0 MiB each",
        "set_device",
        "other processes",
        "5.95 GiB",
    ] {
        assert!(run.stdout.contains(words), "no {words} in\n{}", run.stdout);
    }
    let run = run_in(directory.path(), ["oom", "job.log", "--marks", "bad"], &[]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("bad") && run.stderr.contains("line 1"), "{}", run.stderr);
    let run = run_in(directory.path(), ["oom", "job.log", "--nvidia-smi", "empty"], &[]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--query-compute-apps"), "{}", run.stderr);
}

#[test]
fn report_joins_the_text() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("job.log");
    let rig = json(testdata().join("rig/2.15.0/oom_bigone.json"));
    fs::write(&log, rig["oom"].as_str().unwrap()).unwrap();
    let log = log.to_str().unwrap();
    let report = json_of(&["report", "testdata/rig/2.15.0/oom_bigone_atoom.pickle", "--log", log, "--json"]);
    assert_eq!(report["verdict"], "giant");
    assert!(
        report["evidence"][0].as_str().unwrap().contains("of the 23.65 GiB that the card has"),
        "{}",
        report["evidence"]
    );
    let diagnosis = &report["diagnoses"][0]["diagnosis"];
    assert_eq!(diagnosis["contradictions"], Value::Array(Vec::new()));
    // The text names another process, so the card is accounted for: 2.93 GiB there.
    let lines = diagnosis["account"]["lines"].as_array().unwrap();
    let others = lines.iter().find(|line| line["name"] == "other processes").unwrap();
    assert_eq!(others["bytes"], 3_146_063_544u64);
    let text = oomscope(["report", "testdata/rig/2.15.0/oom_bigone_atoom.pickle", "--log", log]).stdout;
    let verdict = text.find("VERDICT").unwrap();
    assert!(verdict < text.find("MEMORY").unwrap() && text.contains("THE CARD"), "{text}");

    // A text of another failure is not forced onto the snapshot.
    let other = directory.path().join("other.log");
    fs::write(&other, "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 5 has a total capacity of 8.00 GiB of which 0 bytes is free.").unwrap();
    let report =
        json_of(&["report", "testdata/rig/2.6.0/decode_atoom.pickle", "--log", other.to_str().unwrap(), "--json"]);
    assert_eq!(report["verdict"], "fragmentation");
    assert!(report["diagnoses"][0]["diagnosis"].get("tried").is_none());
    let said = &report["diagnoses"][0]["diagnosis"]["contradictions"][0];
    assert_eq!(
        said,
        "the log's message (line 1) is of another failure: it is of device 5, not 0; no figure of the log is used"
    );
    fs::write(&other, "\nCUDA out of memory. Tried to allocate 100.00 GiB. GPU 0 has a total capacity of 8.00 GiB.")
        .unwrap();
    let text = oomscope(["report", "testdata/rig/2.6.0/decode_atoom.pickle", "--log", other.to_str().unwrap()]).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "but the log's message (line 2) is of another failure: it asks for 100.0 GiB, this failure for 80.0 MiB of \
                the device; no figure of the log is used";
    assert!(text.contains(said), "{text}");
}

/// What is no snapshot may be a log, and the other way round: the message names the command that reads it.
#[test]
fn the_wrong_door_has_a_signpost() {
    let snapshot = "testdata/rig/2.6.0/decode_atoom.pickle";
    let run = oomscope(["oom", snapshot]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains(&format!("this is a snapshot: `oomscope {snapshot}`")), "{}", run.stderr);
    let log = "testdata/oom/vllm_graph_capture.log";
    for arguments in [vec![log], vec!["map", log], vec!["diff", snapshot, log]] {
        let run = oomscope(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(run.stderr.contains(&format!("try `oomscope oom {log}`")), "{arguments:?}: {}", run.stderr);
    }
    for (arguments, words) in [
        (vec!["reprot", snapshot], "no such command or file `reprot`; did you mean `report`?"),
        (vec!["segmets"], "did you mean `segments`?"),
        (vec!["everything", snapshot], "no such command or file `everything`; `oomscope --help` lists the commands"),
    ] {
        let run = oomscope(&arguments);
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
}

/// A log of several failures: the others have words for their verdicts, and each can be asked for.
#[test]
fn each_message_can_be_told() {
    let log = "testdata/oom/oom_messages.jsonl";
    let all = json_of(&["oom", log, "--json"]);
    let messages = all["messages"].as_array().unwrap();
    let text = oomscope(["oom", log]).stdout;
    let (_, others) = text.split_once("OTHER MESSAGES, each told by --message").unwrap();
    assert!(others.contains("One giant request") && others.contains("Not a shortage of memory"), "{others}");
    assert!(!others.contains("not_shortage") && !others.contains("  giant"), "{others}");
    for number in [1, 2, messages.len()] {
        let run = oomscope(["oom", log, "--message", &number.to_string()]);
        let line = format!("line {} · ", messages[number - 1]["line"]);
        assert!(run.status == 0 && run.stdout.starts_with(&line), "{number}: {}", run.stdout);
    }
    let run = oomscope(["oom", log, "--message", "0"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains(&format!("the messages are 1 to {}", messages.len())), "{}", run.stderr);
}

#[test]
fn without_a_failure_there_is_no_verdict() {
    let report = json_of(&["report", "testdata/rig/2.6.0/multigpu.pickle", "--json"]);
    assert_eq!((&report["verdict"], &report["remedies"]), (&Value::Null, &Value::Array(Vec::new())));
    // Unless the card is known, and the counters exceed it.
    let report = json_of(&["report", "testdata/cases/10_sleep_pool.pickle", "--capacity", "150754820096", "--json"]);
    assert_eq!(report["verdict"], "counters");
    assert!(report["remedies"].as_array().unwrap().iter().all(|remedy| remedy["id"] != "expandable_segments"));
}

#[test]
fn estimates() {
    let weights = json_of(&["estimate", "--params", "8e9", "--dtype", "bf16", "--gpu", "24GiB", "--json"]);
    assert_eq!((&weights["total"], &weights["fits"]), (&16_000_000_000u64.into(), &true.into()));
    let text = oomscope(["estimate", "--params", "8e9", "--dtype", "bf16"]).stdout;
    assert!(text.contains("16.00 GB") && text.contains("Left out"), "{text}");
    let training = json_of(&["estimate", "--params", "8e9", "--train", "mixed-adamw", "--json"]);
    assert_eq!(training["total"], 18 * 8_000_000_000u64);
    assert_eq!(oomscope(["estimate"]).status, 2);
    // As model cards give it.
    for count in ["8B", "8b", "8G", "8000M", "0.008T", "8000000000"] {
        let same = json_of(&["estimate", "--params", count, "--json"]);
        assert_eq!((&same["params"], &same["total"]), (&8_000_000_000u64.into(), &16_000_000_000u64.into()), "{count}");
    }
    let run = oomscope(["estimate", "--params", "8GiB"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("is not a count: write a whole number like 8e9"), "{}", run.stderr);
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.json");
    fs::write(&config, r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"tie_word_embeddings":false,"torch_dtype":"bfloat16"}"#).unwrap();
    let config = config.to_str().unwrap();
    let served =
        json_of(&["estimate", "--config", config, "--batch", "16", "--seq", "8192", "--gpu", "24GiB", "--json"]);
    assert_eq!((&served["params"], &served["fits"]), (&8_030_261_248u64.into(), &false.into()));
    assert_eq!(
        served["terms"].as_array().unwrap().iter().map(|term| term["bytes"].as_u64().unwrap()).sum::<u64>(),
        served["total"]
    );
    let lora = json_of(&["estimate", "--config", config, "--lora", "16", "--json"]);
    // r × (in + out) on every linear layer of the blocks, as PEFT counts them: 41 943 040 for rank 16.
    let adapters = lora["terms"].as_array().unwrap().iter().find(|term| term["name"] == "adapters").unwrap();
    assert_eq!(adapters["bytes"], 41_943_040u64 * 16);
    fs::write(directory.path().join("t5.json"), r#"{"model_type":"t5"}"#).unwrap();
    let run = run_in(directory.path(), ["estimate", "--config", "t5.json"], &[]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("t5") && run.stderr.contains("--params"), "{}", run.stderr);
}

#[test]
fn code_to_paste() {
    let list = oomscope(["howto"]).stdout;
    for topic in ["plain", "hook", "trainer", "lightning", "servers"] {
        assert!(list.contains(topic));
        let code = oomscope(["howto", topic]).stdout;
        assert!(code.starts_with('#') && code.contains("import"), "{topic}");
    }
    assert_eq!(oomscope(["howto", "nothing"]).status, 2);
}
