//! The imaginary program: what a transformer allocates, how much of it, and in which lines.

use crate::stacks::{Inner, StackId, Stacks};

type Frames = &'static [(&'static str, &'static str, u32)];

/// One kind of allocation in a layer's forward pass. Sizes are in bytes for each token, and for each pair of tokens.
pub struct Op {
    operator: &'static str,
    frames: Frames,
    pub per_token: fn(hidden: u64) -> u64,
    pub per_pair: u64,
    /// Kept until the backward pass, rather than freed when the next one is made.
    pub saved: bool,
}

const fn op(operator: &'static str, frames: Frames, per_token: fn(u64) -> u64, per_pair: u64, saved: bool) -> Op {
    Op { operator, frames, per_token, per_pair, saved }
}

const CALL: (&str, &str, u32) = ("_call_impl", "nn/modules/module.py", 1750);
const WRAP: (&str, &str, u32) = ("_wrapped_call_impl", "nn/modules/module.py", 1739);
const LINEAR: (&str, &str, u32) = ("forward", "nn/modules/linear.py", 125);
const NORM: (&str, &str, u32) = ("layer_norm", "nn/functional.py", 2905);

/// A layer of the model. The attention is the plain one, whose memory grows with the square of the sequence.
pub const LAYER: [Op; 11] = [
    op(
        "native_layer_norm",
        &[NORM, ("forward", "nn/modules/normalization.py", 217), CALL, WRAP, ("forward", "model.py", 61)],
        |h| 2 * h,
        0,
        true,
    ),
    op(
        "native_layer_norm",
        &[NORM, ("forward", "nn/modules/normalization.py", 217), CALL, WRAP, ("forward", "model.py", 61)],
        |_| 4,
        0,
        true,
    ),
    op("linear", &[LINEAR, CALL, WRAP, ("forward", "model.py", 34)], |h| 6 * h, 0, true),
    op("contiguous", &[("forward", "model.py", 36)], |h| 2 * h, 0, false),
    op("bmm", &[("forward", "model.py", 38)], |_| 0, 32, false),
    op("_softmax", &[("softmax", "nn/functional.py", 2140), ("forward", "model.py", 39)], |_| 0, 32, true),
    op("linear", &[LINEAR, CALL, WRAP, ("forward", "model.py", 41)], |h| 2 * h, 0, false),
    op(
        "native_dropout",
        &[
            ("dropout", "nn/functional.py", 1425),
            ("forward", "nn/modules/dropout.py", 70),
            CALL,
            WRAP,
            ("forward", "model.py", 62),
        ],
        |h| h,
        0,
        true,
    ),
    op("linear", &[LINEAR, CALL, WRAP, ("forward", "model.py", 51)], |h| 8 * h, 0, true),
    op(
        "gelu",
        &[("forward", "nn/modules/activation.py", 734), CALL, WRAP, ("forward", "model.py", 52)],
        |h| 8 * h,
        0,
        true,
    ),
    op("linear", &[LINEAR, CALL, WRAP, ("forward", "model.py", 53)], |h| 2 * h, 0, true),
];

/// Bytes of a layer's parameters by hidden size.
pub const PARAMETERS: [fn(u64) -> u64; 12] = [
    |h| 4 * h,
    |h| 4 * h,
    |h| 12 * h * h,
    |h| 12 * h,
    |h| 4 * h * h,
    |h| 4 * h,
    |h| 4 * h,
    |h| 4 * h,
    |h| 16 * h * h,
    |h| 16 * h,
    |h| 16 * h * h,
    |h| 4 * h,
];
/// Tokens that the model knows.
pub const VOCABULARY: u64 = 32_000;
/// What PyTorch keeps for cuBLAS from its first use on.
pub const CUBLAS_WORKSPACE: u64 = 8_519_680;

/// Where the program allocates and frees.
pub struct Sites {
    pub parameters: StackId,
    pub batch: StackId,
    pub layer: Vec<StackId>,
    pub layer_free: StackId,
    pub logits: StackId,
    pub leak: StackId,
    pub gradient: StackId,
    pub backward: StackId,
    pub backward_free: StackId,
    pub state: StackId,
    pub update: StackId,
    pub update_free: StackId,
    pub zero_grad: StackId,
    pub step_free: StackId,
}

impl Sites {
    /// Makes the stacks. `leak` is the file and line of the planted leak.
    pub fn new(stacks: &mut Stacks, leak: (&str, u32)) -> Self {
        let adam = ("_single_tensor_adam", "optim/adam.py", 447);
        let step = [("step", "optim/adam.py", 243), ("wrapper", "optim/optimizer.py", 493)];
        Self {
            parameters: stacks.python(
                &[("__init__", "nn/modules/linear.py", 106), ("__init__", "model.py", 22)],
                Inner::Malloc,
                "empty",
            ),
            batch: stacks.python(&[("collate", "data.py", 57)], Inner::Malloc, "_to_copy"),
            layer: LAYER.iter().map(|op| stacks.python(op.frames, Inner::Malloc, op.operator)).collect(),
            layer_free: stacks.python(&[("forward", "model.py", 64)], Inner::Free, "linear"),
            logits: stacks.python(&[LINEAR, CALL, WRAP, ("forward", "model.py", 88)], Inner::Malloc, "linear"),
            leak: stacks.python(&[("update", leak.0, leak.1)], Inner::Malloc, "add"),
            gradient: stacks.backward(Inner::Malloc, "AccumulateGrad"),
            backward: stacks.backward(Inner::Malloc, "MmBackward0"),
            backward_free: stacks.backward(Inner::Free, "MmBackward0"),
            state: stacks.python(
                &[("_init_group", "optim/adam.py", 181), step[0], step[1]],
                Inner::Malloc,
                "zeros_like",
            ),
            update: stacks.python(&[adam, step[0], step[1]], Inner::Malloc, "sqrt"),
            update_free: stacks.python(&[adam, step[0], step[1]], Inner::Free, "addcdiv_"),
            zero_grad: stacks.python(&[("zero_grad", "optim/optimizer.py", 1012)], Inner::Free, "zero_"),
            step_free: stacks.python(&[], Inner::Free, "nll_loss"),
        }
    }
}
