//! Numbers of a size that nobody means: an error or the right values, never a panic, a hang or a request for all memory.
#![allow(clippy::unwrap_used)]

use fused_graph::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const DEV: Device = Device::CPU;

fn numbers(dims: &[i64]) -> Tensor {
    let n = dims.iter().product::<i64>();
    let values: Vec<f32> = (0..n).map(|i| (i % 7) as f32 - 3.0).collect();
    Tensor::from_vec(values, dims, &DEV).unwrap()
}

/// A slice that takes one element may have a step of any size.
#[test]
fn steps_of_slices() {
    #[fused_graph]
    fn every(x: &Tensor, start: i64, step: i64) -> Tensor {
        slice(x, axis = 0, start = start, step = step) + 0.0
    }
    let x = numbers(&[4, 6]);
    for (start, step) in [(0, i64::MAX), (3, i64::MAX / 2), (2, 2), (0, 1 << 62)] {
        let y = every(&x, start, step).unwrap();
        assert_eq!(**y.dims(), [1, 6]);
        let row = x.narrow(0, start as usize, 1).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), row.to_vec::<f32>().unwrap());
    }
}

/// Padding that no memory holds, with a stride that leaves a small result: only the middle element sees the data.
#[test]
fn padding_of_convolutions() {
    #[fused_graph]
    fn padded(x: &Tensor, w: &Tensor, padding: i64, stride: i64) -> Tensor {
        conv2d(x, w, padding = padding, stride = stride)
    }
    for channels in [4, 64] {
        let (x, w) = (numbers(&[1, channels, 5, 5]), numbers(&[4, channels, 3, 3]));
        let middle = padded(&x, &w, 0, 5).unwrap().to_vec::<f32>().unwrap();
        for padding in [1_i64 << 24, 1 << 40, 1 << 61] {
            let y = padded(&x, &w, padding, padding).unwrap();
            assert_eq!(**y.dims(), [1, 4, 3, 3], "padding {padding}");
            for (channel, found) in y.to_vec::<f32>().unwrap().chunks(9).enumerate() {
                let want: Vec<f32> = (0..9).map(|at| if at == 4 { middle[channel] } else { 0.0 }).collect();
                assert_eq!(found, want, "padding {padding}, channel {channel}");
            }
        }
    }
}

#[test]
fn what_is_refused_is_named_as_it_was_given() {
    #[fused_graph]
    fn expanded(x: &Tensor, a: i64, b: i64) -> Tensor {
        expand(x, [a, b]) + 1.0
    }
    #[fused_graph]
    fn indices(x: &Tensor, axis: i64) -> Tensor {
        gen_index(x, axis)
    }
    let x = numbers(&[1, 1]);
    let text = expanded(&x, -1, 4).unwrap_err().to_string();
    assert!(text.contains("[-1, 4] has a negative extent"), "{text}");
    let text = indices(&x, -3).unwrap_err().to_string();
    assert!(text.contains("axis -3 is not an axis"), "{text}");
    assert!(indices(&x, i64::MIN).is_err() && indices(&x, -2).is_ok());
}

/// A body that calls its own function on tensors like those it was called with would wait for itself.
#[test]
fn a_body_that_calls_itself() {
    static DEPTH: AtomicU32 = AtomicU32::new(0);
    #[fused_graph]
    fn again(x: &Tensor) -> Tensor {
        if DEPTH.fetch_add(1, Ordering::Relaxed) == 0 {
            let text = again(&numbers(&[2])).unwrap_err().to_string();
            assert!(text.contains("`again` calls itself with the same signature"), "{text}");
            // With another one that is a plan of its own.
            assert!(again(&numbers(&[3])).is_ok());
        }
        x + 1.0
    }
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || {
        let y = again(&numbers(&[2])).unwrap().to_vec::<f32>().unwrap();
        done.send((y, again(&numbers(&[2])).is_ok())).unwrap();
    });
    assert_eq!(end.recv_timeout(Duration::from_secs(30)).unwrap(), (vec![-2.0, -1.0], true));
}
