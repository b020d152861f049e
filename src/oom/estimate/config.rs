//! A Hugging Face `config.json`: the parameter count from the shapes of Llama-like decoders.

use serde::Deserialize;
use thiserror::Error;

/// What the estimate needs of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// `model_type`.
    pub model_type: String,
    /// Parameters.
    pub params: u64,
    /// Numbers of the KV cache for a token: 2 × layers × KV heads × head size.
    pub kv_per_token: u64,
    /// Vocabulary.
    pub vocabulary: u64,
    /// Parameters of LoRA adapters of rank 1 on every linear layer of the blocks; multiply by the rank.
    pub lora_per_rank: u64,
    /// `torch_dtype` or `dtype`, where it is there.
    pub dtype: Option<String>,
}

/// Why a config cannot be used. The text says what to give instead.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not JSON, or without the fields.
    #[error("it is no config.json of a decoder: {0}; give --params instead")]
    Json(#[from] serde_json::Error),
    /// Another architecture.
    #[error(
        "the shapes of `{0}` are not known here (known: llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, phi3, gemma, gemma2); \
         give --params, and --layers, --kv-heads, --head-dim and --vocab for the KV cache and the logits"
    )]
    Unknown(String),
    /// A field that these shapes need.
    #[error("`{0}` is missing or 0: give --params instead")]
    Missing(&'static str),
    /// Sizes that no model has.
    #[error("the sizes are absurd: their product exceeds 2^63")]
    Absurd,
}

#[derive(Deserialize)]
struct Raw {
    model_type: Option<String>,
    text_config: Option<Box<Raw>>,
    hidden_size: Option<u64>,
    num_hidden_layers: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    intermediate_size: Option<u64>,
    moe_intermediate_size: Option<u64>,
    num_local_experts: Option<u64>,
    num_experts: Option<u64>,
    vocab_size: Option<u64>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    torch_dtype: Option<String>,
    dtype: Option<String>,
}

/// What differs between the families.
#[derive(Clone, Copy, Default)]
struct Family {
    /// Norms of the hidden size in a block.
    norms: u64,
    /// Biases of the q, k and v projections.
    qkv_bias: bool,
    /// Norms of the head size on q and k.
    qk_norm: bool,
    /// Embeddings are shared with the output layer when the config does not say.
    tied: bool,
    /// Experts.
    moe: bool,
}

fn family(model_type: &str) -> Option<Family> {
    let plain = Family { norms: 2, ..Family::default() };
    Some(match model_type {
        "llama" | "mistral" | "phi3" => plain,
        "mixtral" => Family { moe: true, ..plain },
        "qwen2" => Family { qkv_bias: true, ..plain },
        "qwen3" => Family { qk_norm: true, ..plain },
        "qwen3_moe" => Family { qk_norm: true, moe: true, ..plain },
        "gemma" => Family { tied: true, ..plain },
        "gemma2" => Family { norms: 4, tied: true, ..plain },
        _ => return None,
    })
}

impl ModelConfig {
    /// Reads the text of a `config.json`.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: Raw = serde_json::from_str(text)?;
        // Models with pictures keep the decoder's shapes in a part of their own; the rest of them is not counted.
        let raw = match raw.text_config {
            Some(inner) if raw.hidden_size.is_none() => *inner,
            _ => raw,
        };
        let model_type = raw.model_type.clone().unwrap_or_else(|| "(no model_type)".to_owned());
        let family = family(&model_type).ok_or_else(|| {
            ConfigError::Unknown(crate::text::printable(&crate::text::shorten(&model_type, 40)).into_owned())
        })?;
        Self::count(&raw, family, model_type)
    }

    fn count(raw: &Raw, family: Family, model_type: String) -> Result<Self, ConfigError> {
        let need = |value: Option<u64>, name| {
            value.filter(|&value| value > 0).ok_or(ConfigError::Missing(name)).map(u128::from)
        };
        let hidden = need(raw.hidden_size, "hidden_size")?;
        let layers = need(raw.num_hidden_layers, "num_hidden_layers")?;
        let heads = need(raw.num_attention_heads, "num_attention_heads")?;
        let kv_heads = raw.num_key_value_heads.map_or(heads, u128::from);
        let head = raw.head_dim.map_or(hidden / heads, u128::from);
        let vocabulary = need(raw.vocab_size, "vocab_size")?;
        let experts =
            if family.moe { need(raw.num_local_experts.or(raw.num_experts), "num_local_experts")? } else { 1 };
        let inner = match family.moe {
            true => need(raw.moe_intermediate_size.or(raw.intermediate_size), "intermediate_size")?,
            false => need(raw.intermediate_size, "intermediate_size")?,
        };
        // A bound that keeps every product below inside u128, and every sum inside u64.
        let sizes = [hidden, layers, heads, kv_heads, head, vocabulary, experts, inner];
        if sizes.iter().any(|&size| size > 1 << 24) {
            return Err(ConfigError::Absurd);
        }
        let (q, kv) = (heads * head, kv_heads * head);
        let mut block =
            hidden * q * 2 + hidden * kv * 2 + experts * 3 * hidden * inner + u128::from(family.norms) * hidden;
        if family.qkv_bias || raw.attention_bias == Some(true) {
            block += q + 2 * kv;
        }
        if raw.attention_bias == Some(true) && !family.qkv_bias {
            block += hidden;
        }
        if raw.mlp_bias == Some(true) {
            block += 2 * inner + hidden;
        }
        if family.qk_norm {
            block += 2 * head;
        }
        if family.moe {
            block += hidden * experts;
        }
        let tied = raw.tie_word_embeddings.unwrap_or(family.tied);
        let params = layers * block + vocabulary * hidden * if tied { 1 } else { 2 } + hidden;
        let adapters = layers * ((hidden + q) * 2 + (hidden + kv) * 2 + experts * 3 * (hidden + inner));
        let small = |value: u128| u64::try_from(value).ok().filter(|&value| value < 1 << 63).ok_or(ConfigError::Absurd);
        Ok(Self {
            model_type,
            params: small(params)?,
            kv_per_token: small(2 * layers * kv)?,
            vocabulary: small(vocabulary)?,
            lora_per_rank: small(adapters)?,
            dtype: raw.dtype.clone().or_else(|| raw.torch_dtype.clone()),
        })
    }
}

impl Family {
    #[cfg(test)]
    fn is_known(model_type: &str) -> bool {
        family(model_type).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes as the models' authors publish them, and the counts that follow when the weights are loaded.
    #[test]
    fn counts_of_published_models() {
        let models = [
            (
                r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"tie_word_embeddings":false}"#,
                8_030_261_248,
            ),
            (
                r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":32000}"#,
                6_738_415_616,
            ),
            (
                r#"{"model_type":"mistral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000}"#,
                7_241_732_096,
            ),
            (
                r#"{"model_type":"mixtral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,"num_local_experts":8}"#,
                46_702_792_704,
            ),
            (
                r#"{"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"intermediate_size":18944,"vocab_size":152064,"tie_word_embeddings":false}"#,
                7_615_616_512,
            ),
            (
                r#"{"model_type":"qwen2","hidden_size":896,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"intermediate_size":4864,"vocab_size":151936,"tie_word_embeddings":true}"#,
                494_032_768,
            ),
            (
                r#"{"model_type":"qwen3","hidden_size":4096,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,"tie_word_embeddings":false}"#,
                8_190_735_360,
            ),
            (
                r#"{"model_type":"gemma","hidden_size":2048,"num_hidden_layers":18,"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256000}"#,
                2_506_172_416,
            ),
        ];
        for (text, params) in models {
            assert_eq!(ModelConfig::parse(text).expect(text).params, params, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_says_what_to_give() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"model_type":"t5"}"#,
            r#"{"model_type":"llama"}"#,
            r#"{"model_type":"llama","hidden_size":0}"#,
        ] {
            let error = ConfigError::to_string(&ModelConfig::parse(text).expect_err(text));
            assert!(error.contains("--params"), "{text}: {error}");
        }
        let huge = r#"{"model_type":"llama","hidden_size":18446744073709551615,"num_hidden_layers":1,"num_attention_heads":1,"intermediate_size":1,"vocab_size":1}"#;
        assert!(matches!(ModelConfig::parse(huge), Err(ConfigError::Absurd)));
        assert!(Family::is_known("llama") && !Family::is_known("mamba"));
    }
}
