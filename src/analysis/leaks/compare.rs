//! Several snapshots of one job: what holds more in each than in the one before.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judge::{Judgement, judge};
use crate::analysis::ranking::{Attribution, live};
use crate::analysis::sites::Sites;
use crate::history::{At, History};

/// What grew from snapshot to snapshot on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Device ordinal.
    pub device: i64,
    /// How many snapshots have the device.
    pub snapshots: usize,
    /// Live bytes of all sites in each.
    pub totals: Vec<u64>,
    /// Sites that grow: with 6 snapshots or more by the same proof as in a trace.
    pub leaks: Vec<Grown>,
    /// Sites that grew from each snapshot to the next, too few for a proof.
    pub suspects: Vec<Grown>,
    /// Whether no site of the first snapshot is in the last: they are of different programs.
    pub unrelated: bool,
}

/// A site that grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grown {
    /// Name of the site.
    pub site: String,
    /// Bytes added from one snapshot to the next: the slope over the later half.
    pub bytes_per_snapshot: u64,
    /// Mann and Kendall's p.
    pub p_value: f64,
    /// Live bytes in each snapshot.
    pub levels: Vec<u64>,
    /// Live blocks in each snapshot.
    pub blocks: Vec<u64>,
}

/// Compares the `snapshots` of one device, in the order in which they were taken: each at its last failure, else at
/// its end.
pub fn compare(device: i64, snapshots: &[(&History, &Sites)]) -> Compared {
    let mut levels: BTreeMap<String, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    let mut totals = Vec::with_capacity(snapshots.len());
    for (at, (history, sites)) in snapshots.iter().enumerate() {
        let moment = history.moment(At::Oom(None)).or_else(|_| history.moment(At::End));
        let Ok(moment) = moment else { continue };
        let ranking = live(history, moment, sites, Attribution::Own);
        totals.push(ranking.total);
        for row in ranking.rows {
            let (bytes, blocks) = levels.entry(row.site).or_default();
            bytes.resize(snapshots.len(), 0);
            blocks.resize(snapshots.len(), 0);
            bytes[at] += row.bytes;
            blocks[at] += row.blocks;
        }
    }
    let last = snapshots.len().saturating_sub(1);
    let mut compared = Compared {
        device,
        snapshots: snapshots.len(),
        totals,
        leaks: Vec::new(),
        suspects: Vec::new(),
        unrelated: last > 0 && !levels.values().any(|(bytes, _)| bytes[0] > 0 && bytes[last] > 0),
    };
    for (site, (bytes, blocks)) in levels {
        let series: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
        // Which blocks stay is not known between files; their number tells.
        let counts: Vec<f64> = blocks.iter().map(|&blocks| blocks as f64).collect();
        let generations = blocks.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let grown = |bytes_per_snapshot: f64, p_value| Grown {
            site,
            bytes_per_snapshot: bytes_per_snapshot.round().max(0.0) as u64,
            p_value,
            levels: bytes,
            blocks,
        };
        match judge(&series, &counts, series[last], generations) {
            Judgement::Leak(trend) => compared.leaks.push(grown(trend.slope, trend.p_value)),
            Judgement::Suspect(trend) => compared.suspects.push(grown(trend.slope, trend.p_value)),
            // Two files show a difference, but no trend.
            Judgement::Nothing if series.len() == 2 && series[1] > series[0] => {
                compared.suspects.push(grown(series[1] - series[0], 0.5));
            }
            _ => {}
        }
    }
    for list in [&mut compared.leaks, &mut compared.suspects] {
        list.sort_by(|a, b| b.bytes_per_snapshot.cmp(&a.bytes_per_snapshot).then_with(|| a.site.cmp(&b.site)));
    }
    compared
}
