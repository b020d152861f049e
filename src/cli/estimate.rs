//! `oomscope estimate`

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use super::{Status, output};
use crate::oom::estimate::{Dtype, Estimate, ModelConfig, Plan, Shard, Training, estimate};
use crate::render::table::{Align, Table};
use crate::units::{bytes, bytes_decimal, parse_count, parse_size};

/// Lower bounds of the memory that a model needs: weights, gradients, optimiser, KV cache, logits, term by term.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope estimate --params 8B --dtype bf16                        weights alone: 16.0 GB
  oomscope estimate --params 8B --train mixed-adamw --ranks 8 --shard all
  oomscope estimate --config config.json --batch 8 --seq 8192 --gpu 24GiB
  oomscope estimate --config config.json --lora 16 --batch 4 --seq 2048")]
pub struct Args {
    /// Number of parameters: 8B, 350M, 1.5T, 8e9
    #[arg(long, value_name = "COUNT", value_parser = parse_count, required_unless_present = "config")]
    params: Option<u64>,
    /// A Hugging Face config.json: the count follows from the shapes of Llama-like decoders
    #[arg(long, value_name = "FILE", conflicts_with = "params")]
    config: Option<PathBuf>,
    /// Format of the weights [default: the config's, else bf16]
    #[arg(long, value_enum)]
    dtype: Option<Format>,
    /// Training, with its optimiser; without it inference
    #[arg(long, value_enum, value_name = "SETUP")]
    train: Option<Setup>,
    /// Train LoRA adapters of this rank on every linear layer of the blocks; needs --config
    #[arg(long, value_name = "RANK", requires = "config", conflicts_with = "train")]
    lora: Option<u64>,
    /// Sequences at once
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    batch: u64,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    seq: u64,
    /// Vocabulary
    #[arg(long, value_name = "N")]
    vocab: Option<u64>,
    /// Layers, for the KV cache
    #[arg(long, value_name = "N", requires_all = ["kv_heads", "head_dim"])]
    layers: Option<u64>,
    /// KV heads
    #[arg(long, value_name = "N")]
    kv_heads: Option<u64>,
    /// Head size
    #[arg(long, value_name = "N")]
    head_dim: Option<u64>,
    /// Format of the KV cache [default: bf16]
    #[arg(long, value_enum)]
    kv_dtype: Option<Format>,
    /// Ranks that share the model
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    ranks: u64,
    /// What is divided over them
    #[arg(long, value_enum, default_value_t = Sharding::None)]
    shard: Sharding,
    /// Memory of a card: says whether the bound is below it (24GiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    gpu: Option<u64>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Fp32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
    Int4,
}

impl From<Format> for Dtype {
    fn from(format: Format) -> Self {
        match format {
            Format::Fp32 => Self::Fp32,
            Format::Fp16 => Self::Fp16,
            Format::Bf16 => Self::Bf16,
            Format::Fp8 => Self::Fp8,
            Format::Int8 => Self::Int8,
            Format::Int4 => Self::Int4,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Setup {
    /// AdamW, mixed precision: 18 bytes a parameter
    MixedAdamw,
    /// AdamW in fp32: 16
    Fp32Adamw,
    /// 8-bit AdamW, mixed precision: 12
    #[value(name = "mixed-adamw8bit")]
    Mixed8bit,
    /// SGD with momentum, mixed precision: 14
    MixedSgd,
}

impl From<Setup> for Training {
    fn from(setup: Setup) -> Self {
        match setup {
            Setup::MixedAdamw => Self::MixedAdamW,
            Setup::Fp32Adamw => Self::Fp32AdamW,
            Setup::Mixed8bit => Self::Mixed8bitAdamW,
            Setup::MixedSgd => Self::MixedSgd,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Sharding {
    /// Nothing
    None,
    /// Optimiser states and master weights (ZeRO-1)
    Optimiser,
    /// And gradients (ZeRO-2)
    Gradients,
    /// And weights (ZeRO-3, FSDP)
    All,
}

impl From<Sharding> for Shard {
    fn from(sharding: Sharding) -> Self {
        match sharding {
            Sharding::None => Self::None,
            Sharding::Optimiser => Self::Optimiser,
            Sharding::Gradients => Self::Gradients,
            Sharding::All => Self::All,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    oomscope: &'static str,
    command: &'static str,
    file: Option<String>,
    warnings: Vec<String>,
    params: u64,
    #[serde(flatten)]
    estimate: &'a Estimate,
}

pub fn run(args: &Args) -> Result<Status> {
    ensure!(args.ranks > 0, "--ranks must be at least 1");
    let config = args.config.as_ref().map(|path| {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        ModelConfig::parse(&text).with_context(|| path.display().to_string())
    });
    let config = config.transpose()?;
    let plan = plan(args, config.as_ref());
    let found = estimate(&plan, args.gpu);
    let text = if args.json {
        let document = Document {
            oomscope: env!("CARGO_PKG_VERSION"),
            command: "estimate",
            file: args.config.as_ref().map(|path| path.display().to_string()),
            warnings: Vec::new(),
            params: plan.params,
            estimate: &found,
        };
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        text(args, &plan, config.as_ref(), &found)
    };
    output::print(&text)?;
    Ok(Status::Done)
}

fn plan(args: &Args, config: Option<&ModelConfig>) -> Plan {
    let flags = args.layers.zip(args.kv_heads).zip(args.head_dim);
    let kv =
        flags.map(|((layers, heads), size)| 2u64.saturating_mul(layers).saturating_mul(heads).saturating_mul(size));
    let of_config = config.and_then(|config| match config.dtype.as_deref() {
        Some("float32") => Some(Dtype::Fp32),
        Some("float16") => Some(Dtype::Fp16),
        Some("bfloat16") => Some(Dtype::Bf16),
        _ => None,
    });
    Plan {
        params: args.params.or(config.map(|config| config.params)).unwrap_or(0),
        dtype: args.dtype.map(Dtype::from).or(of_config).unwrap_or(Dtype::Bf16),
        training: args.train.map(Training::from),
        lora_params: args.lora.zip(config).map(|(rank, config)| config.lora_per_rank.saturating_mul(rank)),
        batch: args.batch,
        length: args.seq,
        vocabulary: args.vocab.or(config.map(|config| config.vocabulary)).unwrap_or(0),
        kv_per_token: kv.or(config.map(|config| config.kv_per_token)).unwrap_or(0),
        kv_dtype: args.kv_dtype.map_or(Dtype::Bf16, Dtype::from),
        ranks: args.ranks,
        shard: args.shard.into(),
    }
}

fn text(args: &Args, plan: &Plan, config: Option<&ModelConfig>, found: &Estimate) -> String {
    let mut table =
        Table::new([("", Align::Left), ("", Align::Right), ("", Align::Right), ("", Align::Prose)]).indent(2);
    for term in &found.terms {
        table.row([term.name, &bytes(term.bytes), &bytes_decimal(term.bytes), &term.formula]);
    }
    table.row([
        "at least",
        &bytes(found.total),
        &bytes_decimal(found.total),
        if args.ranks > 1 { "on each card" } else { "" },
    ]);
    let from = config.map_or_else(String::new, |config| format!(" by the shapes of a {} model", config.model_type));
    let mut out = format!("{} parameters{from}\n\n{}", crate::units::count(plan.params), table.render(output::width()));
    if let (Some(card), Some(fits)) = (args.gpu, found.fits) {
        out += &match fits {
            true => format!(
                "\nBelow the card's {}: {} are left for what is left out.\n",
                bytes(card),
                bytes(card - found.total)
            ),
            false => format!(
                "\nMore than the card's {}: it cannot fit, {} are missing.\n",
                bytes(card),
                bytes(found.total - card)
            ),
        };
    }
    out += "\nLeft out:\n";
    for left in &found.left_out {
        out += &format!("  {left}\n");
    }
    out
}
