//! Where the program's own code is when it allocates, above the calls of modules and the like: what repeats below
//! them are layers and parameters, not steps of the program.

use std::collections::HashMap;

use super::owner::{Owner, is_python, owner};
use crate::snapshot::{FrameId, Snapshot, StackId};

/// Names of functions below which repetition builds something instead of running steps.
const BUILDERS: [&str; 6] = ["__init__", "load_state_dict", "from_pretrained", "load_model", "load_weights", "_apply"];
/// Names of functions that are one expression of the function around them.
const EXPRESSIONS: [&str; 4] = ["<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"];

/// The program's calls, numbered as they are first met.
pub struct Places<'a> {
    snapshot: &'a Snapshot,
    /// By stack, as far as stacks were met.
    of_stack: Vec<Option<Place>>,
    numbers: HashMap<Vec<FrameId>, u32>,
    /// The frame that names each place.
    frames: Vec<Option<FrameId>>,
    last: Option<u32>,
    visits: u64,
}

/// Where a stack belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number; stacks without Python frames share one.
    pub number: u32,
    /// Whether the place is the whole stack: the line allocates by itself.
    pub is_whole: bool,
}

/// An allocation's place, and how often the program had come to one by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The number of the place.
    pub place: u32,
    /// The number, from 1, of the visit that the allocation belongs to. Each allocation of a line that allocates by
    /// itself is a visit.
    pub number: u64,
}

impl<'a> Places<'a> {
    /// No place is known yet.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            of_stack: vec![None; snapshot.stacks.len()],
            numbers: HashMap::new(),
            frames: Vec::new(),
            last: None,
            visits: 0,
        }
    }

    /// The place of `stack`.
    pub fn of(&mut self, stack: StackId) -> Place {
        if let Some(known) = self.of_stack.get(stack.index()).copied().flatten() {
            return known;
        }
        let frames: &[FrameId] = if stack.has_frames() { self.snapshot.stacks.get(stack) } else { &[] };
        let python: Vec<FrameId> = frames.iter().rev().copied().filter(|&frame| self.is_python(frame)).collect();
        let outer: Vec<FrameId> = python.iter().copied().take_while(|&frame| !self.is_machinery(frame)).collect();
        let is_whole = !outer.is_empty() && outer.len() == python.len();
        let own = |frame: &FrameId| owner(self.snapshot, &self.snapshot.frame(*frame)) != Owner::Library;
        let innermost = outer.iter().rev().copied().find(own).or(outer.last().copied());
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(outer).or_insert(next);
        if number == next {
            self.frames.push(innermost);
        }
        let place = Place { number, is_whole };
        if let Some(known) = self.of_stack.get_mut(stack.index()) {
            *known = Some(place);
        }
        place
    }

    /// An allocation from `stack`, the next one in the trace.
    pub fn enter(&mut self, stack: StackId) -> Visit {
        let place = self.of(stack);
        if place.is_whole || self.last != Some(place.number) {
            self.visits += 1;
        }
        self.last = Some(place.number);
        Visit { place: place.number, number: self.visits }
    }

    /// The frame that names the place `number`: the innermost one that is not torch's, that is, the call that the
    /// program made itself. `None` without Python frames.
    pub fn frame(&self, number: u32) -> Option<FrameId> {
        self.frames.get(number as usize).copied().flatten()
    }

    fn is_python(&self, frame: FrameId) -> bool {
        is_python(self.snapshot.text(self.snapshot.frame(frame).filename))
    }

    fn is_machinery(&self, frame: FrameId) -> bool {
        let frame = self.snapshot.frame(frame);
        let (name, file) = (self.snapshot.text(frame.name), self.snapshot.text(frame.filename));
        let parts = || file.rsplit(['/', '\\']);
        let is_module = parts().take(4).eq(["module.py", "modules", "nn", "torch"]);
        let is_optimizer =
            parts().skip(1).take(3).collect::<Vec<_>>().windows(2).any(|pair| pair == ["optim", "torch"]);
        is_module || is_optimizer || BUILDERS.contains(&name) || EXPRESSIONS.contains(&name)
    }
}
