//! The hand-written equivalent of what the macro writes: a site, a call, a body.
#![allow(clippy::unwrap_used, missing_docs)]

use fused_graph_core::backend::Options;
use fused_graph_core::ir::{Graph, Op};
use fused_graph_core::site::{Call, Meta, Site};
use fused_graph_core::tensor::{HostData, Storage};
use fused_graph_core::trace::{Binding, Expr, ops::*};
use fused_graph_core::{DType, Device, ErrorKind, Result, Tensor, layout::Dims};

fn tensor(dims: &[i64]) -> Tensor {
    let dims = Dims::new(dims).unwrap();
    let data = HostData::F32(vec![0.0; dims.numel()]);
    Tensor::from_parts(Device::CPU, Storage::host(data), DType::F32, dims, dims.contiguous_strides(), 0)
}

const fn meta(params: &'static [&'static str], bindings: &'static [Binding]) -> Meta {
    Meta { name: "f", module: module_path!(), file: file!(), line: 1, params, bindings, options: Options::DEFAULT }
}

fn graph(tensors: &[&Tensor], body: impl FnOnce(&[Expr]) -> Expr) -> Result<Graph> {
    static SITE: Site = Site::new(meta(&["x", "w", "b"], &[]));
    let mut call = Call::new(&SITE);
    for t in tensors {
        call = call.tensor(t);
    }
    let n = tensors.len();
    call.trace(|i| body(&(0..n).map(|p| i.tensor(p)).collect::<Vec<_>>())).graph()
}

fn ops(g: &Graph) -> Vec<&'static str> {
    g.nodes().map(|(_, n)| n.op.name()).collect()
}

#[test]
fn a_body_leaves_its_operations_in_order() {
    let (x, w, b) = (tensor(&[2, 3, 8, 8]), tensor(&[4, 3, 3, 3]), tensor(&[4]));
    let g = graph(&[&x, &w, &b], |a| relu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2]).padding(1)))).unwrap();
    assert_eq!(ops(&g), ["conv2d", "reshape", "add", "relu"]);
    assert_eq!(&*g.value(g.outputs()[0]).dims, [2, 4, 8, 8]);
}

#[test]
fn per_channel_meets_axis_one() {
    let (x, s) = (tensor(&[2, 3, 8, 8]), tensor(&[3]));
    let g = graph(&[&x, &s], |a| a[0] * per_channel(a[1]) + 1.0 - per_channel(a[1]) * 2.0).unwrap();
    assert_eq!(ops(&g), ["reshape", "mul", "add", "mul", "reshape", "sub"]);
    let e = graph(&[&x, &s], |a| sum(per_channel(a[1]))).unwrap_err();
    assert!(e.message().contains("per_channel"), "{e}");
}

#[test]
fn let_bindings_name_values() {
    const LINE: u32 = line!() + 4;
    static SITE: Site = Site::new(meta(&["x"], &[Binding { name: "y", start: (LINE, 17), end: (LINE, 40) }]));
    let x = tensor(&[2, 2]);
    let body = |x: Expr| {
        let y = relu(x + 1.0) * 2.0;
        -y
    };
    let g = Call::new(&SITE).tensor(&x).trace(|i| body(i.tensor(0))).graph().unwrap();
    let names: Vec<_> = g.nodes().map(|(_, n)| g.value(n.output).name.as_deref()).collect();
    assert_eq!(names, [None, None, Some("y"), None]);
}

#[test]
fn all_mistakes_of_a_body_are_reported_once_each() {
    let (x, w) = (tensor(&[2, 3]), tensor(&[4, 5]));
    let e = graph(&[&x, &w], |a| relu(matmul(a[0], a[1])) + squeeze(a[0], 7)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Shape);
    assert_eq!(e.message().lines().count(), 2, "{e}");
    assert!(e.message().contains("trace.rs:"), "{e}");
    assert!(e.message().contains("`w` f32 [4, 5]"), "{e}");
}

#[test]
fn arguments_that_are_returned_are_copied_and_scalars_refused() {
    let x = tensor(&[2, 3]);
    let g = graph(&[&x], |a| transpose(a[0], 0, 1)).unwrap();
    assert_eq!(ops(&g), ["permute", "identity"]);
    let e = graph(&[&x], |_| Expr::from(2.0)).unwrap_err();
    assert!(e.message().contains("return a tensor"), "{e}");
}

#[test]
fn an_expression_of_another_call_is_refused() {
    let x = tensor(&[2, 3]);
    let mut kept = None;
    graph(&[&x], |a| {
        kept = Some(a[0]);
        relu(a[0])
    })
    .unwrap();
    let e = graph(&[&x], |a| a[0] + kept.unwrap()).unwrap_err();
    assert!(e.message().contains("kept from another call"), "{e}");
    let _ = relu(kept.unwrap()); // outside of a body: nothing happens
}

#[test]
fn equal_results_are_computed_once() {
    static SITE: Site = Site::new(meta(&["x"], &[]));
    let x = tensor(&[2, 2]);
    let call = Call::new(&SITE).tensor(&x).trace(|i| {
        let y = relu(i.tensor(0));
        (y, [y, -y])
    });
    let g = call.graph().unwrap();
    assert_eq!(g.outputs().len(), 2);
    assert!(matches!(g.node(g.producer(g.outputs()[1]).unwrap()).op, Op::Pointwise(..)));
}

#[test]
fn mistakes_in_norms_and_attention_are_said() {
    let (q, k) = (tensor(&[2, 4, 5, 8]), tensor(&[2, 3, 7, 8]));
    let wide = tensor(&[2, 4, 7, 16]);
    let gamma = tensor(&[5]);
    let said = |tensors: &[&Tensor], body: fn(&[Expr]) -> Expr| {
        let e = graph(tensors, body).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Shape | ErrorKind::Argument), "{e}");
        e.message().to_owned()
    };
    let heads = said(&[&q, &k], |a| sdpa(a[0], a[1], a[1]));
    assert!(heads.contains("the 4 query heads must be a multiple of the 3 heads of k"), "{heads}");
    let width = said(&[&q, &wide], |a| sdpa(a[0], a[1], a[1]));
    assert!(width.contains("q and k must be equally wide, and are 8 and 16"), "{width}");
    let rank = said(&[&gamma], |a| sdpa(a[0], a[0], a[0]));
    assert!(rank.contains("batch × heads × positions × width"), "{rank}");
    let both = said(&[&q], |a| sdpa_with(a[0], a[0], a[0], SdpaOptions::new().causal(true).right_window(2)));
    assert!(both.contains("causal = true"), "{both}");
    let scale = said(&[&q], |a| sdpa_with(a[0], a[0], a[0], SdpaOptions::new().scale(a[0])));
    assert!(scale.contains("scale and softcap are numbers or host scalars"), "{scale}");
    let bias = said(&[&q, &gamma], |a| sdpa_with(a[0], a[0], a[0], SdpaOptions::new().bias(per_channel(a[1]))));
    assert!(bias.contains("per_channel"), "{bias}");
    let list = said(&[&q, &gamma], |a| sdpa_with(a[0], a[0], a[0], SdpaOptions::new().sink(a[1])));
    assert!(list.contains("sink holds one f32 for each of the 4 query heads"), "{list}");
    let last = said(&[&q, &gamma], |a| layer_norm(a[0], a[1], a[1]));
    assert!(last.contains("gamma has the shape of the axes that are normalised"), "{last}");
    let epsilon = said(&[&q, &gamma], |a| rms_norm_with(a[0], a[1], RmsNormOptions::new().epsilon(a[1])));
    assert!(epsilon.contains("epsilon is a number"), "{epsilon}");
    let axis = said(&[&q], |a| softmax(a[0], 4));
    assert!(axis.contains("axis 4 is not an axis"), "{axis}");
}

#[test]
fn a_mistake_in_an_operation_with_several_results_is_said_once() {
    let q = tensor(&[2, 4, 5]);
    let e = graph(&[&q], |a| sdpa_stats(a[0], a[0], a[0]).max).unwrap_err();
    assert_eq!(e.message().lines().count(), 1, "{e}");
}
