//! Lines whose live memory grows step by step.
//!
//! In: a history and the steps of its job. Out: [`Leaks`]: what grows, by how much a step, and what looks like it but
//! does not. The test is that of Mann and Kendall, the rate that of Theil and Sen: see [`judge`].

mod compare;
mod detail;
mod judge;
mod kind;
mod result;
mod samples;
mod stock;

pub use compare::{Compared, Grown, compare};
pub use judge::{ALPHA, Judgement, MIN_SAMPLES, Trend, Why, judge};
pub use kind::Kind;
pub use result::{Cause, Document, Freed, Leak, LeakSteps, Leaks, NotLeak, Stock};

use rayon::prelude::*;

use self::detail::{Detail, details};
use self::samples::Samples;
use super::failures;
use super::sites::{Site, Sites};
use super::steps::Steps;
use crate::history::History;

/// What grows on `history`'s device. `capacity` is what the process could have, where the caller knows.
///
/// ```no_run
/// use oomscope::analysis::leaks::leaks;
/// use oomscope::analysis::sites::{By, Sites};
/// use oomscope::history::History;
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("job.pickle".into()), &LoadOptions::default())?;
/// let sites = Sites::new(&snapshot, By::Line);
/// for device in &snapshot.devices {
///     let history = History::new(&snapshot, device, &snapshot.settings.rules);
///     for leak in leaks(&history, &sites, None).leaks {
///         println!("{} adds {} B a step since step {}", leak.site, leak.bytes_per_step, leak.since_step);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn leaks(history: &History, sites: &Sites, capacity: Option<u64>) -> Leaks {
    let found = growth_is_visible(history).and_then(|()| {
        let steps = Steps::find(history).ok_or_else(|| "the trace is too short to have steps".to_owned())?;
        let samples = Samples::take(history, sites, &steps);
        match samples.count() < judge::MIN_SUSPECT {
            true => Err("too few steps lie before the failure".to_owned()),
            false => Ok((steps, samples)),
        }
    });
    match found {
        Ok((steps, samples)) => from_samples(history, sites, &steps, &samples, capacity),
        Err(why) => Leaks {
            device: history.device.ordinal,
            steps: None,
            unknown: Some(why),
            bytes_per_step: 0,
            full_in_steps: None,
            causes: Vec::new(),
            leaks: Vec::new(),
            suspects: Vec::new(),
            not_leaks: Vec::new(),
            many_alike: stock::stock(history, sites),
        },
    }
}

/// Why growth cannot be seen at all, if so.
fn growth_is_visible(history: &History) -> Result<(), String> {
    let health = &history.health;
    if !health.recorded {
        return Err("there is no history, so growth cannot be seen".to_owned());
    }
    let missing = &health.missing_actions;
    let blind = ["free", "free_requested", "alloc"];
    match missing.iter().find(|action| blind.contains(action)) {
        Some(action) if *action != "free_requested" || missing.contains(&"free_completed") => {
            Err(format!("the recorder skipped {action} entries, so growth cannot be told from what came and went"))
        }
        _ => Ok(()),
    }
}

fn from_samples(history: &History, sites: &Sites, steps: &Steps, samples: &Samples, capacity: Option<u64>) -> Leaks {
    let mut growing: Vec<(Site, usize, judge::Trend)> = Vec::new();
    let mut not_leaks = stock::workspaces(history, sites, samples.until);
    let is_program = steps.source.is_program();
    let rows: Vec<(Site, usize)> = samples.rows().collect();
    let judged: Vec<Judgement> = rows
        .par_iter()
        .map(|&(_, row)| judge(&samples.bytes(row), &samples.blocks(row), samples.now(row), samples.survivors(row)))
        .collect();
    for ((site, row), judgement) in rows.into_iter().zip(judged) {
        match judgement {
            Judgement::Leak(trend) | Judgement::Suspect(trend) => growing.push((site, row, trend)),
            // In windows the building of a model looks like growth that has ended.
            Judgement::Not(_) if !is_program => {}
            Judgement::Not(why) => not_leaks.push(NotLeak {
                site: sites.name(site).into_owned(),
                bytes: samples.occupied(row),
                why: why.text(|sample| samples.step_before(sample)),
            }),
            Judgement::Nothing => {}
        }
    }
    let details = details(history, sites, samples, growing.iter().map(|&(site, ..)| site));
    let room = room(history, steps, samples, capacity);
    let mut all = (Vec::new(), Vec::new());
    for ((site, row, trend), detail) in growing.into_iter().zip(details) {
        // What a window holds more than the one before can be one long pass of the program.
        if !is_program && !detail.comes_back {
            continue;
        }
        let is_proven = trend.samples >= MIN_SAMPLES;
        let leak = leak(sites, samples, (site, row), trend, detail, room);
        if is_proven { all.0.push(leak) } else { all.1.push(leak) }
    }
    let (mut leaks, mut suspects) = all;
    for list in [&mut leaks, &mut suspects] {
        list.sort_by(|a: &Leak, b| b.bytes_per_step.cmp(&a.bytes_per_step).then_with(|| a.site.cmp(&b.site)));
    }
    not_leaks.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(&b.site)));
    let sum = |part: fn(&Leak) -> u64| leaks.iter().map(part).sum();
    let bytes_per_step = sum(|leak| leak.bytes_per_step);
    Leaks {
        device: history.device.ordinal,
        steps: Some(LeakSteps {
            source: steps.source.clone(),
            count: steps.count(),
            first: steps.numbers[0],
            last: steps.numbers[steps.count() - 1],
            samples: samples.count(),
            at: samples.moment(history),
        }),
        unknown: None,
        bytes_per_step,
        full_in_steps: full_in(room, bytes_per_step, sum(|leak| leak.live_bytes), sum(|leak| leak.requested)),
        causes: causes(&leaks, room),
        leaks,
        suspects,
        not_leaks,
        many_alike: Vec::new(),
    }
}

fn leak(
    sites: &Sites,
    samples: &Samples,
    (site, row): (Site, usize),
    trend: judge::Trend,
    detail: Detail,
    room: Option<u64>,
) -> Leak {
    let per_step = |slope: f64| (slope / samples.stride as f64).max(0.0);
    let bytes_per_step = per_step(trend.slope).round() as u64;
    let blocks = per_step(judge::recent_slope(&samples.blocks(row)[trend.warm_up..]));
    Leak {
        site: sites.name(site).into_owned(),
        function: sites.function(site).map(str::to_owned),
        bytes_per_step,
        blocks_per_step: (blocks * 1000.0).round() / 1000.0,
        live_bytes: samples.occupied(row),
        requested: samples.now(row) as u64,
        live_blocks: detail.live_blocks,
        since_step: samples.step_from(trend.since),
        p_value: trend.p_value,
        full_in_steps: full_in(room, bytes_per_step, samples.occupied(row), samples.now(row) as u64),
        samples: trend.samples,
        kind: detail.kind(&trend),
        called_from: detail.called_from,
        stack: detail.stack,
        own_stack: detail.own_stack,
        stacks: detail.stacks,
        freed: detail.freed,
        levels: samples.bytes(row).iter().map(|&level| level as u64).collect(),
    }
}

/// `leaks` (the fastest first) by the call or line that they belong to.
fn causes(leaks: &[Leak], room: Option<u64>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for leak in leaks {
        let line = leak.called_from.as_ref().unwrap_or(&leak.site);
        let at = causes.iter().position(|cause| cause.line == *line).unwrap_or_else(|| {
            causes.push(Cause {
                line: line.clone(),
                function: leak.function.clone().filter(|_| leak.called_from.is_none()),
                kind: leak.kind,
                bytes_per_step: 0,
                blocks_per_step: 0.0,
                live_bytes: 0,
                requested: 0,
                since_step: leak.since_step,
                full_in_steps: None,
                sites: Vec::new(),
            });
            causes.len() - 1
        });
        let cause = &mut causes[at];
        cause.bytes_per_step += leak.bytes_per_step;
        cause.blocks_per_step += leak.blocks_per_step;
        cause.live_bytes += leak.live_bytes;
        cause.requested += leak.requested;
        cause.since_step = cause.since_step.min(leak.since_step);
        cause.full_in_steps = full_in(room, cause.bytes_per_step, cause.live_bytes, cause.requested);
        cause.sites.push(leak.site.clone());
    }
    causes.sort_by(|a, b| b.bytes_per_step.cmp(&a.bytes_per_step).then_with(|| a.line.cmp(&b.line)));
    causes
}

/// Bytes that the last steps have left at their highest point; 0 where the trace ends with the device full.
fn room(history: &History, steps: &Steps, samples: &Samples, capacity: Option<u64>) -> Option<u64> {
    if samples.failed {
        return Some(0);
    }
    let capacity = capacity.or_else(|| failures::capacity(history))?;
    let peaks = steps.peaks(history);
    // One step more than the last, which may have been cut short.
    let highest = peaks.iter().rev().take(2).map(|peak| peak.bytes).max()?;
    Some(capacity.saturating_sub(highest))
}

/// Steps until `room` is filled by requests of `bytes_per_step`, whose blocks occupy `live` where `requested` were
/// asked for.
fn full_in(room: Option<u64>, bytes_per_step: u64, live: u64, requested: u64) -> Option<u64> {
    let occupied = u128::from(bytes_per_step) * u128::from(live.max(requested)) / u128::from(requested.max(1));
    u128::from(room?).checked_div(occupied).map(|steps| steps as u64)
}
