//! Static parameters: values that decide what a function computes and are therefore part of its key.

use super::KeyWriter;
use crate::dtype::DType;

/// A type whose values can be static parameters of an annotated function: each value has plans of its own. Derivable.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a `#[fused_graph]` function",
    label = "not a tensor, a host scalar (f32, f64) or a static attribute",
    note = "tensors are `&Tensor` or `Option<&Tensor>`; for your own types use `#[derive(Attr)]`"
)]
pub trait Attr {
    /// Writes the value so that two values that differ write differently.
    fn encode(&self, key: &mut KeyWriter<'_>);
}

macro_rules! words {
    ($($t:ty),*) => {$(
        impl Attr for $t {
            #[inline]
            fn encode(&self, key: &mut KeyWriter<'_>) { key.word(*self as u64); }
        }
    )*};
}
words!(bool, char, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Attr for u128 {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(*self as u64);
        key.word((*self >> 64) as u64);
    }
}

impl Attr for i128 {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        (*self as u128).encode(key);
    }
}

/// By bits: a float inside an attribute is baked into the plan, so two that differ in the last bit are two plans.
impl Attr for f32 {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(self.to_bits() as u64);
    }
}

/// By bits, as for `f32`.
impl Attr for f64 {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(self.to_bits());
    }
}

impl Attr for str {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.bytes(self.as_bytes());
    }
}

impl Attr for String {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        self.as_str().encode(key);
    }
}

impl Attr for DType {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(*self as u64);
    }
}

impl Attr for () {
    fn encode(&self, _: &mut KeyWriter<'_>) {}
}

impl<T: Attr + ?Sized> Attr for &T {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        (**self).encode(key);
    }
}

impl<T: Attr> Attr for Option<T> {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(self.is_some() as u64);
        if let Some(v) = self {
            v.encode(key);
        }
    }
}

impl<T: Attr> Attr for [T] {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        key.word(self.len() as u64);
        for v in self {
            v.encode(key);
        }
    }
}

impl<T: Attr, const N: usize> Attr for [T; N] {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        self.as_slice().encode(key);
    }
}

impl<T: Attr> Attr for Vec<T> {
    fn encode(&self, key: &mut KeyWriter<'_>) {
        self.as_slice().encode(key);
    }
}

macro_rules! tuples {
    ($(($($t:ident)+))*) => {$(
        impl<$($t: Attr),+> Attr for ($($t,)+) {
            #[allow(non_snake_case)]
            fn encode(&self, key: &mut KeyWriter<'_>) {
                let ($($t,)+) = self;
                $($t.encode(key);)+
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
