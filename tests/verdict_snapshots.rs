//! Snapshots of known causes get the verdict of their cause.

mod common;

use std::path::Path;

use common::{files, is_pickle, json, read, shared_data, stem, testdata};
use oomscope::analysis::failures::failures;
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::{growth, verdict};
use oomscope::history::History;
use oomscope::oom::{Judgement, judge, scan};

/// Alone; with the text, and what contradicts it.
type Judgements = (Judgement, Option<(Judgement, Vec<String>)>);

/// The verdict of the last failure in `path`, without and with the error text.
fn judgements(path: &Path, text: Option<&str>) -> Option<Judgements> {
    let snapshot = read(path);
    let sites = Sites::new(&snapshot, By::Line);
    let histories: Vec<History> =
        snapshot.devices.iter().map(|device| History::new(&snapshot, device, &snapshot.settings.rules)).collect();
    let history = histories.iter().find(|history| !history.ooms.is_empty())?;
    let failure = failures(history).pop()?;
    let facts = verdict::facts(history, &failure, &sites, None);
    let alone = judge(&facts);
    let joined = text.and_then(|text| scan(text.as_bytes()).into_iter().next()).map(|message| {
        assert!(verdict::is_about(&message, &failure, history.device.ordinal), "{}: {message:?}", path.display());
        let (facts, contradictions) = verdict::join(facts, &message);
        (judge(&facts), contradictions)
    });
    Some((alone, joined))
}

fn expected(name: &str) -> Option<&'static str> {
    Some(match name {
        _ if name.starts_with("decode") || name.starts_with("frag") => "fragmentation",
        _ if name.starts_with("oom_train") => "capacity",
        _ if name.starts_with("leak_") => "accumulation",
        "oom_bigone" | "oom_privatepool" => "giant",
        "oom_fraction" => "limit",
        _ => return None,
    })
}

fn check(directory: &Path) -> usize {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files(directory, is_pickle) {
        let stem = stem(&path);
        let name = Path::new(&stem).file_name().unwrap().to_str().unwrap().trim_end_matches("_atoom").to_owned();
        let Some(expected) = expected(&name) else { continue };
        let described = format!("{}.json", stem.trim_end_matches("_atoom"));
        let text =
            Path::new(&described).exists().then(|| json(&described)).and_then(|v| v["oom"].as_str().map(str::to_owned));
        let Some((alone, joined)) = judgements(&path, text.as_deref()) else { continue };
        seen += 1;
        let mut compare = |what: &str, found: &Judgement| {
            if found.verdict.name() != expected {
                wrong.push(format!("{} {what}: not {expected}: {:#?}", path.display(), found.findings));
            }
        };
        compare("alone", &alone);
        if let Some((joined, contradictions)) = &joined {
            compare("with text", joined);
            if !contradictions.is_empty() {
                wrong.push(format!("{}: {contradictions:?}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} wrong:\n{}", wrong.len(), wrong.join("\n"));
    seen
}

#[test]
fn small_failures_get_the_verdict_of_their_workload() {
    assert!(check(&testdata().join("rig")) >= 8);
}

#[test]
fn every_rig_failure_gets_the_verdict_of_its_workload() {
    let Some(data) = shared_data() else { return };
    assert!(check(&data.join("rig")) >= 60);
}

/// Every planted leak grows, and nothing else does: not the repaired program, a plateau, a warm-up, a cache that is
/// reset, or sequences that grow and end.
#[test]
fn planted_leaks_grow_and_nothing_else_does() {
    let Some(data) = shared_data() else { return };
    let truth = json(data.join("leaks/truth.json"));
    let mut seen = 0;
    for path in files(&data.join("leaks"), is_pickle) {
        let snapshot = read(&path);
        let sites = Sites::new(&snapshot, By::Line);
        let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
        let found = growth::growing(&history, &sites, history.events()).expect("a trace");
        let name = stem(&path);
        let name = name.rsplit('/').next().expect("a name");
        assert_eq!(!found.is_empty(), truth[name]["leak"].as_bool().expect("the truth"), "{name}: {found:?}");
        seen += 1;
    }
    assert!(seen >= 16);
}
