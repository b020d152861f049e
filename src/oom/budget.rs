//! The memory budget that inference servers print when they start.

use serde::Serialize;

use super::clues::Clues;
use super::figure;
use super::squash::Squashed;

/// What a server says about its memory, bytes. Each `None` where the log does not have the line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    /// The card.
    pub total: Option<u64>,
    /// vLLM's `gpu_memory_utilization`.
    pub utilization: Option<f64>,
    /// SGLang's `mem_fraction_static`.
    pub mem_fraction_static: Option<f64>,
    /// Weights.
    pub weights: Option<u64>,
    /// What vLLM counts outside PyTorch.
    pub non_torch: Option<u64>,
    /// The highest activations of the profiling run.
    pub activations: Option<u64>,
    /// The KV cache.
    pub kv_cache: Option<u64>,
    /// CUDA graphs, as printed after their capture.
    pub graphs: Option<u64>,
    /// SGLang: what was free after the pool was made.
    pub available: Option<u64>,
}

impl Budget {
    /// The last values before the point up to which `clues` were gathered.
    pub(super) fn read(clues: &Clues) -> Self {
        let last = |words: &str| clues.text(words);
        let mut budget = Self::default();
        let size = |words: &str, squashed: &[u8]| last(words).and_then(|text| bytes_after(&text, squashed));
        let ratio = |words: &str, squashed: &[u8]| last(words).and_then(|text| ratio_after(&text, squashed));
        budget.total = size("total_gpu_memory (", b"total_gpu_memory(");
        budget.utilization = ratio("gpu_memory_utilization (", b"gpu_memory_utilization(")
            .or_else(|| ratio("gpu_memory_utilization=", b"gpu_memory_utilization="))
            .or_else(|| ratio("'gpu_memory_utilization': ", b"'gpu_memory_utilization':"));
        budget.mem_fraction_static = ratio("mem_fraction_static=", b"mem_fraction_static=");
        budget.weights = size("model weights take ", b"modelweightstake")
            .or_else(|| size("Model loading took ", b"modelloadingtook"))
            .or_else(|| size("Loading model weights took ", b"loadingmodelweightstook"))
            .or_else(|| last("Load weight end").and_then(|text| bytes_after(&text, b"memusage=")));
        budget.non_torch = size("non_torch_memory takes ", b"non_torch_memorytakes");
        budget.activations = size("PyTorch activation peak memory takes ", b"pytorchactivationpeakmemorytakes");
        budget.kv_cache = size("reserved for KV Cache is ", b"reservedforkvcacheis")
            .or_else(|| size("Available KV cache memory: ", b"availablekvcachememory:"));
        budget.graphs = last("Graph capturing finished in").and_then(|text| bytes_after(&text, b"secs,took"));
        budget.available = last("Memory pool end").and_then(|text| bytes_after(&text, b"availmem="));
        budget
    }

    /// Whether there is anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What vLLM has taken by its own account: weights, activations at their highest, and KV cache.
    pub fn reserved(&self) -> Option<u64> {
        Some(self.weights? + self.activations? + self.kv_cache?)
    }

    /// What utilisation leaves free of the card for CUDA graphs and all that vLLM does not count.
    pub fn left(&self) -> Option<u64> {
        let left = self.total? as f64 * (1.0 - self.utilization?);
        (left >= 0.0).then_some(left as u64)
    }
}

fn bytes_after(text: &Squashed, words: &[u8]) -> Option<u64> {
    figure::read(text.after(words)?.0)?.0.bytes
}

fn ratio_after(text: &Squashed, words: &[u8]) -> Option<f64> {
    let (rest, _) = text.after(words)?;
    let digits = rest.iter().take_while(|c| c.is_ascii_digit() || **c == b'.').count();
    let ratio: f64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    (0.0..=1.0).contains(&ratio).then_some(ratio)
}
