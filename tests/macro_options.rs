//! Every named option of every operation, as the macro knows them, is one of the library, and does what its name says.

#![allow(clippy::unwrap_used)]

use fused_graph::prelude::*;

fn zeros<const N: usize>(dims: [i64; N]) -> Tensor {
    Tensor::zeros(dims, DType::F32, &Device::cpu()).unwrap()
}

fn result(graph: &fused_graph::Graph) -> Vec<i64> {
    graph.value(graph.outputs()[0]).dims.to_vec()
}

macro_rules! convolutions {
    ($($test:ident = $name:ident: $x:expr, $w:expr => $y:expr;)*) => {$(
        #[test]
        fn $test() {
            #[fused_graph]
            fn all(x: &Tensor, w: &Tensor, c: &Tensor, r: Option<&Tensor>) -> Tensor {
                $name(x, w, bias = c, scale = c, residual = r, padding = 2, stride = 2, dilation = 2, groups = 2)
            }
            let y = zeros($y);
            let graph = all::graph(&zeros($x), &zeros($w), &zeros([6]), Some(&y)).unwrap();
            assert_eq!(result(&graph), $y);
            assert!(all::graph(&zeros($x), &zeros($w), &zeros([6]), None).unwrap().nodes().len() < graph.nodes().len());
        }
    )*};
}

convolutions! {
    convolution_1d = conv1d: [1, 4, 9], [6, 2, 3] => [1, 6, 5];
    convolution_2d = conv2d: [1, 4, 9, 7], [6, 2, 3, 3] => [1, 6, 5, 4];
    convolution_3d = conv3d: [1, 4, 9, 7, 5], [6, 2, 3, 3, 3] => [1, 6, 5, 4, 3];
}

#[test]
fn per_axis_forms() {
    #[fused_graph]
    fn forms(x: &Tensor, w: &Tensor) -> (Tensor, Tensor, Tensor) {
        (
            conv2d(x, w, padding = [1, 0], stride = [2, 1]),
            conv2d(x, w, padding = [(0, 1), (2, 2)]),
            conv2d(x, w, padding = "same"),
        )
    }
    let graph = forms::graph(&zeros([1, 1, 8, 8]), &zeros([1, 1, 3, 3])).unwrap();
    let dims: Vec<Vec<i64>> = graph.outputs().iter().map(|&id| graph.value(id).dims.to_vec()).collect();
    assert_eq!(dims, [[1, 1, 4, 6], [1, 1, 7, 10], [1, 1, 8, 8]]);
}

#[test]
fn matmul_options() {
    #[fused_graph]
    fn both(a: &Tensor, b: &Tensor, bias: &Tensor) -> Tensor {
        matmul(a, b, transpose_a = true, transpose_b = true, bias = bias)
    }
    assert_eq!(result(&both::graph(&zeros([2, 3]), &zeros([5, 2]), &zeros([5])).unwrap()), [3, 5]);
}

#[test]
fn activations() {
    #[fused_graph]
    fn all(x: &Tensor) -> [Tensor; 6] {
        [
            leaky_relu(x, slope = 0.5),
            clipped_relu(x, lower = -1.0, upper = 2),
            elu(x, alpha = 2.0),
            swish(x, beta = 0.0),
            softplus(x, beta = 100.0),
            gelu(x, approximate = "tanh"),
        ]
    }
    let x = Tensor::from_slice(&[-4.0_f32, 4.0], [2], &Device::cpu()).unwrap();
    let y = all(&x).unwrap().map(|y| y.to_vec::<f32>().unwrap());
    assert_eq!((&y[0], &y[1], &y[3]), (&vec![-2.0, 4.0], &vec![-1.0, 2.0], &vec![-2.0, 2.0]));
    let close =
        |got: &[f32], want: [f64; 2]| got.iter().zip(want).all(|(&got, want)| (f64::from(got) - want).abs() < 1e-3);
    assert!(close(&y[2], [2.0 * ((-4.0_f64).exp() - 1.0), 4.0]), "{:?}", y[2]);
    assert!(close(&y[4], [0.0, 4.0]), "{:?}", y[4]);
    assert!(close(&y[5], [-0.0001, 4.0]), "{:?}", y[5]);
}

macro_rules! reductions {
    ($($test:ident = $name:ident;)*) => {$(
        #[test]
        fn $test() {
            #[fused_graph]
            fn kept(x: &Tensor) -> Tensor {
                $name(x, axes = [0, -1], keepdim = true)
            }
            #[fused_graph]
            fn one(x: &Tensor) -> Tensor {
                $name(x, axes = 1)
            }
            let x = zeros([2, 3, 4]);
            assert_eq!(result(&kept::graph(&x).unwrap()), [1, 3, 1]);
            assert_eq!(result(&one::graph(&x).unwrap()), [2, 4]);
        }
    )*};
}

reductions! {
    sums = sum;
    means = mean;
    maxima = max;
    minima = min;
    products = prod;
    largest_magnitudes = amax;
    sums_of_magnitudes = norm1;
    euclidean_norms = norm2;
}

#[test]
fn slices() {
    #[fused_graph]
    fn part(x: &Tensor) -> Tensor {
        slice(x, axis = 1, start = 1, end = -1, step = 2) + 0.0
    }
    let x = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [1, 6], &Device::cpu()).unwrap();
    assert_eq!(part(&x).unwrap().to_vec::<f32>().unwrap(), [1.0, 3.0]);
}
