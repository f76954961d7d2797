//! Case 7: broadcasting in epilogues, with the repeated operand on either side.

use super::{close, product, tensor, values};
use fused_graph::prelude::*;

#[fused_graph]
fn added(a: &Tensor, b: &Tensor, bias: &Tensor) -> (Tensor, Tensor) {
    let y = matmul(a, b);
    (y + bias, bias - y)
}

#[fused_graph]
fn plus(a: &Tensor, b: &Tensor) -> Tensor {
    a + b
}

/// All 2³ shapes of a bias over a (2, 64, 128) product, first and second.
pub fn case_7_epilogues(dev: &Device) {
    let (bt, m, k, n) = (2usize, 64usize, 16usize, 128usize);
    let a = Tensor::randn([bt, m, k], DType::F16, dev).unwrap();
    let b = Tensor::randn([bt, k, n], DType::F16, dev).unwrap();
    let y = product(&values(&a), &values(&b), bt, m, k, n);
    for full in 0..8 {
        let dims = [[1, bt], [1, m], [1, n]].iter().enumerate().map(|(i, d)| d[(full >> i) & 1]).collect::<Vec<_>>();
        let bias = Tensor::randn(dims.as_slice(), DType::F16, dev).unwrap();
        let wide = values(&bias.expand([bt, m, n]).unwrap());
        let (sum, difference) = added(&a, &b, &bias).unwrap();
        close(&sum, &y.iter().zip(&wide).map(|(y, b)| y + b).collect::<Vec<_>>());
        close(&difference, &y.iter().zip(&wide).map(|(y, b)| b - y).collect::<Vec<_>>());
    }
    // Rank 0 and rank 1.
    for bias in [Tensor::full((), 2.5, DType::F16, dev).unwrap(), Tensor::randn([n], DType::F16, dev).unwrap()] {
        let wide = values(&bias.expand([bt, m, n]).unwrap());
        let (sum, _) = added(&a, &b, &bias).unwrap();
        close(&sum, &y.iter().zip(&wide).map(|(y, b)| y + b).collect::<Vec<_>>());
    }
}

/// One side of a batched product without a batch, and the reverse.
pub fn case_7_batches(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    let (bt, m, k, n) = (32usize, 8usize, 24usize, 16usize);
    let one = Tensor::randn([1, m, k], DType::F16, dev).unwrap();
    let many = Tensor::randn([bt, k, n], DType::F16, dev).unwrap();
    let wide = one.expand([bt, m, k]).unwrap();
    let want = product(&values(&wide), &values(&many), bt, m, k, n);
    close(&mm(&one, &many).unwrap(), &want);
    close(&mm(&wide, &many).unwrap(), &want); // the same with a batch stride of 0
    let (flipped, single) = (many.transpose(1, 2).unwrap(), one.transpose(1, 2).unwrap());
    let want = product(&values(&flipped), &values(&single.expand([bt, k, m]).unwrap()), bt, n, k, m);
    close(&mm(&flipped, &single).unwrap(), &want);
    close(&mm(&flipped, &single.reshape([k, m]).unwrap()).unwrap(), &want); // rank 3 by rank 2
}

/// The small sums of the reports.
pub fn case_7_by_hand(dev: &Device) {
    let t = |data: &[f32], dims: &[i64]| tensor(data, dims, DType::F32, dev);
    let sum = plus(&t(&[1., 2., 3., 4.], &[1, 2, 2]), &t(&[10., 20.], &[1, 2, 1])).unwrap();
    assert_eq!(values(&sum), [11., 12., 23., 24.]);
    let sum = plus(&t(&[0.; 80], &[10, 8]), &t(&[1.; 16], &[2, 1, 8])).unwrap();
    assert_eq!(&**sum.dims(), [2, 10, 8]);
    assert_eq!(values(&sum), [1.; 160]);
    let left: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    let sum = plus(&t(&left, &[1, 32, 32]), &t(&[1.; 32768], &[32, 32, 32])).unwrap();
    assert!(values(&sum).iter().enumerate().all(|(i, v)| *v == (i % 1024) as f64 + 1.0));
    let error = plus(&t(&[0.; 6], &[2, 3]), &t(&[0.; 8], &[2, 4])).unwrap_err();
    assert_eq!(error.kind(), fused_graph::ErrorKind::Shape);
}
