//! Lines that hold more and more until a failure.
//!
//! The trace up to the failure is cut into windows of equally many events. A site's *floor* in a window is the least
//! that it holds in it: what comes and goes within a step has a low floor, what is kept raises it. A site grows when
//! its floor has not sunk for half of the trace and rises in most windows of that time, and when the program came back
//! to the place at least a few times: a single forward pass, the building of a model or the loading of its weights
//! also only add, but are no accumulation.

use std::collections::HashMap;

use super::leaks::{Cause, Leaks};
use super::places::Places;
use super::sites::{Site, Sites};
use crate::history::History;
use crate::oom::{Growth, Keeper};
use crate::snapshot::StackId;
use crate::text::base_name;

/// Windows.
const WINDOWS: usize = 10;
/// For how many windows, up to the last, the floor must not have sunk.
const RISING: usize = 5;
/// How many of the steps between those windows may be level.
const LEVEL: usize = 1;
/// In how many visits of the program the site must have allocated.
const ROUNDS: u32 = 3;

/// Causes below this part of the main one are left out where that is named.
const HARDLY: u64 = 20;

/// A growing site.
#[derive(Clone, Debug, PartialEq)]
pub struct Growing {
    /// Its name.
    pub site: String,
    /// The floor in the last window, in bytes.
    pub bytes: u64,
    /// How much the floor has risen since the first window.
    pub risen: u64,
    /// The floor in each window.
    pub floors: Vec<u64>,
}

/// Sites that grow until `state`, the largest first; `None` when the trace is too short to tell.
pub fn growing(history: &History, sites: &Sites, state: u32) -> Option<Vec<Growing>> {
    if !history.health.recorded || (state as usize) < 2 * WINDOWS {
        return None;
    }
    let tracked = track(history, sites, state);
    let mut found: Vec<Growing> = tracked.into_iter().filter_map(|(site, track)| track.judge(sites, site)).collect();
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(&b.site)));
    Some(found)
}

/// The same, as a fact for the verdict; `leaks` tells who keeps it, when they are those of the same state.
pub fn growth(growing: &[Growing], leaks: Option<&Leaks>) -> Growth {
    Growth {
        bytes: growing.iter().map(|site| site.bytes).sum(),
        // Whole paths would fill the sentence that names them.
        sites: growing.iter().map(|site| base_name(&site.site).to_owned()).collect(),
        keeper: leaks.and_then(|leaks| keeper(growing, leaks)),
    }
}

/// The cause of most growth among `leaks`, when they explain at least half of what is `growing`.
fn keeper(growing: &[Growing], leaks: &Leaks) -> Option<Keeper> {
    let is_explained = |site: &&Growing| leaks.leaks.iter().any(|leak| leak.site == site.site);
    let explained: u64 = growing.iter().filter(is_explained).map(|site| site.bytes).sum();
    let all: u64 = growing.iter().map(|site| site.bytes).sum();
    main_cause(leaks).filter(|_| explained >= all - explained)
}

/// The cause of `leaks` that holds most, as the keeper.
pub fn main_cause(leaks: &Leaks) -> Option<Keeper> {
    let main = leaks.causes.iter().rev().max_by_key(|cause| cause.live_bytes)?;
    // What hardly adds to it would only make its figure differ from that of the cause's own row.
    let counts = |cause: &&Cause| cause.live_bytes >= main.live_bytes / HARDLY;
    Some(Keeper {
        line: base_name(&main.line).to_owned(),
        others: leaks.causes.iter().filter(counts).count() - 1,
        live: leaks.causes.iter().filter(counts).map(|cause| cause.live_bytes).sum(),
        kind: main.kind.name(),
        remedy: main.kind.remedy(),
    })
}

/// One site along the trace.
#[derive(Default)]
struct Track {
    now: i64,
    floors: Vec<i64>,
    rounds: u32,
    last_visit: u64,
}

impl Track {
    /// Opens windows up to `window`.
    fn open(&mut self, window: usize) {
        while self.floors.len() <= window {
            self.floors.push(self.now);
        }
    }

    fn judge(mut self, sites: &Sites, site: Site) -> Option<Growing> {
        self.open(WINDOWS - 1);
        let floors: Vec<u64> = self.floors.iter().map(|&floor| floor.max(0) as u64).collect();
        let from = floors.windows(2).rposition(|pair| pair[1] < pair[0]).map_or(0, |at| at + 1);
        let rising = &floors[from..];
        let rises = rising.windows(2).filter(|pair| pair[1] > pair[0]).count();
        let levels = rising.len() - 1 - rises;
        // A floor that rose early and then stays is a warm-up; the last steps tell.
        let recent = &rising[rising.len().saturating_sub(RISING)..];
        let recent_levels = recent.windows(2).filter(|pair| pair[1] == pair[0]).count();
        let grows = rising.len() >= RISING && recent_levels <= LEVEL && rises > levels && self.rounds >= ROUNDS;
        let (first, last) = (rising[0], *floors.last()?);
        grows.then(|| Growing { site: sites.name(site).into_owned(), bytes: last, risen: last - first, floors })
    }
}

fn track(history: &History, sites: &Sites, state: u32) -> HashMap<Site, Track> {
    let lives = &history.lives;
    let mut places = Places::new(history.snapshot);
    let mut tracks: HashMap<Site, Track> = HashMap::new();
    let site_of = |life| match lives.stack(life) {
        StackId::NONE if lives.alloc_event(life).is_none() => Site::Before,
        stack => sites.site(stack),
    };
    for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
        tracks.entry(site_of(life)).or_default().now += lives.bytes(life) as i64;
    }
    for event in 0..state.min(history.events()) {
        let Some(life) = lives.of_event(event) else { continue };
        let window = event as usize * WINDOWS / state as usize;
        if lives.alloc_event(life) == Some(event) {
            let visit = places.enter(lives.stack(life)).number;
            let track = tracks.entry(site_of(life)).or_default();
            track.open(window);
            track.now += lives.bytes(life) as i64;
            track.rounds += u32::from(track.last_visit != visit);
            track.last_visit = visit;
        } else if lives.done_at(life) == event + 1 {
            let track = tracks.entry(site_of(life)).or_default();
            track.open(window);
            track.now -= lives.bytes(life) as i64;
            let floor = &mut track.floors[window];
            *floor = (*floor).min(track.now);
        }
    }
    tracks
}
