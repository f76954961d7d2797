//! Static parameters: values that decide what a function computes and are therefore part of its key.

use super::KeyWriter;
use crate::dtype::DType;
use std::marker::PhantomData;

/// A type whose values can be static parameters of an annotated function: each value has plans of its own. Derivable.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a static parameter of a `#[fused_graph]` function",
    label = "neither a tensor, nor a host scalar written `f32` or `f64`, nor an `Attr`",
    note = "tensors are `&Tensor` or `Option<&Tensor>`; for your own types use `#[derive(Attr)]`",
    note = "a host scalar is a parameter of its own, written `f32` or `f64` and not under another name"
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

/// Writes nothing: the types of a function's instance are part of its key already.
impl<T: ?Sized> Attr for PhantomData<T> {
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

/// What a field of a derived attribute may be: an attribute, or floats. These are no attributes themselves, since a parameter that is a float is
/// a host scalar: an alias of `f32` must not quietly become part of the key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a type that derives `Attr`",
    label = "neither an attribute nor floats",
    note = "fields are `Attr` themselves, or `f32` and `f64`, alone or in an `Option`, an array or a `Vec`"
)]
pub trait Field {
    /// Writes the value so that two values that differ write differently.
    fn encode_field(&self, key: &mut KeyWriter<'_>);
}

impl<T: Attr + ?Sized> Field for T {
    fn encode_field(&self, key: &mut KeyWriter<'_>) {
        self.encode(key);
    }
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        /// By bits: baked into the plan, so two that differ in the last one are two plans.
        impl Field for $t {
            fn encode_field(&self, key: &mut KeyWriter<'_>) { key.word(u64::from(self.to_bits())); }
        }

        impl Field for Option<$t> {
            fn encode_field(&self, key: &mut KeyWriter<'_>) { self.map(<$t>::to_bits).encode(key); }
        }

        impl<const N: usize> Field for [$t; N] {
            fn encode_field(&self, key: &mut KeyWriter<'_>) { self.map(<$t>::to_bits).encode(key); }
        }

        impl Field for Vec<$t> {
            fn encode_field(&self, key: &mut KeyWriter<'_>) {
                self.iter().map(|v| v.to_bits()).collect::<Vec<_>>().encode(key);
            }
        }
    )*};
}
floats!(f32, f64);
