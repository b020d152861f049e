//! The imaginary program's run: it trains, and each step keeps a little memory that it should not.

use crate::device::{Device, Stop};
use crate::model::{CUBLAS_WORKSPACE, LAYER, PARAMETERS, Sites, VOCABULARY};
use crate::rng::Rng;

/// Sizes of the model and its batches, and the planted leak.
pub struct Plan {
    pub layers: u64,
    pub hidden: u64,
    pub batch: u64,
    pub sequence: u64,
    pub fixed_shapes: bool,
    pub steps: u64,
    pub leak_bytes: u64,
    pub leak_blocks: u64,
    pub leak_from: u64,
}

/// What happened, for the truth and for `external_annotations`.
#[derive(Default)]
pub struct Outcome {
    /// Steps that ran to their end.
    pub steps: u64,
    pub leaking_steps: u64,
    pub leaked_bytes: u64,
    pub leaked_blocks: u64,
    pub annotations: Vec<Annotation>,
}

/// A mark in the program's run.
pub struct Annotation {
    pub scope: Scope,
    pub start: bool,
    pub time_us: u64,
}

/// What an annotation marks.
#[derive(Clone, Copy)]
pub enum Scope {
    Step(u64),
    ZeroGrad,
    Optimizer,
}

/// Runs the program until something stops it.
pub fn train(device: &mut Device, sites: &Sites, plan: &Plan, rng: Rng) -> Result<Outcome, Stop> {
    let mut run =
        Run { device, sites, plan, rng, parameters: Vec::new(), gradients: Vec::new(), outcome: Outcome::default() };
    match run.train() {
        Ok(()) | Err(Stop::Complete | Stop::OutOfMemory) => Ok(run.outcome),
        Err(stop) => Err(stop),
    }
}

struct Run<'r, 'd> {
    device: &'r mut Device<'d>,
    sites: &'r Sites,
    plan: &'r Plan,
    rng: Rng,
    /// Sizes of all parameters.
    parameters: Vec<u64>,
    /// Addresses of the gradients of the last backward pass.
    gradients: Vec<u64>,
    outcome: Outcome,
}

impl Run<'_, '_> {
    fn train(&mut self) -> Result<(), Stop> {
        for _ in 0..self.plan.layers {
            for size in PARAMETERS {
                self.parameters.push(size(self.plan.hidden));
            }
        }
        self.parameters.push(4 * VOCABULARY * self.plan.hidden);
        for n in 0..self.parameters.len() {
            self.device.malloc(self.parameters[n], self.sites.parameters)?;
        }
        while self.outcome.steps < self.plan.steps {
            self.step(self.outcome.steps)?;
            self.outcome.steps += 1;
        }
        Ok(())
    }

    fn step(&mut self, number: u64) -> Result<(), Stop> {
        self.mark(Scope::Step(number), true);
        self.mark(Scope::ZeroGrad, true);
        for gradient in std::mem::take(&mut self.gradients) {
            self.device.free(gradient, self.sites.zero_grad)?;
        }
        self.mark(Scope::ZeroGrad, false);
        let sequence = match self.plan.fixed_shapes {
            true => self.plan.sequence,
            false => self.plan.sequence * self.rng.between(8, 16) / 16,
        };
        let tokens = self.plan.batch * sequence;
        let inputs =
            [self.device.malloc(8 * tokens, self.sites.batch)?, self.device.malloc(8 * tokens, self.sites.batch)?];
        let mut saved = Vec::new();
        for _ in 0..self.plan.layers {
            saved.push(self.forward(tokens, sequence)?);
        }
        if number == 0 {
            self.device.malloc(CUBLAS_WORKSPACE, self.sites.logits)?;
        }
        let logits = self.device.malloc(2 * tokens * VOCABULARY, self.sites.logits)?;
        let loss = self.device.malloc(4, self.sites.logits)?;
        if number >= self.plan.leak_from {
            self.leak()?;
        }
        self.backward(saved, logits, 2 * tokens * VOCABULARY)?;
        self.optimize(number == 0)?;
        for address in inputs.into_iter().chain([loss]) {
            self.device.free(address, self.sites.step_free)?;
        }
        self.mark(Scope::Step(number), false);
        Ok(())
    }

    /// One layer; returns what it keeps for the backward pass, with sizes.
    fn forward(&mut self, tokens: u64, sequence: u64) -> Result<Vec<(u64, u64)>, Stop> {
        let mut saved = Vec::new();
        let mut temporary = None;
        for (op, &site) in LAYER.iter().zip(&self.sites.layer) {
            let size = tokens * (op.per_token)(self.plan.hidden) + tokens * sequence * op.per_pair;
            let address = self.device.malloc(size, site)?;
            if let Some(address) = temporary.take() {
                self.device.free(address, self.sites.layer_free)?;
            }
            if op.saved {
                saved.push((address, size));
            } else {
                temporary = Some(address);
            }
        }
        Ok(saved)
    }

    /// What the program forgets to let go.
    fn leak(&mut self) -> Result<(), Stop> {
        let Plan { leak_bytes, leak_blocks, .. } = *self.plan;
        if leak_bytes == 0 {
            return Ok(());
        }
        for n in 0..leak_blocks {
            let size = leak_bytes / leak_blocks + u64::from(n < leak_bytes % leak_blocks);
            self.device.malloc(size, self.sites.leak)?;
            self.outcome.leaked_bytes += size;
            self.outcome.leaked_blocks += 1;
        }
        self.outcome.leaking_steps += 1;
        Ok(())
    }

    fn backward(&mut self, saved: Vec<Vec<(u64, u64)>>, logits: u64, logits_bytes: u64) -> Result<(), Stop> {
        let mut upstream = self.device.malloc(logits_bytes, self.sites.backward)?;
        self.device.free(logits, self.sites.backward_free)?;
        let mut parameters = self.parameters.clone();
        for layer in saved.into_iter().rev() {
            for (address, size) in layer.into_iter().rev() {
                let gradient = self.device.malloc(size, self.sites.backward)?;
                self.device.free(upstream, self.sites.backward_free)?;
                self.device.free(address, self.sites.backward_free)?;
                upstream = gradient;
            }
            for _ in PARAMETERS {
                self.gradient(parameters.pop())?;
            }
        }
        self.device.free(upstream, self.sites.backward_free)?;
        while let Some(size) = parameters.pop() {
            self.gradient(Some(size))?;
        }
        Ok(())
    }

    fn gradient(&mut self, size: Option<u64>) -> Result<(), Stop> {
        if let Some(size) = size {
            let address = self.device.malloc(size, self.sites.gradient)?;
            self.gradients.push(address);
        }
        Ok(())
    }

    fn optimize(&mut self, first: bool) -> Result<(), Stop> {
        self.mark(Scope::Optimizer, true);
        for n in 0..self.parameters.len() {
            let size = self.parameters[n];
            if first {
                self.device.malloc(size, self.sites.state)?;
                self.device.malloc(size, self.sites.state)?;
            }
            let root = self.device.malloc(size, self.sites.update)?;
            self.device.free(root, self.sites.update_free)?;
        }
        self.mark(Scope::Optimizer, false);
        Ok(())
    }

    fn mark(&mut self, scope: Scope, start: bool) {
        self.outcome.annotations.push(Annotation { scope, start, time_us: self.device.now_us });
    }
}
