//! Why figures of several files may not be comparable.

use super::sides::letter;
use super::sites::SiteRows;
use crate::history::{History, Moment};
use crate::snapshot::PoolId;
use crate::text::printable;

/// What stands between the files and a comparison, in words; empty when nothing does.
pub fn caveats(files: &[(&History, Moment)], sites: &SiteRows) -> Vec<String> {
    let mut found = Vec::new();
    let which = |is: &dyn Fn(&History) -> bool| -> Option<String> {
        let with: Vec<String> =
            files.iter().enumerate().filter(|(_, file)| is(file.0)).map(|(at, _)| letter(at).to_string()).collect();
        (!with.is_empty() && with.len() < files.len()).then(|| with.join(", "))
    };
    if !sites.related {
        found.push(
            "no line holds memory in both: different programs, or the code moved (--ignore-lines, --map OLD=NEW)"
                .to_owned(),
        );
    }
    for (at, (history, _)) in files.iter().enumerate() {
        let name = letter(at);
        if history.health.cut {
            found.push(format!("{name} breaks off: what happened in the lost part is not known"));
        }
        if !history.device.consistent {
            found.push(format!("{name} contradicts itself: figures that need its layout are unknown"));
        }
    }
    if let Some(with) = which(&|history| !history.health.recorded) {
        found.push(format!("without history: {with}; peaks and calls cannot be compared"));
    }
    let is_whole = |history: &History| {
        history.health.recorded && history.counters(0).reserved == 0 && history.counters(0).active == 0
    };
    if let Some(with) = which(&|history| history.health.recorded && !is_whole(history)) {
        found.push(format!(
            "another window: the trace of {with} begins with memory in use (recording began late, or its ring wrapped), so an earlier peak is lost"
        ));
    }
    let has_pools = |history: &History| {
        let segments = history.snapshot.segments_of(history.device);
        segments.iter().any(|segment| segment.pool != PoolId::DEFAULT)
    };
    if let Some(with) = which(&has_pools) {
        found.push(format!(
            "private pools (CUDA graphs, MemPool) in {with} only: their memory cannot move to other uses"
        ));
    }
    if let Some(with) = which(&has_stacks) {
        found.push(format!("stacks in {with} only: lines cannot be compared"));
    }
    let ordinals: Vec<i64> = files.iter().map(|(history, _)| history.device.ordinal).collect();
    if ordinals.windows(2).any(|pair| pair[0] != pair[1]) {
        let list: Vec<String> =
            ordinals.iter().enumerate().map(|(at, ordinal)| format!("{ordinal} in {}", letter(at))).collect();
        found.push(format!("other devices: {}", list.join(", ")));
    }
    if let Some(first) = files.first()
        && files.iter().any(|file| file.0.snapshot.settings.backend != first.0.snapshot.settings.backend)
    {
        let list: Vec<String> = files
            .iter()
            .enumerate()
            .map(|(at, (history, _))| {
                let backend = history.snapshot.settings.backend.as_deref().unwrap_or("native");
                format!("{} in {}", printable(backend), letter(at))
            })
            .collect();
        found.push(format!("other allocators: {}", list.join(", ")));
    }
    found
}

fn has_stacks(history: &History) -> bool {
    history.lives.ids().any(|life| history.lives.stack(life).has_frames())
}
