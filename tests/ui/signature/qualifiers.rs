use fused_graph::prelude::*;

#[fused_graph]
pub async fn asynchronous(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph]
const fn constant(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph]
extern "C" fn foreign(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph]
struct NotAFunction {
    x: Tensor,
}

struct Model;

impl Model {
    #[fused_graph]
    fn method(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

impl Model {
    #[fused_graph]
    fn associated(x: &Tensor) -> Tensor {
        relu(x)
    }
}

trait Layer {
    #[fused_graph]
    fn forward(x: &Tensor) -> Tensor;
}

fn main() {
    let x = Tensor::zeros([2], DType::F32, &Device::cpu()).unwrap();
    let _: fused_graph::Result<Tensor> = asynchronous(&x);
    let _: fused_graph::Result<Tensor> = constant(&x);
    let _ = (foreign(&x), foreign::plan(&x), Model.method(&x));
    let _ = NotAFunction { x };
}
