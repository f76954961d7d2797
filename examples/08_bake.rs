//! Ahead of time: calls recorded on the CPU become plans for four GPUs, on a machine that has none of them.
//!
//! `cargo run --release --example 08_bake`. The command line does the same: `FUSED_GRAPH_RECORD=calls program`, then
//! `fused-graph bake calls -o plans.fgb --target h200,b200,a100,rtx4090`.

use fused_graph::prelude::*;
use fused_graph::{Record, bake};

/// y = relu(conv(x, w) + b).
#[fused_graph]
pub fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

/// y = gelu(alpha · x·w + b) and the largest |y|.
#[fused_graph]
pub fn linear_gelu_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

fn main() -> fused_graph::Result<()> {
    let Some(file) = std::env::var_os("FUSED_GRAPH_RECORD") else { return recorded_by_a_child() };
    // The run that is recorded: it needs no GPU.
    let dev = Device::cpu();
    let half = DType::BF16;
    let x = Tensor::randn([8, 64, 28, 28], half, &dev)?.channels_last()?;
    let w = Tensor::randn([64, 64, 3, 3], half, &dev)?.channels_last()?;
    let b = Tensor::randn([64], half, &dev)?;
    conv_bias_relu(&x, &w, &b)?;
    for rows in [16, 128] {
        let x = Tensor::randn([rows, 256], half, &dev)?;
        let (w, b) = (Tensor::randn([256, 512], half, &dev)?, Tensor::randn([512], half, &dev)?);
        linear_gelu_amax(&x, &w, &b, 0.5)?;
    }
    println!("recorded in {}", std::path::Path::new(&file).display());
    Ok(())
}

/// Runs this program once more with `FUSED_GRAPH_RECORD`, and bakes what it wrote.
fn recorded_by_a_child() -> fused_graph::Result<()> {
    let failed = |e: std::io::Error| fused_graph::Error::cache(e.to_string());
    let folder = std::env::temp_dir();
    let (calls, plans) = (folder.join("08_bake.calls"), folder.join("08_bake.fgb"));
    let _ = std::fs::remove_file(&calls);
    let program = std::env::current_exe().map_err(failed)?;
    let status = std::process::Command::new(program).env("FUSED_GRAPH_RECORD", &calls).status().map_err(failed)?;
    assert!(status.success());

    let record = Record::read(&calls)?;
    assert_eq!(record.calls.len(), 3);
    let gpus: Vec<String> = bake::targets().map(str::to_owned).collect();
    let start = std::time::Instant::now();
    let baked = match bake::bake(&record, &gpus, |_| {}) {
        Ok(baked) => baked,
        // The CPU needs no plans; without cuDNN there is nothing to compile them with.
        Err(error) => {
            println!("{} calls recorded; nothing is baked here: {error}", record.calls.len());
            return Ok(());
        }
    };
    println!("{} plans in {:.1} s", baked.bundle.entries().len(), start.elapsed().as_secs_f64());
    for entry in baked.bundle.entries() {
        println!("  {:<28} {:<18} {:>7} bytes", entry.key.device, entry.function, entry.payload.len());
    }
    for (gpu, function, error) in &baked.refused {
        println!("  {function} for {gpu}: {error}");
    }
    assert_eq!(baked.bundle.entries().len() + baked.refused.len(), 3 * gpus.len());
    baked.bundle.write(&plans)?;
    let loaded = fused_graph::load_bundle(&plans)?;
    println!("{}: {loaded} plans; FUSED_GRAPH_BUNDLE or `load_bundle` hands them to a process", plans.display());
    Ok(())
}
