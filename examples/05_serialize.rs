//! Job 5: pay for compilation once. A plan as bytes, which another process loads; the store on disk does the same with no code at all.
//!
//! `cargo run --release --example 05_serialize`, and once more to see the second run.

use fused_graph::prelude::*;
use std::time::Instant;

/// y = gelu(alpha · x·w + b) and the largest |y|.
#[fused_graph]
pub fn linear_gelu_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    let x = Tensor::randn([16, 128, 256], half, &dev)?;
    let w = Tensor::randn([16, 256, 192], half, &dev)?;
    let b = Tensor::randn([192], half, &dev)?;

    let start = Instant::now();
    let plan = linear_gelu_amax::plan(&x, &w, &b, 0.5)?;
    println!("plan {}: {:.1} ms", plan.explain().source, start.elapsed().as_secs_f64() * 1e3);

    let bytes = plan.to_bytes()?; // for exactly this GPU and this version of cuDNN
    let file = std::env::temp_dir().join("linear_gelu_amax.plan");
    std::fs::write(&file, &bytes).map_err(|e| fused_graph::Error::cache(format!("{}: {e}", file.display())))?;
    println!("{} bytes in {}", bytes.len(), file.display());

    // In another process, or here after the plans of the function were dropped: the next call with this signature compiles nothing.
    let expected = linear_gelu_amax(&x, &w, &b, 0.5)?;
    linear_gelu_amax::clear();
    let bytes = std::fs::read(&file).map_err(|e| fused_graph::Error::cache(e.to_string()))?;
    linear_gelu_amax::load(&dev, &bytes)?;
    let start = Instant::now();
    let (y, largest) = linear_gelu_amax(&x, &w, &b, 0.5)?;
    dev.synchronize()?;
    println!("first call with the loaded plan: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    println!("{}", linear_gelu_amax::stats());

    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    assert_eq!(f32s(&y)?, f32s(&expected.0)?);
    assert_eq!(f32s(&largest)?, f32s(&expected.1)?);

    // Bytes of another GPU, another cuDNN or damaged ones are errors that say so.
    if let Err(error) = linear_gelu_amax::load(&dev, &bytes[..bytes.len() / 2]) {
        println!("half of the bytes: {error}");
    }
    if let Some(disk) = fused_graph::store::Disk::of_environment() {
        println!("the store on disk is {}", disk.folder().display());
    }
    Ok(())
}
