//! What a body gives and what its function gives.

use crate::backend::Results;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::trace::Expr;

/// The results of a body: an [`Expr`], or tuples and arrays of them. The function gives [`Tensor`]s in the same form.
#[diagnostic::on_unimplemented(
    message = "a `#[fused_graph]` function returns `Tensor`, or tuples and arrays of it, not `{Self}`"
)]
pub trait Returns: Sized {
    /// The same form with tensors.
    type Tensors;
    /// Lists the expressions, first to last.
    fn exprs(&self, out: &mut Vec<Expr>);
    /// Takes as many tensors as there are expressions.
    fn tensors(from: &mut smallvec::IntoIter<[Tensor; 2]>) -> Result<Self::Tensors>;
}

impl Returns for Expr {
    type Tensors = Tensor;

    fn exprs(&self, out: &mut Vec<Expr>) {
        out.push(*self);
    }

    #[inline]
    fn tensors(from: &mut smallvec::IntoIter<[Tensor; 2]>) -> Result<Tensor> {
        from.next()
            .ok_or_else(|| Error::argument("the number of results depends on something that is not part of the key"))
    }
}

impl<R: Returns, const N: usize> Returns for [R; N] {
    type Tensors = [R::Tensors; N];

    fn exprs(&self, out: &mut Vec<Expr>) {
        self.iter().for_each(|r| r.exprs(out));
    }

    fn tensors(from: &mut smallvec::IntoIter<[Tensor; 2]>) -> Result<Self::Tensors> {
        let list = (0..N).map(|_| R::tensors(from)).collect::<Result<Vec<_>>>()?;
        list.try_into().map_err(|_| Error::argument("wrong number of results"))
    }
}

/// As many results as the body makes. Not for annotated functions, whose signature says how many there are.
impl<R: Returns> Returns for Vec<R> {
    type Tensors = Vec<R::Tensors>;

    fn exprs(&self, out: &mut Vec<Expr>) {
        self.iter().for_each(|r| r.exprs(out));
    }

    fn tensors(from: &mut smallvec::IntoIter<[Tensor; 2]>) -> Result<Self::Tensors> {
        let mut list = Vec::new();
        while from.len() > 0 {
            list.push(R::tensors(from)?);
        }
        Ok(list)
    }
}

macro_rules! tuples {
    ($(($($t:ident)+))*) => {$(
        impl<$($t: Returns),+> Returns for ($($t,)+) {
            type Tensors = ($($t::Tensors,)+);

            #[allow(non_snake_case)]
            fn exprs(&self, out: &mut Vec<Expr>) {
                let ($($t,)+) = self;
                $($t.exprs(out);)+
            }

            #[inline]
            fn tensors(from: &mut smallvec::IntoIter<[Tensor; 2]>) -> Result<Self::Tensors> {
                Ok(($($t::tensors(from)?,)+))
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// How tensors become what a function gives.
pub(super) type Collect<T> = fn(&mut smallvec::IntoIter<[Tensor; 2]>) -> Result<T>;

/// Results in the order of the function, of which some may be the same value.
pub(super) fn in_order(results: Results, order: &[usize]) -> Results {
    if order.iter().copied().eq(0..results.len()) {
        return results;
    }
    order.iter().filter_map(|&i| results.get(i).cloned()).collect()
}
