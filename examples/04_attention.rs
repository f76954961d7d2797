//! Job 4: attention, causal, with grouped query heads, and the statistics of its softmax.
//!
//! `cargo run --release --example 04_attention`

use fused_graph::prelude::*;

/// softmax(q·kᵀ/√d)·v, each query seeing the keys up to its own position.
#[fused_graph]
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    sdpa(q, k, v, causal = true) // scale = 1/√d unless given
}

/// The same for the packed projection of a transformer, batch × positions × (query, key and value heads) × width. The result lies as its input does,
/// and ln Σ exp of the scores comes from the same kernel.
#[fused_graph]
pub fn attention_of_packed(qkv: &Tensor, heads: i64, kv_heads: i64) -> (Tensor, Tensor) {
    let heads_of = |from: i64, n: i64| slice(qkv, axis = 2, start = from, end = from + n).permute([0, 2, 1, 3]);
    let (q, k, v) = (heads_of(0, heads), heads_of(heads, kv_heads), heads_of(heads + kv_heads, kv_heads));
    let a = sdpa_stats(q, k, v, causal = true);
    (a.output.permute([0, 2, 1, 3]), a.log_sum_exp)
}

const BATCH: usize = 2;
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const LENGTH: usize = 192;
const WIDTH: usize = 64;

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    let qkv = Tensor::randn([BATCH, LENGTH, HEADS + 2 * KV_HEADS, WIDTH], half, &dev)?;
    let part = |from: usize, n: usize| qkv.slice(2, from..from + n)?.permute([0, 2, 1, 3]);
    let (q, k, v) = (part(0, HEADS)?, part(HEADS, KV_HEADS)?, part(HEADS + KV_HEADS, KV_HEADS)?);

    let y = attention(&q, &k, &v)?;
    let (packed, log_sum_exp) = attention_of_packed(&qkv, HEADS as i64, KV_HEADS as i64)?;
    check(&q, &k, &v, &y, &log_sum_exp)?;
    check(&q, &k, &v, &packed.permute([0, 2, 1, 3])?, &log_sum_exp)?;

    let report = attention_of_packed::explain(&qkv, HEADS as i64, KV_HEADS as i64)?;
    fused_graph::assert_fused!(report, kernels = 1);
    println!("{report}");
    Ok(())
}

/// Compares with the sums written out.
fn check(q: &Tensor, k: &Tensor, v: &Tensor, y: &Tensor, log_sum_exp: &Tensor) -> fused_graph::Result<()> {
    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    let (q, k, v, y, log_sum_exp) = (f32s(q)?, f32s(k)?, f32s(v)?, f32s(y)?, f32s(log_sum_exp)?);
    let row = |x: &[f32], head: usize, i: usize| x[(head * LENGTH + i) * WIDTH..][..WIDTH].to_vec();
    let (mut error, mut norm) = (0.0f64, 0.0f64);
    for head in 0..BATCH * HEADS {
        let kv = head / HEADS * KV_HEADS + head % HEADS / (HEADS / KV_HEADS);
        for i in (0..LENGTH).step_by(7) {
            let dot = |j: usize| row(&q, head, i).iter().zip(row(&k, kv, j)).map(|(a, b)| (a * b) as f64).sum::<f64>();
            let weights: Vec<f64> = (0..=i).map(|j| (dot(j) / (WIDTH as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..WIDTH {
                let want: f64 =
                    weights.iter().enumerate().map(|(j, w)| w * row(&v, kv, j)[d] as f64).sum::<f64>() / sum;
                error += (y[(head * LENGTH + i) * WIDTH + d] as f64 - want).powi(2);
                norm += want * want;
            }
            let difference = (log_sum_exp[head * LENGTH + i] as f64 - sum.ln()).abs();
            assert!(difference < 2e-3, "log-sum-exp of head {head}, row {i} is off by {difference}");
        }
    }
    let off = (error / norm).sqrt();
    println!("off by {off:.1e} of its norm");
    assert!(off < 2e-2, "off by {off}");
    Ok(())
}
