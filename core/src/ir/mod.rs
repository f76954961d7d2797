//! The graph: values, the operations that produce them, and their text form.

mod attention;
mod attrs;
mod graph;
mod norm;
mod op;
mod pointwise;
mod pool;
mod text;

pub use attention::{SdpaAttrs, SdpaOperand, SdpaPart};
pub use attrs::{ConvAttrs, ReduceAttrs, ReduceMode, ViewOp};
pub use graph::{Graph, Node, NodeId, ScalarType, SourceLoc, Value, ValueId, ValueKind};
pub use norm::{NormAttrs, NormMode, NormPart, SoftmaxAttrs};
pub use op::Op;
pub use pointwise::{Arity, Params, PointwiseClass, PointwiseInfo, PointwiseMode};
pub use pool::{PoolAttrs, PoolMode, PoolPart};
