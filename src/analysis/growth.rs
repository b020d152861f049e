//! Lines that hold more and more until a failure.
//!
//! The trace up to the failure is cut into windows of equally many events. A site's *floor* in a window is the least
//! that it holds in it: what comes and goes within a step has a low floor, what is kept raises it. A site grows when
//! its floor has not sunk for half of the trace and rises in most windows of that time, and when the program came back
//! to the place at least a few times: a single forward pass, the building of a model or the loading of its weights
//! also only add, but are no accumulation.

use std::collections::HashMap;

use super::sites::{Site, Sites};
use crate::history::History;
use crate::oom::Growth;
use crate::snapshot::{FrameId, Snapshot, StackId};

/// Windows.
const WINDOWS: usize = 10;
/// For how many windows, up to the last, the floor must not have sunk.
const RISING: usize = 5;
/// How many of the steps between those windows may be level.
const LEVEL: usize = 1;
/// In how many visits of the program the site must have allocated.
const ROUNDS: u32 = 3;

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

/// The same, as a fact for the verdict.
pub fn growth(growing: &[Growing]) -> Growth {
    Growth {
        bytes: growing.iter().map(|site| site.bytes).sum(),
        // Whole paths would fill the sentence that names them.
        sites: growing
            .iter()
            .map(|site| site.site.rsplit(['/', '\\']).next().unwrap_or(&site.site).to_owned())
            .collect(),
    }
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
            let visit = places.enter(lives.stack(life));
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

/// Where the program's own code is, above the calls of modules and the like: what repeats below them are layers and
/// parameters, not steps.
struct Places<'a> {
    snapshot: &'a Snapshot,
    /// The outer frames of each stack that was met, as a number, and whether nothing was cut off.
    of_stack: HashMap<StackId, (usize, bool)>,
    numbers: HashMap<Vec<FrameId>, usize>,
    last: Option<usize>,
    visits: u64,
}

impl<'a> Places<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, of_stack: HashMap::new(), numbers: HashMap::new(), last: None, visits: 0 }
    }

    /// The number, from 1, of the visit to its place that an allocation from `stack` belongs to. Each allocation of a
    /// line that allocates by itself is a visit.
    fn enter(&mut self, stack: StackId) -> u64 {
        let (place, is_whole) = match self.of_stack.get(&stack) {
            Some(&known) => known,
            None => {
                let known = self.place(stack);
                self.of_stack.insert(stack, known);
                known
            }
        };
        if is_whole || self.last != Some(place) {
            self.visits += 1;
        }
        self.last = Some(place);
        self.visits
    }

    fn place(&mut self, stack: StackId) -> (usize, bool) {
        let frames: &[FrameId] = if stack == StackId::NONE { &[] } else { self.snapshot.stacks.get(stack) };
        let outer: Vec<FrameId> = frames.iter().rev().copied().take_while(|&frame| !self.is_machinery(frame)).collect();
        let is_whole = !outer.is_empty() && outer.len() == frames.len();
        let next = self.numbers.len();
        (*self.numbers.entry(outer).or_insert(next), is_whole)
    }

    /// Calls below which repetition is no step of the program.
    fn is_machinery(&self, frame: FrameId) -> bool {
        let frame = self.snapshot.frame(frame);
        let (name, file) = (self.snapshot.text(frame.name), self.snapshot.text(frame.filename));
        let is_call = file.ends_with("torch/nn/modules/module.py") || file.contains("torch/optim/");
        let builds = ["__init__", "load_state_dict", "from_pretrained", "load_model", "load_weights", "_apply"];
        is_call || builds.contains(&name)
    }
}
