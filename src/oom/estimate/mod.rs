//! Lower bounds of the memory that a model needs, term by term.
//!
//! In: counts and sizes, or a Hugging Face `config.json`. Out: an [`Estimate`] whose every term shows its formula.

mod config;

use serde::Serialize;

pub use config::{ConfigError, ModelConfig};

/// Number format of weights or of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32 bits.
    Fp32,
    /// 16 bits.
    Fp16,
    /// 16 bits, bfloat.
    Bf16,
    /// 8 bits.
    Fp8,
    /// 8 bits, integer.
    Int8,
    /// 4 bits.
    Int4,
}

impl Dtype {
    /// Bits of a number.
    pub fn bits(self) -> u64 {
        match self {
            Self::Fp32 => 32,
            Self::Fp16 | Self::Bf16 => 16,
            Self::Fp8 | Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }

    /// Bytes of `count` numbers.
    fn bytes(self, count: u64) -> u64 {
        scaled(count, self.bits() as f64 / 8.0)
    }

    fn per_number(self) -> String {
        match self {
            Self::Int4 => "0.5 B".to_owned(),
            other => format!("{} B", other.bits() / 8),
        }
    }
}

/// How a model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    /// AdamW with 16-bit weights, fp32 master weights and fp32 gradients: 18 bytes a parameter.
    MixedAdamW,
    /// AdamW in fp32: 16 bytes.
    Fp32AdamW,
    /// 8-bit AdamW, mixed precision: 12 bytes.
    Mixed8bitAdamW,
    /// SGD with momentum, mixed precision: 14 bytes.
    MixedSgd,
}

/// Bytes a parameter.
struct Row {
    weights: u64,
    master: u64,
    gradients: u64,
    optimiser: u64,
    states: &'static str,
}

impl Training {
    fn row(self) -> Row {
        match self {
            Self::MixedAdamW => {
                Row { weights: 2, master: 4, gradients: 4, optimiser: 8, states: "AdamW: two fp32 states" }
            }
            Self::Fp32AdamW => {
                Row { weights: 4, master: 0, gradients: 4, optimiser: 8, states: "AdamW: two fp32 states" }
            }
            Self::Mixed8bitAdamW => {
                Row { weights: 2, master: 4, gradients: 4, optimiser: 2, states: "8-bit AdamW: two 8-bit states" }
            }
            Self::MixedSgd => Row { weights: 2, master: 4, gradients: 4, optimiser: 4, states: "SGD: fp32 momentum" },
        }
    }
}

/// What is divided over the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shard {
    /// Nothing: data parallel.
    #[default]
    None,
    /// Optimiser states (ZeRO-1).
    Optimiser,
    /// And gradients (ZeRO-2).
    Gradients,
    /// And weights (ZeRO-3, FSDP full shard).
    All,
}

/// What to estimate. Counts of zero leave their terms out.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Parameters.
    pub params: u64,
    /// Format of the weights, for inference and for frozen weights under LoRA.
    pub dtype: Dtype,
    /// `None` is inference.
    pub training: Option<Training>,
    /// Trainable parameters of adapters; then the rest is frozen.
    pub lora_params: Option<u64>,
    /// Sequences at once.
    pub batch: u64,
    /// Tokens of a sequence.
    pub length: u64,
    /// Vocabulary, for the logits.
    pub vocabulary: u64,
    /// Numbers of the KV cache for a token: 2 × layers × KV heads × head size.
    pub kv_per_token: u64,
    /// Format of the KV cache.
    pub kv_dtype: Dtype,
    /// Ranks.
    pub ranks: u64,
    /// What is divided over them.
    pub shard: Shard,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// What it is.
    pub name: &'static str,
    /// Bytes, on each card.
    pub bytes: u64,
    /// How it was computed.
    pub formula: String,
}

/// A lower bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Its terms.
    pub terms: Vec<Term>,
    /// Their sum.
    pub total: u64,
    /// What it leaves out.
    pub left_out: Vec<&'static str>,
    /// Whether it is below the card's size; `None` without one. A bound that fits is no promise.
    pub fits: Option<bool>,
}

/// Bytes a trainable parameter of an adapter: fp32 weight, gradient and two AdamW states.
const ADAPTER: u64 = 16;

/// The terms of `plan`, and whether they stay below `card`.
pub fn estimate(plan: &Plan, card: Option<u64>) -> Estimate {
    let mut terms = Terms { plan, terms: Vec::new() };
    match (plan.training, plan.lora_params) {
        (_, Some(adapters)) => terms.lora(adapters),
        (Some(training), None) => terms.training(&training.row()),
        (None, None) => {
            let bytes = plan.dtype.bytes(plan.params);
            terms.add(
                "weights",
                bytes,
                plan.shard == Shard::All,
                format!("{} × {}", count(plan.params), plan.dtype.per_number()),
            );
        }
    }
    let trains = plan.training.is_some() || plan.lora_params.is_some();
    terms.logits(trains);
    if !trains {
        terms.kv_cache();
    }
    let terms = terms.terms;
    let total = terms.iter().fold(0u64, |sum, term| sum.saturating_add(term.bytes));
    let mut left_out = vec![
        "the CUDA context and kernels (0.3 to 1.3 GB a process)",
        "workspaces, NCCL buffers and other memory outside PyTorch",
        "rounding and fragmentation",
    ];
    left_out.insert(
        0,
        if trains {
            "activations, which grow with batch × length and often exceed the rest"
        } else {
            "activations of the largest pass"
        },
    );
    if plan.vocabulary == 0 || plan.batch == 0 || plan.length == 0 {
        left_out.push("logits (give --batch, --seq and --vocab)");
    }
    if !trains && (plan.kv_per_token == 0 || plan.batch == 0 || plan.length == 0) {
        left_out.push("the KV cache (give --batch, --seq and --config, or --layers, --kv-heads and --head-dim)");
    }
    Estimate { total, left_out, fits: card.map(|card| total <= card), terms }
}

struct Terms<'a> {
    plan: &'a Plan,
    terms: Vec<Term>,
}

impl Terms<'_> {
    fn add(&mut self, name: &'static str, bytes: u64, is_sharded: bool, formula: String) {
        let ranks = self.plan.ranks.max(1);
        let (bytes, formula) = match is_sharded && ranks > 1 {
            true => (bytes.div_ceil(ranks), format!("{formula} / {ranks} ranks")),
            false => (bytes, formula),
        };
        if bytes > 0 {
            self.terms.push(Term { name, bytes, formula });
        }
    }

    fn training(&mut self, row: &Row) {
        let (n, shard) = (self.plan.params, self.plan.shard);
        let all = shard == Shard::All;
        let times = |bytes: u64, what: &str| format!("{} × {bytes} B ({what})", count(n));
        let of = |bytes: u64| n.saturating_mul(bytes);
        let format = if row.master == 0 { "fp32" } else { "16 bits" };
        self.add("weights", of(row.weights), all, times(row.weights, format));
        // ZeRO counts the master copy among the optimiser's states.
        self.add("master weights", of(row.master), shard != Shard::None, times(row.master, "fp32"));
        self.add(
            "gradients",
            of(row.gradients),
            matches!(shard, Shard::Gradients | Shard::All),
            times(row.gradients, "fp32"),
        );
        self.add("optimiser", of(row.optimiser), shard != Shard::None, times(row.optimiser, row.states));
    }

    fn lora(&mut self, adapters: u64) {
        let plan = self.plan;
        let all = plan.shard == Shard::All;
        self.add(
            "frozen weights",
            plan.dtype.bytes(plan.params),
            all,
            format!("{} × {}", count(plan.params), plan.dtype.per_number()),
        );
        let formula = format!("{} × {ADAPTER} B (fp32 weight 4, gradient 4, AdamW 8)", count(adapters));
        self.add("adapters", adapters.saturating_mul(ADAPTER), all, formula);
    }

    fn logits(&mut self, trains: bool) {
        let Plan { batch, length, vocabulary, .. } = *self.plan;
        // Generation needs the logits of the last position only; training of all, usually in three copies at the peak.
        let (positions, copies) = if trains { (length, 3) } else { (length.min(1), 1) };
        let bytes = product(&[batch, positions, vocabulary, 4, copies]);
        let formula = match trains {
            true => {
                format!("{batch} × {length} × {vocabulary} × 4 B × 3 copies (logits, their softmax, their gradient)")
            }
            false => format!("{batch} × 1 position × {vocabulary} × 4 B"),
        };
        self.add("logits", bytes, false, formula);
    }

    fn kv_cache(&mut self) {
        let Plan { batch, length, kv_per_token, kv_dtype, .. } = *self.plan;
        let numbers = product(&[batch, length, kv_per_token]);
        let formula = format!(
            "{batch} × {length} tokens × {kv_per_token} numbers (2 × layers × KV heads × head size) × {}",
            kv_dtype.per_number()
        );
        self.add("KV cache", kv_dtype.bytes(numbers), false, formula);
    }
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1u64, |product, &factor| product.saturating_mul(factor))
}

fn scaled(count: u64, factor: f64) -> u64 {
    // Exact for every count of parameters that exists; beyond 2^53 the bound no longer matters.
    (count as f64 * factor).ceil() as u64
}

/// `8.03e9`, as parameters are counted; small ones in full.
fn count(n: u64) -> String {
    if n < 1_000_000 {
        crate::units::count(n)
    } else {
        format!("{:.2}e{}", n as f64 / 10f64.powi(n.ilog10() as i32), n.ilog10())
    }
}

#[cfg(test)]
mod tests;
