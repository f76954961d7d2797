/// y = relu(alpha · x·w + b).
#[fused_graph(tf32 = false)]
pub fn linear(x: &Tensor, w: &Tensor, b: Option<&Tensor>, alpha: f32) -> Tensor {
    let y = alpha * matmul(x, w);
    relu(match b {
        Some(b) => y + b,
        None => y,
    })
}
