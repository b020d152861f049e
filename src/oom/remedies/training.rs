//! Training: Hugging Face's `Trainer`, PEFT, DeepSpeed, FSDP, and plain loops.

use super::{Class, HF_GPU, Remedy, unknown};
use crate::oom::remedies::Case;
use crate::oom::verdict::Verdict;

const ARGUMENTS: &str = "https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments";

/// Training, or what may be training, that needs more than there is.
fn short(case: &Case) -> bool {
    case.is_capacity() && case.may_train()
}

fn surely(case: &Case) -> bool {
    case.is_capacity() && case.is_training()
}

/// See the module.
pub(super) const ROWS: &[Remedy] = &[
    Remedy {
        id: "set_to_none",
        class: Class::Free,
        what: "optimizer.zero_grad(set_to_none=True)",
        why: "gradients are freed between steps; it is the default from PyTorch 2.0 on",
        applies: |case| surely(case) && case.torch.is_below((2, 1)),
        bytes: unknown,
        conflicts: &[],
        since: "1.7",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
    },
    Remedy {
        id: "eval_accumulation",
        class: Class::Free,
        what: "eval_accumulation_steps=N, prediction_loss_only=True or preprocess_logits_for_metrics in TrainingArguments and Trainer",
        why: "without them all logits of the evaluation stay on the card",
        applies: |case| {
            case.programs.trainer && case.programs.evaluation && (case.is_capacity() || case.is(Verdict::Accumulation))
        },
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: ARGUMENTS,
    },
    Remedy {
        id: "micro_batch",
        class: Class::Slower,
        what: "halve the batch (per_device_train_batch_size) and double gradient_accumulation_steps",
        why: "activations halve, and the effective batch stays the same",
        applies: short,
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: HF_GPU,
    },
    Remedy {
        id: "gradient_checkpointing",
        class: Class::Slower,
        what: "gradient checkpointing (gradient_checkpointing=True, torch.utils.checkpoint)",
        why: "activations are computed again instead of kept; about 20 % slower by Hugging Face's documentation",
        applies: short,
        bytes: unknown,
        conflicts: &["use_cache=True in training"],
        since: "",
        link: HF_GPU,
    },
    Remedy {
        id: "zero",
        class: Class::Slower,
        what: "shard over the ranks: ZeRO-1, then 2, then 3, or FSDP full shard",
        why: "optimiser states, gradients and weights are divided by the number of ranks",
        applies: |case| surely(case) && case.is_distributed() && !case.programs.deepspeed,
        bytes: unknown,
        conflicts: &[],
        since: "1.12",
        link: "https://docs.pytorch.org/docs/stable/fsdp.html",
    },
    Remedy {
        id: "deepspeed_stage",
        class: Class::Slower,
        what: "a higher ZeRO stage in the DeepSpeed configuration, then offload_optimizer and offload_param",
        why: "each stage divides more over the ranks",
        applies: |case| surely(case) && case.programs.deepspeed,
        bytes: unknown,
        conflicts: &[],
        since: "DeepSpeed",
        link: "https://www.deepspeed.ai/tutorials/zero/",
    },
    Remedy {
        id: "foreach",
        class: Class::Slower,
        what: "foreach=False in the optimiser, if it fails in optimizer.step()",
        why: "the foreach implementation needs about the size of the parameters more during the step",
        applies: surely,
        bytes: unknown,
        conflicts: &["fused=True"],
        since: "1.12",
        link: "https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",
    },
    Remedy {
        id: "bf16",
        class: Class::Result,
        what: "bf16=True (TrainingArguments), or torch.autocast(\"cuda\", dtype=torch.bfloat16)",
        why: "activations take half the bytes; sums round differently",
        applies: short,
        bytes: unknown,
        conflicts: &["fp16=True"],
        since: "1.10",
        link: HF_GPU,
    },
    Remedy {
        id: "adamw_8bit",
        class: Class::Result,
        what: "optim=\"adamw_8bit\" (bitsandbytes)",
        why: "optimiser states take 2 bytes a parameter instead of 8",
        applies: short,
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: HF_GPU,
    },
    Remedy {
        id: "lora",
        class: Class::Result,
        what: "LoRA (PEFT), then QLoRA with 4-bit weights",
        why: "gradients and optimiser states only for the adapters",
        applies: short,
        bytes: unknown,
        conflicts: &[],
        since: "PEFT",
        link: "https://huggingface.co/docs/peft/conceptual_guides/lora",
    },
    Remedy {
        id: "shorter",
        class: Class::Result,
        what: "shorter sequences, or smaller pictures",
        why: "activations grow with them, attention scores with their square",
        applies: |case| case.is_capacity() && !case.is_loading() && !case.programs.vllm && !case.programs.sglang,
        bytes: unknown,
        conflicts: &[],
        since: "",
        link: HF_GPU,
    },
];
