//! Case 10: no name that a user gives a parameter, an item or a trait changes what the expansion means.

#![allow(clippy::unwrap_used)]
#![deny(warnings)]

use fused_graph::{Device, Tensor};

fn input() -> Tensor {
    Tensor::from_slice(&[1.0_f32, 2.0], [2], &Device::cpu()).unwrap()
}

/// Functions whose one tensor has the given name, among attributes and scalars that have the others.
macro_rules! doubled {
    ($($name:ident)*) => {$({
        #[fused_graph::fused_graph]
        fn doubled($name: &Tensor) -> Tensor {
            $name + $name
        }
        #[fused_graph::fused_graph]
        fn scaled(t: &Tensor, $name: f32) -> Tensor {
            t * $name
        }
        assert_eq!(doubled(&input()).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0], stringify!($name));
        assert_eq!(scaled(&input(), 3.0).unwrap().to_vec::<f32>().unwrap(), [3.0, 6.0], stringify!($name));
    })*};
}

#[test]
fn common_words_as_parameters() {
    doubled!(graph g handle h ctx context stream plan key cache ws workspace out output x y r result tensor uid dims i self_ r#type r#fn);
    doubled!(inputs call site expr doubled scaled f args launch run trace attr explain stats clear meta options binding fused_graph core std);
}

/// Everything the expansion could trip over, in scope at once.
#[allow(dead_code, non_snake_case, non_camel_case_types, unreachable_pub, unused_macros, clippy::all)]
mod shadowed {
    pub mod std {}
    pub mod core {}
    pub mod fused_graph {}
    pub mod conv2d {}
    pub mod sum {}
    pub struct Result;
    pub struct Option;
    pub struct Ok;
    pub struct Some;
    pub struct Site;
    pub struct Meta;
    pub struct Call;
    pub struct Expr;
    pub struct Options;
    pub type str = ();
    pub type u32 = ();
    macro_rules! module_path {
        () => {
            compile_error!("the user's macro")
        };
    }
    macro_rules! file {
        () => {
            compile_error!("the user's macro")
        };
    }
    macro_rules! vec {
        () => {
            compile_error!("the user's macro")
        };
    }

    pub trait Everything: Sized {
        fn build(self) {}
        fn clone(&self) {}
        fn run(self) {}
        fn plan(self) {}
        fn tensor(self, _: ()) {}
        fn trace(self, _: ()) {}
        fn bias(self, _: ()) {}
        fn axes(self, _: ()) {}
    }
    impl<T> Everything for T {}

    use ::fused_graph::ops::sum as total;
    #[::fused_graph::fused_graph(tf32 = false, workspace_limit = 1024, heuristics = [A, B])]
    pub fn plan(
        x: &::fused_graph::Tensor,
        b: ::core::option::Option<&::fused_graph::Tensor>,
        alpha: f32,
        s: &'static ::core::primitive::str,
    ) -> (::fused_graph::Tensor, ::fused_graph::Tensor) {
        let y = alpha * x + b.unwrap_or(x);
        let _ = (s, total(x));
        (y, ::fused_graph::ops::sum(y, axes = [0]))
    }
}

#[test]
fn shadowed_names() {
    let (y, s) = shadowed::plan(&input(), None, 2.0, "s").unwrap();
    assert_eq!((y.to_vec::<f32>().unwrap(), s.to_vec::<f32>().unwrap()), (vec![3.0, 6.0], vec![9.0]));
    assert_eq!(shadowed::plan::graph(&input(), None, 2.0, "s").unwrap().name(), "plan");
}

/// A user's file `sum.rs` must not get in the way of the operation `sum`.
mod beside_modules {
    use fused_graph::prelude::*;
    pub(super) mod sum {}

    #[fused_graph]
    pub(super) fn total(x: &Tensor) -> Tensor {
        sum(x, axes = [0])
    }
}

#[test]
fn a_module_named_like_an_operation() {
    assert_eq!(beside_modules::total(&input()).unwrap().to_vec::<f32>().unwrap(), [3.0]);
}

#[allow(unreachable_pub)]
mod without_prelude {
    #![no_implicit_prelude]
    #[::fused_graph::fused_graph]
    pub fn bare(x: &::fused_graph::Tensor, keep: bool) -> ::fused_graph::Tensor {
        let y = ::fused_graph::ops::mean(x, keepdim = keep);
        y + 0.0
    }
}

#[test]
fn no_implicit_prelude() {
    assert_eq!(without_prelude::bare(&input(), true).unwrap().to_vec::<f32>().unwrap(), [1.5]);
}
