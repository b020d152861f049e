//! What a leak probably is, judged by where and how its blocks come to be.

use serde::Serialize;

/// The likely kind of a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Several tensors that a module computes in one call stay together.
    AutogradGraph,
    /// One tensor that a module computes stays.
    ModelOutput,
    /// Tensors that the program makes itself, of ever new sizes.
    Cache,
    /// Tensors that the program makes itself, again and again.
    TensorList,
    /// No block stays: each is replaced by a larger one.
    GrowingBuffer,
    /// Nothing tells who allocates it.
    NoStack,
}

impl Kind {
    /// What it is, in two words.
    pub fn name(self) -> &'static str {
        match self {
            Self::AutogradGraph => "autograd graph kept",
            Self::ModelOutput => "model output kept",
            Self::Cache => "cache of new sizes",
            Self::TensorList => "tensors collected",
            Self::GrowingBuffer => "growing buffer",
            Self::NoStack => "line not recorded",
        }
    }

    /// What it is, in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Self::AutogradGraph => "an autograd graph is kept: the activations of each call stay",
            Self::ModelOutput => "an output of the model is kept",
            Self::Cache => "a cache whose keys do not repeat: sizes differ",
            Self::TensorList => "tensors collected in a list or dict, or kept by a graph",
            Self::GrowingBuffer => "a buffer that is replaced by a larger one each time",
            Self::NoStack => "allocated without a Python stack, as in the backward pass: the line is not in the file",
        }
    }

    /// What usually ends it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::AutogradGraph => {
                "keep loss.item() or x.detach() instead of the tensor; evaluate under torch.no_grad() or inference_mode()"
            }
            Self::ModelOutput => {
                "keep out.detach().cpu(), or a clone of the part that is needed: a view keeps the whole tensor"
            }
            Self::Cache => "bound the cache, or round its keys up so that they repeat",
            Self::TensorList => "keep .cpu() copies or numbers, and clear the list; look for what refers to it",
            Self::GrowingBuffer => "if it is meant to grow (a KV cache), bound its length or allocate it once",
            Self::NoStack => "look at hooks that keep gradients and at retain_graph=True; record with stacks=\"all\"",
        }
    }
}
