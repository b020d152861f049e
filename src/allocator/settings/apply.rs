//! The meaning of each key.

use super::grammar::{Value, pairs};
use super::{AllocatorSettings, SettingProblem};
use crate::allocator::{AllocatorRules, ExpandableReserve, GIB, MIB, TorchVersion};

/// Why a pair is not used.
enum Refusal {
    Unknown,
    Since(TorchVersion),
    Expected(String),
    NotSimulated,
}

/// Largest number of MiB whose bytes fit in 64 bits.
const MAX_MIB: u64 = u64::MAX / MIB;

pub(super) fn parse(before: &AllocatorRules, conf: &str, version: TorchVersion) -> AllocatorSettings {
    let conf: String = conf.chars().filter(|c| !c.is_whitespace()).collect();
    let defaults = AllocatorRules::default();
    let mut settings = AllocatorSettings {
        rules: AllocatorRules {
            max_split_size: None,
            gc_threshold: 0.0,
            roundup_power2_divisions: defaults.roundup_power2_divisions,
            ..before.clone()
        },
        ..Default::default()
    };
    let mut pairs = pairs(&conf);
    // The segment size is a default and a limit of others, so PyTorch reads it first wherever it stands.
    pairs.sort_by_key(|pair| !matches!(pair, Ok(("large_segment_size_mb", _))));
    let mut rounding = None;
    for pair in pairs {
        let (key, value) = match pair {
            Ok(pair) => pair,
            Err(text) => {
                settings.problems.push(SettingProblem::Syntax { text: text.to_owned() });
                continue;
            }
        };
        match apply(&mut settings, &mut rounding, key, &value, version) {
            Ok(()) => settings.accepted.push(key.to_owned()),
            Err(refusal) => settings.problems.push(problem(refusal, key, &value)),
        }
    }
    settings.rules.max_non_split_rounding = rounding.unwrap_or(settings.rules.large_segment);
    settings
}

fn problem(refusal: Refusal, key: &str, value: &Value<'_>) -> SettingProblem {
    let key = key.to_owned();
    match refusal {
        Refusal::Unknown => SettingProblem::UnknownKey { key },
        Refusal::Since(since) => SettingProblem::NotInVersion { key, since: since.to_string() },
        Refusal::Expected(expected) => SettingProblem::BadValue { key, value: value.text(), expected },
        Refusal::NotSimulated => SettingProblem::NotSimulated { key },
    }
}

fn apply(
    settings: &mut AllocatorSettings,
    rounding: &mut Option<u64>,
    key: &str,
    value: &Value<'_>,
    version: TorchVersion,
) -> Result<(), Refusal> {
    let since = |major, minor| {
        let first = TorchVersion::new(major, minor);
        if version < first { Err(Refusal::Since(first)) } else { Ok(()) }
    };
    let rules = &mut settings.rules;
    match key {
        "max_split_size_mb" => {
            // Releases up to 2.9 compare with the constant and exclude it, later ones include the segment size.
            let least = if version < TorchVersion::new(2, 11) { 21 } else { rules.large_segment / MIB };
            rules.max_split_size = Some(mib(value, least)?);
        }
        "max_non_split_rounding_mb" => {
            since(2, 6)?;
            let least = if version < TorchVersion::new(2, 11) { 21 } else { rules.large_segment / MIB };
            *rounding = Some(mib(value, least)?);
        }
        "large_segment_size_mb" => {
            since(2, 11)?;
            rules.large_segment = mib(value, 11)?;
        }
        "garbage_collection_threshold" => {
            let threshold = number(value).filter(|t| *t > 0.0 && *t < 1.0);
            rules.gc_threshold = threshold.ok_or_else(|| expected("a number between 0 and 1, both excluded"))?;
        }
        "per_process_memory_fraction" => {
            since(2, 10)?;
            let fraction = number(value).filter(|f| (0.0..=1.0).contains(f));
            rules.memory_fraction = Some(fraction.ok_or_else(|| expected("a number from 0 to 1"))?);
        }
        "roundup_power2_divisions" => rules.roundup_power2_divisions = divisions(value, version)?,
        "expandable_segments" => {
            since(2, 1)?;
            rules.expandable = flag(value)?;
        }
        "throw_on_cudamalloc_oom" => {
            since(2, 12)?;
            rules.reject_above_fraction = flag(value)?;
        }
        "expandable_segments_reserve" => {
            since(2, 15)?;
            rules.expandable_reserve = Some(reserve(value)?);
        }
        "expandable_segments_reserve_by_class" => {
            since(2, 15)?;
            return Err(Refusal::NotSimulated);
        }
        "graph_capture_record_stream_reuse" => {
            since(2, 9)?;
            flag(value)?;
        }
        // It changes the interleaving of threads only.
        "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
            flag(value)?;
        }
        "backend" => match value {
            Value::Word(name @ ("native" | "cudaMallocAsync" | "hipMallocAsync")) => {
                settings.backend = Some((*name).to_owned());
            }
            _ => return Err(expected("native or cudaMallocAsync")),
        },
        // Host memory; the values do not matter here.
        _ if key.starts_with("pinned_") => {}
        _ => return Err(Refusal::Unknown),
    }
    Ok(())
}

fn expected(what: &str) -> Refusal {
    Refusal::Expected(what.to_owned())
}

fn word<'a>(value: &Value<'a>) -> Option<&'a str> {
    match value {
        Value::Word(word) => Some(word),
        Value::List(_) => None,
    }
}

fn number(value: &Value<'_>) -> Option<f64> {
    word(value)?.parse().ok()
}

fn flag(value: &Value<'_>) -> Result<bool, Refusal> {
    match word(value) {
        Some("True") => Ok(true),
        Some("False") => Ok(false),
        _ => Err(expected("True or False, exactly so")),
    }
}

/// A whole number of MiB, at least `least`, in bytes; numbers too big for 64 bits are cut, as PyTorch does.
fn mib(value: &Value<'_>, least: u64) -> Result<u64, Refusal> {
    match word(value).and_then(|word| word.parse::<u64>().ok()) {
        Some(n) if n >= least => Ok(n.min(MAX_MIB) * MIB),
        _ => Err(Refusal::Expected(format!("a whole number of MiB, {least} or more"))),
    }
}

/// `0.5` (of the device's memory) or `12G`.
fn reserve(value: &Value<'_>) -> Result<ExpandableReserve, Refusal> {
    let refusal = || expected("a fraction of the device's memory such as 0.5, or a size such as 12G");
    let word = word(value).ok_or_else(refusal)?;
    let parse = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    match word.strip_suffix(['G', 'g']) {
        // The conversion saturates.
        Some(gib) => Ok(ExpandableReserve::Bytes((parse(gib).ok_or_else(refusal)? * GIB as f64) as u64)),
        None => Ok(ExpandableReserve::Fraction(parse(word).ok_or_else(refusal)?)),
    }
}

/// One number for all sixteen intervals, or a list with a number for some of them.
fn divisions(value: &Value<'_>, version: TorchVersion) -> Result<[u64; 16], Refusal> {
    let power = |text: &str| text.parse::<u64>().ok().filter(|n| n.is_power_of_two());
    let pairs = match value {
        Value::Word(word) => {
            return power(word).map(|n| [n; 16]).ok_or_else(|| expected("a power of two"));
        }
        Value::List(pairs) => pairs,
    };
    // Zero inside a list is known to fail in 2.3 and to pass in 2.6.
    let zero = version >= TorchVersion::new(2, 6);
    let mut table = [0; 16];
    let mut last = None;
    for (key, text) in pairs {
        let n = power(text).or((zero && *text == "0").then_some(0));
        let n = n.ok_or_else(|| {
            expected(if zero { "0 or a power of two for each size" } else { "a power of two for each size" })
        })?;
        let interval = if *key == ">" {
            None
        } else {
            let mib = power(key).ok_or_else(|| expected("sizes in MiB that are powers of two, or >"))?;
            Some((mib.ilog2() as usize).min(15))
        };
        match (interval, last) {
            (Some(at), None) => table[..=at].fill(n),
            (Some(at), Some(_)) => table[at] = n,
            // Up to 2.9 `>` also overwrote the interval of the last key.
            (None, Some(last)) => {
                let from: usize = if version < TorchVersion::new(2, 10) { last } else { last + 1 };
                table[from..].fill(n);
            }
            (None, None) => table.fill(n),
        }
        last = interval.or(last);
    }
    Ok(table)
}
