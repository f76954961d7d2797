//! Case 9: what the user put on a function is on the generated one, and the expansion is silent under the strictest lints.

#![deny(warnings, clippy::all, clippy::pedantic)]
#![deny(
    missing_docs,
    unused,
    nonstandard_style,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications,
    unnameable_types
)]
#![forbid(unsafe_code, missing_docs, non_camel_case_types, unused_imports, unused_lifetimes)]
#![allow(clippy::unwrap_used)]
// Operations imported by name: a call with named options counts as a use.
use fused_graph::ops::{conv2d, matmul, relu, sum};
use fused_graph::{Attr, Device, Element, Tensor, f16, fused_graph};
use std::marker::PhantomData;

/// An attribute with variants of every kind.
#[derive(Attr, Clone, Copy)]
pub enum Mode {
    /// Off.
    Off,
    /// With a slope and a flag.
    Slope(u8, bool),
    /// Named.
    Named {
        /// The name.
        name: &'static str,
    },
}

/// Names as in a paper; what is allowed on the function holds for its companions.
#[fused_graph]
#[allow(non_snake_case)]
pub fn PaperNames(X: &Tensor, W: Option<&Tensor>) -> Tensor {
    W.map_or(X * 2.0, |W| matmul(X, W))
}

/// Documented, inlined, cold, must be used; lifetimes with bounds, type and const parameters, a where clause.
#[must_use]
#[inline]
#[cold]
#[fused_graph]
#[track_caller]
#[expect(clippy::needless_lifetimes)]
pub fn everything<'a, 'b: 'a, T, const R: bool>(
    x: &'a Tensor,
    w: &'b Tensor,
    #[allow(unused_mut)] mut b: Option<&Tensor>,
    alpha: f32,
    mode: Mode,
    _ignored: u8,
    _: &'static str,
) -> (Tensor, [Tensor; 2])
where
    T: Element + 'a,
{
    #![allow(unused_assignments)]
    if matches!(mode, Mode::Off) {
        b = None;
    }
    let y = conv2d(x, w, bias = b, padding = 1);
    let y = if R { relu(y) } else { y };
    (alpha * y, [y, sum(y, axes = [1])])
}

/// Replaced.
#[fused_graph(deterministic, tf32 = false)]
#[deprecated(note = "use another")]
#[doc(hidden)]
pub fn old(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph]
fn through_its_companion_only(x: &Tensor) -> Tensor {
    matmul(x, x, transpose_b = true)
}

// Vanishes completely, wherever the condition stands.
#[fused_graph]
#[cfg(any())]
/// Never there.
pub fn absent(x: &Tensor) -> Missing {}

#[cfg(any())]
#[fused_graph]
/// Never there.
pub fn absent(x: &Tensor) -> Missing {}

mod scoped {
    /// Visible in the crate.
    #[super::fused_graph]
    #[cfg_attr(all(), allow(non_snake_case))]
    pub(crate) fn Scoped(x: &super::Tensor) -> super::Tensor {
        super::relu(x)
    }
}

fn input() -> Tensor {
    Tensor::from_slice(&[-1.0_f32, 2.0, 3.0, -4.0], [1, 1, 2, 2], &Device::cpu()).unwrap()
}

#[test]
fn generic_function_with_everything() {
    let (x, w) = (input(), Tensor::from_slice(&[1.0_f32; 9], [1, 1, 3, 3], &Device::cpu()).unwrap());
    let graph =
        |mode| everything::graph::<f16, true>(&x, &w, Some(&x), 2.0, mode, 0, "").map(|graph| graph.nodes().len());
    assert_eq!(graph(Mode::Off).unwrap(), 4, "conv, relu, mul, sum");
    assert_eq!(graph(Mode::Slope(1, true)).unwrap(), 5, "the bias too");
    let (first, [second, third]) =
        everything::<f16, true>(&x, &w, None, 2.0, Mode::Named { name: "n" }, 0, "").unwrap();
    assert_eq!(second.to_vec::<f32>().unwrap(), [0.0; 4], "every window of a 2×2 image holds all of it");
    assert_eq!((first.dims().len(), third.dims().len()), (4, 3));
}

#[test]
fn an_attribute_is_part_of_the_key() {
    #[fused_graph]
    fn keyed(x: &Tensor, _mode: Mode) -> Tensor {
        relu(x)
    }
    let x = input();
    let all = [
        Mode::Off,
        Mode::Slope(1, true),
        Mode::Slope(1, false),
        Mode::Slope(0, true),
        Mode::Named { name: "a" },
        Mode::Named { name: "b" },
    ];
    for mode in all.into_iter().chain(all) {
        keyed(&x, mode).unwrap();
    }
    assert_eq!(keyed::stats().plans_built, 6);
    keyed::clear();
    assert_eq!(keyed::stats().plans_in_memory, 0);
}

/// A type as a value, and floats within an attribute.
#[derive(Attr, Clone)]
pub struct Typed<T> {
    element: PhantomData<T>,
    slope: f32,
    clip: Option<f64>,
    weights: [f32; 2],
    more: Vec<f64>,
}

#[test]
fn markers_and_floats_are_fields_of_an_attribute() {
    #[fused_graph]
    fn keyed<T: Element>(x: &Tensor, typed: Typed<T>) -> Tensor {
        let Typed { slope, clip, weights, more, .. } = typed;
        let y = x * slope + clip.unwrap_or(0.0) + weights[1] + more[0] - 0.5;
        fused_graph::ops::cast(y, T::DTYPE)
    }
    fn typed<T>() -> Typed<T> {
        Typed { element: PhantomData, slope: 2.0, clip: None, weights: [0.0, 1.0], more: vec![0.5] }
    }
    let x = input();
    let half = [
        typed(),
        Typed { slope: 2.0_f32.next_up(), ..typed() },
        Typed { clip: Some(0.0), ..typed() },
        Typed { clip: Some(-0.0), ..typed() },
        Typed { weights: [-0.0, 1.0], ..typed() },
        Typed { more: vec![0.5, 0.5], ..typed() },
    ];
    for value in half.iter().chain(&half) {
        keyed::<f16>(&x, value.clone()).unwrap();
    }
    assert_eq!(keyed::stats().plans_built, 6);
    let y = keyed::<f32>(&x, typed()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [-1.0, 5.0, 7.0, -7.0]);
    assert_eq!(keyed::stats().plans_built, 7);
}

#[test]
fn deprecation_is_the_callers_to_see() {
    #[allow(deprecated)]
    let y = old(&input()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 2.0, 3.0, 0.0]);
}

#[test]
fn companions_stand_alone() {
    let y = through_its_companion_only::graph(&input()).unwrap();
    assert_eq!(y.name(), "through_its_companion_only");
    assert!(scoped::Scoped::plan(&input()).unwrap().kernels() >= 1);
    assert!(scoped::Scoped::explain(&input()).unwrap().to_string().contains("Scoped"));
}
