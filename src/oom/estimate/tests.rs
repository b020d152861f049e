use super::*;

fn plan() -> Plan {
    Plan {
        params: 8_000_000_000,
        dtype: Dtype::Bf16,
        training: None,
        lora_params: None,
        batch: 0,
        length: 0,
        vocabulary: 0,
        kv_per_token: 0,
        kv_dtype: Dtype::Bf16,
        ranks: 1,
        shard: Shard::None,
    }
}

#[test]
fn weights_alone() {
    let found = estimate(&plan(), Some(24 << 30));
    assert_eq!((found.total, found.fits), (16_000_000_000, Some(true)));
    let int4 = estimate(&Plan { dtype: Dtype::Int4, ..plan() }, None);
    assert_eq!((int4.total, int4.fits), (4_000_000_000, None));
    let fp32 = estimate(&Plan { dtype: Dtype::Fp32, ..plan() }, Some(24 << 30));
    assert_eq!(fp32.fits, Some(false));
}

#[test]
fn bytes_a_parameter_in_training() {
    for (training, bytes) in [
        (Training::MixedAdamW, 18),
        (Training::Fp32AdamW, 16),
        (Training::Mixed8bitAdamW, 12),
        (Training::MixedSgd, 14),
    ] {
        let found = estimate(&Plan { training: Some(training), ..plan() }, None);
        assert_eq!(found.total, bytes * 8_000_000_000, "{training:?}");
        assert_eq!(found.total, found.terms.iter().map(|term| term.bytes).sum::<u64>());
    }
}

#[test]
fn sharding_divides_what_it_says() {
    let sharded =
        |shard| estimate(&Plan { training: Some(Training::MixedAdamW), ranks: 8, shard, ..plan() }, None).total;
    let n = 8_000_000_000;
    assert_eq!(sharded(Shard::None), 18 * n);
    assert_eq!(sharded(Shard::Optimiser), 6 * n + 12 * n / 8);
    assert_eq!(sharded(Shard::Gradients), 2 * n + 16 * n / 8);
    assert_eq!(sharded(Shard::All), 18 * n / 8);
}

#[test]
fn kv_cache_and_logits() {
    // 32 layers, 8 KV heads of 128, as of an 8B Llama: 128 KiB a token in 16 bits.
    let served = Plan { kv_per_token: 2 * 32 * 8 * 128, batch: 4, length: 8192, vocabulary: 128_256, ..plan() };
    let found = estimate(&served, None);
    let term = |name| found.terms.iter().find(|term| term.name == name).expect("the term").bytes;
    assert_eq!(term("KV cache"), 4 * 8192 * (128 << 10));
    assert_eq!(term("logits"), 4 * 128_256 * 4);
    let trained = estimate(&Plan { training: Some(Training::MixedAdamW), ..served }, None);
    let logits = trained.terms.iter().find(|term| term.name == "logits").expect("logits").bytes;
    assert_eq!(logits, 4 * 8192 * 128_256 * 4 * 3);
    assert!(trained.terms.iter().all(|term| term.name != "KV cache"));
}

#[test]
fn absurd_counts_saturate() {
    let absurd = Plan {
        params: u64::MAX,
        batch: u64::MAX,
        length: u64::MAX,
        vocabulary: u64::MAX,
        training: Some(Training::MixedAdamW),
        ..plan()
    };
    assert_eq!(estimate(&absurd, Some(1)).fits, Some(false));
}
