//! What `#[fused_graph]` makes of a function, printed beside its source. A test keeps the listing true.
//!
//! `cargo run --example expand`

use fused_graph::prelude::*;

// The source, compiled here and shown below.
include!("expand/source.rs");

fn main() -> fused_graph::Result<()> {
    println!("{}\nbecomes\n\n{}", include_str!("expand/source.rs"), include_str!("expand/expanded.rs"));
    let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0, 4.0], [2, 2], &Device::CPU)?;
    let w = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0], [2, 2], &Device::CPU)?;
    let y = linear(&x, &w, None, 2.0)?;
    assert_eq!(y.to_vec::<f32>()?, [2.0, 0.0, 6.0, 8.0]);
    println!("and runs: {:?}", y.to_vec::<f32>()?);
    Ok(())
}
