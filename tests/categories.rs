//! What memory is for, against models whose sizes are known.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{files, is_pickle, json_of, oomscope, read, shared_data, stem, testdata};
use oomscope::analysis::categories::{Category, Classifier, Rules};
use oomscope::history::{At, History};

/// Bytes of the parameters of the GPT that the rig's workloads train, in float32: token and position embeddings, and the
/// head; in each layer two norms, the projections of attention (d → 3d, d → d) and of the MLP (d → 4d, 4d → d) with
/// their biases; the last norm.
fn gpt(vocabulary: u64, width: u64, layers: u64) -> u64 {
    const CONTEXT: u64 = 8192;
    let d = width;
    let layer = 2 * 2 * d + (3 * d * d + 3 * d) + (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d);
    4 * (vocabulary * d + CONTEXT * d + layers * layer + 2 * d + vocabulary * d)
}

/// The model of `train`, `leak_eval` and others.
const SMALL: (u64, u64, u64) = (4096, 256, 2);
/// The model of `oom_train`.
const LARGE: (u64, u64, u64) = (8192, 512, 6);

/// Requested bytes by category at `at` on the first device.
fn sizes(path: &Path, at: At) -> BTreeMap<&'static str, u64> {
    let snapshot = read(path);
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let categories = Classifier::new(&snapshot, Rules::default()).classify(&history);
    let state = history.state(history.moment(at).unwrap().state);
    let mut sizes = BTreeMap::new();
    for block in &state.blocks {
        *sizes.entry(Category::ALL[categories.of_life(block.life)].name()).or_default() += block.requested;
        assert!(!categories.why(block.life).is_empty());
    }
    sizes
}

#[track_caller]
fn is_within_a_percent(found: Option<&u64>, expected: u64, what: &str) {
    let found = found.copied().unwrap_or(0);
    assert!(found.abs_diff(expected) * 100 <= expected, "{what}: {found} B found, {expected} B expected");
}

/// Parameters, gradients and AdamW's two moments, at the end of training: nothing else is left but workspaces.
#[test]
fn the_trained_model_is_found() {
    let Some(data) = shared_data() else { return };
    let trained = |name: &str| {
        let stem = name.split(".pickle").next().unwrap();
        is_pickle(name) && ["train", "train_expandable", "train_stacks_all", "train_context_alloc"].contains(&stem)
    };
    let paths = files(&data.join("rig"), trained);
    assert!(paths.iter().filter(|path| stem(path).ends_with("/train")).count() >= 3, "{paths:?}");
    let parameters = gpt(SMALL.0, SMALL.1, SMALL.2);
    for path in paths {
        let (name, sizes) = (path.display().to_string(), sizes(&path, At::End));
        is_within_a_percent(sizes.get("parameters"), parameters, &name);
        is_within_a_percent(sizes.get("gradients"), parameters, &name);
        is_within_a_percent(sizes.get("optimizer state"), 2 * parameters, &name);
        assert_eq!(sizes.get("unknown"), None, "{name}");
        assert_eq!(sizes.get("activations"), None, "{name}");
    }
}

/// The same in the project's own files, at a failure in a later forward pass.
#[test]
fn a_model_is_found_at_a_failure() {
    let sizes_of = |name: &str| sizes(&testdata().join("rig").join(name), At::Default);
    let (small, large) = (gpt(SMALL.0, SMALL.1, SMALL.2), gpt(LARGE.0, LARGE.1, LARGE.2));
    let leak = sizes_of("2.6.0/leak_eval_atoom.pickle");
    is_within_a_percent(leak.get("parameters"), small, "leak_eval");
    is_within_a_percent(leak.get("gradients"), small, "leak_eval");
    is_within_a_percent(leak.get("optimizer state"), 2 * small, "leak_eval");
    let train = sizes_of("2.6.0/oom_train.pickle");
    is_within_a_percent(train.get("parameters"), large, "oom_train");
    assert_eq!(train.get("gradients"), None, "the first forward pass fails");
    assert!(train["activations"] > 1 << 30);
}

/// What the exception frees after the failure is told as in the file that was dumped at the failure.
#[test]
fn a_later_dump_says_the_same_of_the_failure() {
    let mut roots = vec![testdata().join("rig")];
    roots.extend(shared_data().map(|data| data.join("rig")));
    let mut visited = 0;
    for after in roots.iter().flat_map(|root| files(root, |name| is_pickle(name) && name.starts_with("oom_train"))) {
        let at_oom = PathBuf::from(format!("{}_atoom.pickle", stem(&after)));
        if at_oom.is_file() {
            // A loop that goes on after a caught failure would differ; these jobs end.
            let (later, then) = (sizes(&after, At::Oom(None)), sizes(&at_oom, At::Oom(None)));
            let without_temporaries = |sizes: &BTreeMap<&'static str, u64>| {
                let kept =
                    ["parameters", "gradients", "optimizer state", "cuBLAS and cuDNN workspaces", "dataloader copies"];
                kept.map(|name| sizes.get(name).copied().unwrap_or(0))
            };
            assert_eq!(without_temporaries(&later), without_temporaries(&then), "{}", after.display());
            visited += 1;
        }
    }
    assert!(visited >= 2, "{visited} runs");
}

#[test]
fn caches_and_graph_pools_are_told() {
    let decode = sizes(&testdata().join("rig/2.6.0/decode_atoom.pickle"), At::Default);
    assert!(decode["KV cache"] > 400 << 20, "{decode:?}");
    let graph = sizes(&testdata().join("rig/2.6.0/graph.pickle"), At::End);
    assert!(graph["CUDA-graph pools"] > 0, "{graph:?}");
}

/// Reasons sum to their category, and categories to the total; shares to 1.
#[test]
fn reasons_are_told_on_request() {
    let path = "testdata/rig/2.6.0/leak_eval_atoom.pickle";
    let ranking = json_of(&["top", path, "--by", "category", "--why", "--json"]);
    assert_eq!(ranking["by"], "category");
    let rows = ranking["rows"].as_array().unwrap();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert_eq!(rows.iter().map(|row| number(&row["bytes"])).sum::<u64>(), number(&ranking["total"]));
    assert!((rows.iter().map(|row| row["share"].as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-9);
    for row in rows {
        let why = row["why"].as_array().unwrap();
        assert_eq!(why.iter().map(|why| number(&why["value"])).sum::<u64>(), number(&row["value"]), "{row}");
    }
    let plain = json_of(&["top", path, "--by", "category", "--json"]);
    assert!(plain["rows"][0].get("why").is_none());
    let run = oomscope(["top", path, "--why"]);
    assert!(run.status == 2 && run.stderr.contains("--by category"), "{}", run.stderr);
}

#[test]
fn rules_of_the_user_come_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let path = "testdata/rig/2.6.0/oom_train.pickle";
    let arguments = ["top", path, "--by", "category", "--json", "--rules", file.to_str().unwrap()];
    let bytes = |label: &str| {
        let ranking = json_of(&arguments);
        let rows = ranking["rows"].as_array().unwrap().clone();
        assert_eq!(rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>(), ranking["total"]);
        rows.iter().find(|row| row["site"] == label).map_or(0, |row| row["bytes"].as_u64().unwrap())
    };
    let [softmax, forward] = [r"gpt\.py:19 ", r"gpt\.py"];
    let rule = |pattern: &str, label: &str| format!("[[rule]]\nmatch = '{pattern}'\nlabel = '{label}'\n");
    write(&(rule(softmax, "softmax") + &rule(forward, "model")));
    let first = bytes("softmax");
    assert_eq!(first, 384 << 20);
    assert!(bytes("model") > first);
    write(&(rule(forward, "model") + &rule(softmax, "softmax")));
    assert_eq!(bytes("softmax"), 0, "the first match wins");

    write("[[rule]]\nmatch = '('\nlabel = 'x'\n");
    let run = oomscope(arguments);
    assert!(run.status == 2 && run.stderr.contains("rule 1"), "{}", run.stderr);
    let run = oomscope(["top", path, "--by", "category", "--rules", "absent.toml"]);
    assert!(run.status == 2 && run.stderr.contains("absent.toml"), "{}", run.stderr);
}

#[test]
fn a_file_without_stacks_says_that_nothing_can_be_told() {
    let ranking = json_of(&["top", "testdata/cases/01_pinned_remainder.pickle", "--by", "category", "--json"]);
    assert!(!ranking["rows"].as_array().unwrap().is_empty());
    let Some(data) = shared_data() else { return };
    let path = data.join("rig/2.6.0/train_context_none.pickle");
    let text = oomscope(["top", path.to_str().unwrap(), "--by", "category"]).stdout;
    assert!(text.contains("the file has no stacks"), "{text}");
}

#[test]
fn maps_are_coloured_by_category() {
    let path = "testdata/rig/2.6.0/oom_train.pickle";
    let svg = oomscope(["map", path, "--color", "category"]).stdout;
    for text in [">parameters<", ">activations<", ">category<"] {
        assert!(svg.contains(text), "{text}");
    }
    roxmltree::Document::parse(&svg).unwrap();
    let map = json_of(&["map", path, "--color", "category", "--json"]);
    let ranking = json_of(&["top", path, "--by", "category", "--json"]);
    let sites = map["devices"][0]["sites"].as_array().unwrap();
    for row in ranking["rows"].as_array().unwrap() {
        let site = sites.iter().find(|site| site["site"] == row["site"]).unwrap();
        assert_eq!(site["bytes"], row["bytes"]);
    }
}
