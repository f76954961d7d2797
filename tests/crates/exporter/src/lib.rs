//! Case 43: a library that re-exports the framework and wraps it in macros of its own.

#![deny(warnings)]

pub mod deep {
    pub use fused_graph as fg;
}

/// An annotated function and an attribute type, for a crate that does not depend on the framework.
#[macro_export]
macro_rules! layer {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($x:ident: &Tensor, $($p:ident: $t:ty),*) -> Tensor $body:block) => {
        $(#[$meta])*
        #[$crate::deep::fg::fused_graph(crate = $crate::deep::fg, deterministic)]
        $vis fn $name($x: &$crate::deep::fg::Tensor, $($p: $t),*) -> $crate::deep::fg::Tensor $body
    };
    ($vis:vis enum $name:ident { $($variant:ident),* $(,)? }) => {
        #[derive(Clone, Copy, $crate::deep::fg::Attr)]
        #[attr(crate = $crate::deep::fg)]
        $vis enum $name { $($variant),* }
    };
}

/// A function of this crate whose body is in the macro.
#[macro_export]
macro_rules! pooled {
    ($name:ident) => {
        #[$crate::deep::fg::fused_graph(crate = $crate::deep::fg)]
        fn $name(x: &$crate::deep::fg::Tensor) -> $crate::deep::fg::Tensor {
            use $crate::deep::fg::ops::{self, max};
            let y = max(ops::relu(x), axes = [0], keepdim = true);
            $crate::deep::fg::ops::sum(y, axes = [0])
        }
    };
}

pooled!(here);

#[test]
fn in_the_crate_of_the_macro() {
    use fused_graph::{Device, Tensor};
    let x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0], [3], &Device::cpu()).unwrap();
    assert_eq!(here::graph(&x).unwrap().nodes().len(), 3);
    assert_eq!(here(&x).unwrap().to_vec::<f32>().unwrap(), [3.0]);
}
