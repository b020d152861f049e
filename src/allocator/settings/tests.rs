use proptest::prelude::*;

use super::{AllocatorSettings, SettingProblem};
use crate::allocator::{AllocatorRules, ExpandableReserve, GIB, MIB, TorchVersion};

const V23: Option<TorchVersion> = Some(TorchVersion::new(2, 3));
const V26: Option<TorchVersion> = Some(TorchVersion::new(2, 6));
const V29: Option<TorchVersion> = Some(TorchVersion::new(2, 9));
const V215: Option<TorchVersion> = Some(TorchVersion::new(2, 15));

fn rules(conf: &str, version: Option<TorchVersion>) -> AllocatorRules {
    let settings = AllocatorSettings::parse(conf, version);
    assert_eq!(settings.problems, [], "{conf}");
    settings.rules
}

/// The problems of a string as text, and that the rules stay at their defaults.
fn refused(conf: &str, version: Option<TorchVersion>) -> Vec<String> {
    let settings = AllocatorSettings::parse(conf, version);
    assert_eq!(settings.rules, AllocatorRules::default(), "{conf}");
    settings.problems.iter().map(SettingProblem::to_string).collect()
}

#[test]
fn an_empty_string_is_the_default() {
    for conf in ["", " ", ",", " , ,"] {
        assert_eq!(rules(conf, None), AllocatorRules::default());
    }
}

#[test]
fn every_key_lands_in_its_field() {
    let conf = "max_split_size_mb:64,max_non_split_rounding_mb:100, large_segment_size_mb:40 ,\
                garbage_collection_threshold:0.6,roundup_power2_divisions:4,expandable_segments:True,\
                per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,expandable_segments_reserve:2G,\
                release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:False,backend:native,\
                pinned_use_cuda_host_register:True";
    let settings = AllocatorSettings::parse(conf, V215);
    assert_eq!(settings.problems, []);
    assert!(settings.is_native());
    assert_eq!(settings.accepted.len(), 13);
    let expected = AllocatorRules {
        max_split_size: Some(64 * MIB),
        max_non_split_rounding: 100 * MIB,
        large_segment: 40 * MIB,
        gc_threshold: 0.6,
        roundup_power2_divisions: [4; 16],
        expandable: true,
        memory_fraction: Some(0.5),
        reject_above_fraction: true,
        expandable_reserve: Some(ExpandableReserve::Bytes(2 * GIB)),
        ..Default::default()
    };
    assert_eq!(settings.rules, expected);
}

#[test]
fn the_segment_size_is_the_default_of_the_rounding_and_a_limit_of_the_split_size() {
    assert_eq!(rules("large_segment_size_mb:64", V215).max_non_split_rounding, 64 * MIB);
    let late = AllocatorSettings::parse("max_split_size_mb:32,large_segment_size_mb:64", V215);
    assert_eq!(late.problems[0].to_string(), "`max_split_size_mb:32`: a whole number of MiB, 64 or more");
    assert_eq!(rules("max_split_size_mb:20", V215).max_split_size, Some(20 * MIB));
    assert_eq!(refused("max_split_size_mb:20", V29).len(), 1);
    assert_eq!(rules("max_split_size_mb:99999999999999999", V29).max_split_size, Some(u64::MAX / MIB * MIB));
}

#[test]
fn roundup_lists_fill_intervals() {
    let (z, list) = (0, "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    let below = [1; 9];
    let of = |tail: [u64; 7]| -> [u64; 16] {
        let mut table = [z; 16];
        table[..9].copy_from_slice(&below);
        table[9..].copy_from_slice(&tail);
        table
    };
    assert_eq!(rules(list, V215).roundup_power2_divisions, of([2, 4, 8, 8, 8, 8, 8]));
    for old in [V23, V29] {
        assert_eq!(rules(list, old).roundup_power2_divisions, of([2, 8, 8, 8, 8, 8, 8]));
    }
    let gap = [8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(rules("roundup_power2_divisions:[64:8,256:4]", V26).roundup_power2_divisions, gap);
    let far = rules("roundup_power2_divisions:[1048576:2]", V26).roundup_power2_divisions;
    assert_eq!(far, [2; 16]);
}

#[test]
fn zero_is_a_division_only_inside_newer_lists() {
    assert_eq!(rules("roundup_power2_divisions:[4:0,>:4]", V215).roundup_power2_divisions[..4], [0, 0, 0, 4]);
    assert_eq!(refused("roundup_power2_divisions:[4:0,>:4]", V23).len(), 1);
    assert_eq!(refused("roundup_power2_divisions:0", V215), ["`roundup_power2_divisions:0`: a power of two"]);
    assert_eq!(refused("roundup_power2_divisions:[3:4]", V215).len(), 1);
}

#[test]
fn what_pytorch_refuses_is_reported_and_ignored() {
    let cases = [
        ("expandable_segments:true", "`expandable_segments:true`: True or False, exactly so"),
        ("expandable_segment:True", "`expandable_segment` is not an allocator setting"),
        (
            "garbage_collection_threshold:1.0",
            "`garbage_collection_threshold:1.0`: a number between 0 and 1, both excluded",
        ),
        (
            "garbage_collection_threshold:nan",
            "`garbage_collection_threshold:nan`: a number between 0 and 1, both excluded",
        ),
        ("backend:fast", "`backend:fast`: native or cudaMallocAsync"),
        ("expandable_segments=True", "`expandable_segments=True` is not of the form key:value"),
        ("roundup_power2_divisions:[1:2", "`roundup_power2_divisions:[1:2` is not of the form key:value"),
        ("a:b:c", "`a:b:c` is not of the form key:value"),
    ];
    for (conf, text) in cases {
        assert_eq!(refused(conf, V215), [text]);
    }
    let by_class = "expandable_segments_reserve_by_class:[a:1,b:2G]";
    assert_eq!(
        refused(by_class, V215),
        ["`expandable_segments_reserve_by_class` is understood, but its effect is not simulated"]
    );
}

#[test]
fn other_pairs_survive_a_bad_one() {
    let settings = AllocatorSettings::parse("nonsense:1,max_split_size_mb:64,[,expandable_segments:True", V26);
    assert_eq!(settings.rules.max_split_size, Some(64 * MIB));
    assert_eq!(settings.problems.len(), 2);
}

#[test]
fn the_driver_backend_is_recognised() {
    let settings = AllocatorSettings::parse("backend:cudaMallocAsync", V26);
    assert!(!settings.is_native());
    assert_eq!(settings.backend.as_deref(), Some("cudaMallocAsync"));
}

#[test]
fn a_later_parse_resets_some_settings_and_keeps_others() {
    let first = rules("expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.5", V26);
    let second = AllocatorSettings::parse_after(&first, "roundup_power2_divisions:8", V26).rules;
    assert!(second.expandable);
    assert_eq!(second.max_split_size, None);
    assert_eq!(second.gc_threshold, 0.0);
    assert_eq!(second.roundup_power2_divisions, [8; 16]);
}

proptest! {
    #[test]
    fn no_string_panics(conf in "[a-z_0-9:,\\[\\]> .GTrue-]{0,80}", minor in 0u16..20) {
        AllocatorSettings::parse(&conf, Some(TorchVersion::new(2, minor)));
    }

    #[test]
    fn no_value_panics(key in prop::sample::select(vec![
        "max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb", "garbage_collection_threshold",
        "roundup_power2_divisions", "per_process_memory_fraction", "expandable_segments_reserve",
    ]), value in "(\\[[0-9]{1,25}:[0-9]{1,25}(,>:[0-9]{1,4})?\\]|[0-9.eGinf-]{1,25})") {
        AllocatorSettings::parse(&format!("{key}:{value}"), None);
    }
}
