use fused_graph::prelude::*;

struct Config;

#[fused_graph]
fn parameters(
    a: Tensor,
    b: &mut Tensor,
    c: Option<Tensor>,
    d: &[Tensor],
    e: &str,
    (f, g): (u8, u8),
    h: impl Clone,
    #[cfg(feature = "x")] i: &Tensor,
    j: Option<&mut Tensor>,
) -> Tensor {
    a
}

#[fused_graph]
fn no_tensor(alpha: f32, flag: bool) -> Tensor {
    alpha
}

#[fused_graph]
fn not_an_attribute(x: &Tensor, config: Config, factor: Option<&'static Config>) -> Tensor {
    relu(x)
}

type Alpha = f32;

// A float under another name would be baked into the plan in silence.
#[fused_graph]
fn alias(x: &Tensor, alpha: Alpha, clip: (f32, f32)) -> Tensor {
    alpha * x + clip.0
}

fn main() {
    let _ = no_tensor(1.0, true);
    parameters::clear();
}
