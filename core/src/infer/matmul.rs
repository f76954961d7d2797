//! Matrix product.

use super::{Inferred, core_dtype};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::layout::{self, Dims};

pub(super) fn infer([a, b]: [&Value; 2]) -> Result<Inferred> {
    let dtype = core_dtype(a, b)?;
    if a.dims.len() < 2 || b.dims.len() < 2 {
        return Err(Error::shape(format!(
            "operands must be matrices or batches of them (rank 2 or more), not {} and {}; `unsqueeze` a vector",
            a.dims, b.dims
        )));
    }
    if a.dims.contains(&0) || b.dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    let split = |v: &Value| {
        let n = v.dims.len() - 2;
        (Dims::collect(v.dims[..n].iter().copied()), v.dims[n], v.dims[n + 1])
    };
    let ((batch_a, m, k), (batch_b, k2, n)) = (split(a), split(b));
    if k != k2 {
        let hint =
            if b.dims[b.dims.len() - 1] == k { "; the second looks transposed: `transpose_b = true`" } else { "" };
        return Err(Error::shape(format!("inner extents differ: {m}×{k} by {k2}×{n}{hint}")));
    }
    let batch = layout::broadcast(&batch_a, &batch_b)
        .ok_or_else(|| Error::shape(format!("batch dimensions {batch_a} and {batch_b} do not broadcast")))?;
    let dims = Dims::collect(batch.iter().copied().chain([m, n]));
    Ok(Inferred { dtype, dims, strides: dims.contiguous_strides() })
}
