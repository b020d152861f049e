//! Categories from origins and life spans.
//!
//! The trace is read from its end, so that of each allocation it is known what comes next: the block outlives the pass
//! that made it when it is still there at the next allocation that cannot belong to the pass.

use std::collections::HashSet;

use super::Category;
use super::origin::{Origin, Place};
use crate::history::{History, LifeId, NEVER};
use crate::snapshot::{PoolId, StackId};

/// What is looked at.
pub(super) struct Spans<'s, 'h> {
    pub history: &'s History<'h>,
    /// By stack.
    pub origins: &'s [Origin],
    /// Stacks that grow by concatenation.
    pub grown: Vec<bool>,
}

/// A category with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found(Category, &'static str);

impl Found {
    /// With a private pool taken into account.
    pub fn in_pool(self, pool: PoolId) -> (Category, &'static str) {
        match pool {
            PoolId::DEFAULT => (self.0, self.1),
            _ => (Category::GraphPools, "in the private pool of a CUDA graph or a MemPool"),
        }
    }
}

/// The next event of each kind, as seen from an allocation.
#[derive(Clone, Copy, Default)]
struct Next {
    /// Allocation in the program's main course.
    main: Option<u32>,
    /// Allocation in a backward pass.
    backward: Option<u32>,
    /// Allocation in the main course behind that backward pass.
    after_backward: Option<u32>,
    /// Allocation outside optimisers.
    not_optimizer: Option<u32>,
    /// Allocation outside the construction of modules.
    not_construction: Option<u32>,
    /// Failure. What is freed behind it was freed by the exception, not by the program's plan.
    oom: Option<u32>,
}

/// cuBLAS's workspace as torch asks for it by default, up to compute capability 8.9: `:4096:2:16:8`, in KiB
/// (`parseChosenWorkspaceSize`, `CublasHandlePool.cpp`).
const CUBLAS: u64 = (4096 * 2 + 16 * 8) * 1024;

const NO_FRAMES: Origin = Origin { place: Place::NoFrames, in_backward: false, is_main: false };

impl Spans<'_, '_> {
    /// By life.
    pub fn categories(&self) -> Vec<Found> {
        let lives = &self.history.lives;
        let mut found = vec![Found(Category::Unknown, "allocated before the recording"); lives.len()];
        let mut next = Next::default();
        let mut ooms = self.history.ooms.iter().rev().map(|oom| oom.event).peekable();
        for event in (0..self.history.events()).rev() {
            next.oom = ooms.next_if_eq(&event).or(next.oom);
            let Some(life) = lives.of_event(event).filter(|&life| lives.alloc_event(life) == Some(event)) else {
                continue;
            };
            let origin = self.origin(lives.stack(life));
            found[life as usize] = self.category(life, origin, &next);
            next.pass(event, origin);
        }
        for life in lives.ids().filter(|&life| lives.alloc_event(life).is_none()) {
            let is_known = lives.stack(life).has_frames() || lives.requested(life) == CUBLAS;
            if is_known || !self.history.health.recorded {
                // Without frames it may be from any thread, and from before the stacks were recorded.
                let origin = if is_known { self.origin(lives.stack(life)) } else { NO_FRAMES };
                found[life as usize] = self.category(life, origin, &next);
            }
        }
        self.check_gradients(&mut found);
        found
    }

    fn origin(&self, stack: StackId) -> Origin {
        self.origins.get(stack.index()).copied().unwrap_or(NO_FRAMES)
    }

    fn category(&self, life: LifeId, origin: Origin, next: &Next) -> Found {
        let lives = &self.history.lives;
        let freed_at = lives.freed_at(life);
        let outlives = |event: Option<u32>| event.is_some_and(|event| freed_at > event);
        let is_kept = freed_at == NEVER;
        if lives.requested(life) == CUBLAS {
            return Found(Category::Workspaces, "8 519 680 B: what torch asks for cuBLAS's workspace by default");
        }
        if self.grown.get(lives.stack(life).index()).copied().unwrap_or(false) {
            let why = "each block of the stack is freed when a larger one of it is there: a cache grown by torch.cat";
            return Found(Category::KvCache, why);
        }
        match origin.place {
            Place::Workspace => Found(Category::Workspaces, "allocated for cuBLAS or cuDNN by their handles"),
            Place::NoFrames => Found(Category::Unknown, "the block has no stack"),
            Place::KvCache => Found(Category::KvCache, "a frame's name is that of a cache of keys and values"),
            Place::Communication => Found(Category::Communication, "allocated in torch.distributed or NCCL"),
            Place::DataCopy => Found(Category::DataCopies, "allocated by a function that moves a batch to the device"),
            Place::OptimizerState => Found(Category::OptimizerState, "allocated where an optimizer makes its state"),
            Place::Optimizer if outlives(next.not_optimizer) => {
                Found(Category::OptimizerState, "allocated in an optimizer and kept after its step")
            }
            Place::Optimizer if is_kept => Found(
                Category::OptimizerState,
                "allocated in an optimizer and still there when the trace ends in its step",
            ),
            Place::Optimizer => {
                Found(Category::OtherTemporaries, "allocated in an optimizer and freed within its step")
            }
            Place::Construction if is_kept || outlives(next.not_construction) || outlives(next.oom) => {
                Found(Category::Parameters, "allocated where a module is built, moved or loaded, and kept")
            }
            Place::Construction => {
                Found(Category::OtherTemporaries, "allocated where a module is built, moved or loaded, and freed there")
            }
            Place::Constructor if is_kept => {
                Found(Category::Parameters, "allocated in a constructor (__init__) and kept to the end")
            }
            Place::Forward if origin.in_backward => {
                Found(Category::Activations, "made again in the backward pass (checkpointing)")
            }
            Place::Backward => self.of_backward(life, next),
            Place::Forward => self.of_forward(life, next),
            Place::Elsewhere | Place::Constructor if self.is_freed_in_backward(life) => {
                Found(Category::Activations, "freed by the backward pass")
            }
            Place::Elsewhere | Place::Constructor => {
                Found(Category::Unknown, "allocated outside modules, optimizers and the backward pass")
            }
        }
    }

    fn of_forward(&self, life: LifeId, next: &Next) -> Found {
        let freed_at = self.history.lives.freed_at(life);
        let outlives = |event: Option<u32>| event.is_some_and(|event| freed_at > event);
        let fails_first = next.oom.is_some_and(|oom| next.backward.is_none_or(|backward| oom < backward));
        match () {
            _ if fails_first && outlives(next.oom) => {
                Found(Category::Activations, "allocated in a forward pass and held when it ran out of memory")
            }
            _ if self.is_freed_in_backward(life) => {
                Found(Category::Activations, "allocated in a forward pass and freed by the backward pass")
            }
            _ if freed_at == NEVER && outlives(next.after_backward) => {
                Found(Category::Activations, "allocated in a forward pass and still held after the backward pass")
            }
            _ if outlives(next.backward) => {
                Found(Category::Activations, "allocated in a forward pass and held into the backward pass")
            }
            _ if freed_at == NEVER => {
                Found(Category::Activations, "allocated in a forward pass and still held; no backward pass follows")
            }
            _ => Found(Category::OtherTemporaries, "allocated in a forward pass and freed before any backward pass"),
        }
    }

    fn of_backward(&self, life: LifeId, next: &Next) -> Found {
        let freed_at = self.history.lives.freed_at(life);
        let fails_first = next.oom.is_some_and(|oom| next.main.is_none_or(|main| oom < main));
        match next.main {
            _ if fails_first && next.oom.is_some_and(|oom| freed_at > oom) => UNFINISHED,
            Some(event) if freed_at > event => GRADIENT,
            _ if self.is_freed_by_the_program(life) => GRADIENT,
            None if freed_at == NEVER => UNFINISHED,
            _ => Found(Category::AutogradTemporaries, "allocated in a backward pass and freed in it"),
        }
    }

    /// The origin of the free of `life`, where its stack was recorded.
    fn freed_from(&self, life: LifeId) -> Option<Origin> {
        let lives = &self.history.lives;
        let event = lives.freed_at(life).checked_sub(1)?;
        // Frees that no event records share their state with another event.
        let is_its_own = lives.of_event(event) == Some(life);
        let stack = *self.history.snapshot.events.stack.get(self.history.row(event)).filter(|_| is_its_own)?;
        (stack != StackId::NONE).then(|| self.origin(stack))
    }

    fn is_freed_in_backward(&self, life: LifeId) -> bool {
        self.history.lives.freed_at(life) != NEVER && self.freed_from(life).is_some_and(|origin| origin.in_backward)
    }

    fn is_freed_by_the_program(&self, life: LifeId) -> bool {
        self.history.lives.freed_at(life) != NEVER && self.freed_from(life).is_some_and(|origin| origin.is_main)
    }

    /// A gradient has as many elements as its parameter, of the same width, or half or twice as wide. Where parameters
    /// are known, what is kept from a backward pass and fits none of them is something else.
    fn check_gradients(&self, found: &mut [Found]) {
        let lives = &self.history.lives;
        let parameters = lives.ids().filter(|&life| found[life as usize].0 == Category::Parameters);
        let sizes: HashSet<u64> =
            parameters.map(|life| lives.requested(life)).flat_map(|bytes| [bytes, bytes * 2, bytes / 2]).collect();
        for (found, life) in found.iter_mut().zip(lives.ids()) {
            let fits = sizes.contains(&lives.requested(life));
            *found = match *found {
                UNFINISHED if fits => {
                    Found(Category::Gradients, "the size of a parameter; the backward pass that made it did not end")
                }
                UNFINISHED => Found(
                    Category::AutogradTemporaries,
                    "of no parameter's size; the backward pass that made it did not end",
                ),
                GRADIENT if !fits && !sizes.is_empty() => {
                    Found(Category::Unknown, "kept after the backward pass that made it, but no parameter has its size")
                }
                other => other,
            };
        }
    }
}

const GRADIENT: Found = Found(Category::Gradients, "allocated in a backward pass and kept after it");
/// Decided by its size.
const UNFINISHED: Found = Found(Category::Gradients, "the backward pass that made it did not end");

impl Next {
    /// Takes the allocation of `event` into account, which is before all those seen.
    fn pass(&mut self, event: u32, origin: Origin) {
        let event = Some(event);
        if origin.place == Place::Backward || origin.in_backward {
            self.backward = event;
            self.after_backward = self.main;
        }
        if origin.is_main {
            self.main = event;
        }
        if !matches!(origin.place, Place::Optimizer | Place::OptimizerState) {
            self.not_optimizer = event;
        }
        if origin.place != Place::Construction {
            self.not_construction = event;
        }
    }
}
