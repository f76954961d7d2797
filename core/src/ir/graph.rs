//! The graph itself: an arena of values and of nodes in the order in which they were written, which is a topological one.

use super::Op;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{self, Dims};
use smallvec::SmallVec;
use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);
        impl $name {
            /// The handle of the entry at `index`.
            pub fn from_index(index: usize) -> Self { $name(index as u32) }
            /// The index of the entry.
            pub fn index(self) -> usize { self.0 as usize }
        }
    };
}

handle! {
    /// A value of a [`Graph`].
    ValueId
}
handle! {
    /// A node of a [`Graph`].
    NodeId
}

/// Where in the user's source an operation was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLoc {
    /// File as `file!()` gives it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl SourceLoc {
    /// For graphs that do not come from source code.
    pub const NONE: SourceLoc = SourceLoc { file: "", line: 0, column: 0 };
}

impl From<&'static std::panic::Location<'static>> for SourceLoc {
    fn from(l: &'static std::panic::Location<'static>) -> Self {
        SourceLoc { file: l.file(), line: l.line(), column: l.column() }
    }
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The type of a host scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// The `index`-th tensor of the call. Only tensors that are present are counted.
    Input {
        /// Position among the tensors of the call.
        index: usize,
    },
    /// The `index`-th host scalar of the call, passed by value at launch.
    Scalar {
        /// Position among the scalars of the call.
        index: usize,
        /// Its type in the signature.
        ty: ScalarType,
    },
    /// A number written in the function. It takes the type of what it meets.
    Const(f64),
    /// The result of a node.
    Node(NodeId),
}

/// A value: an input or the result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The user's name for it: parameter or `let` binding.
    pub name: Option<String>,
    /// Where it comes from.
    pub kind: ValueKind,
    /// The element type it has when it lies in memory. Between two operations of one kernel it is held in
    /// [`DType::compute`] of this, unrounded, except after a cast and as the operand of a core operation.
    pub dtype: DType,
    /// Its dims.
    pub dims: Dims,
    /// Its strides when it lies in memory: those of the argument for an input, dense ones chosen by inference for a result, and for a
    /// view those that it has over its operand (which may be 0 where it repeats).
    pub strides: Dims,
}

impl Value {
    /// Whether this is a host scalar or a literal.
    pub fn is_scalar(&self) -> bool {
        matches!(self.kind, ValueKind::Scalar { .. } | ValueKind::Const(_))
    }
}

/// An operation with its operands and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it computes.
    pub op: Op,
    /// Its operands, in the order in which the operation names them.
    pub inputs: SmallVec<[ValueId; 3]>,
    /// Its result.
    pub output: ValueId,
    /// Where it was written.
    pub loc: SourceLoc,
}

/// A traced function: values, nodes and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    outputs: Vec<ValueId>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Graph { name: name.into(), ..Default::default() }
    }

    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a tensor argument.
    pub fn add_input(&mut self, name: &str, dtype: DType, dims: Dims, strides: Dims) -> ValueId {
        let index = self.inputs().count();
        self.push_value(Value { name: Some(name.to_owned()), kind: ValueKind::Input { index }, dtype, dims, strides })
    }

    /// Adds a host scalar.
    pub fn add_scalar(&mut self, name: &str, ty: ScalarType) -> ValueId {
        let index = self.scalars().count();
        let dtype = match ty {
            ScalarType::F32 => DType::F32,
            ScalarType::F64 => DType::F64,
        };
        self.push_value(Value {
            name: Some(name.to_owned()),
            kind: ValueKind::Scalar { index, ty },
            dtype,
            dims: Dims::EMPTY,
            strides: Dims::EMPTY,
        })
    }

    /// Adds a literal.
    pub fn add_const(&mut self, value: f64) -> ValueId {
        self.push_value(Value {
            name: None,
            kind: ValueKind::Const(value),
            dtype: DType::F32,
            dims: Dims::EMPTY,
            strides: Dims::EMPTY,
        })
    }

    /// Adds an operation, after inferring its result. The error names the operation, its operands and where it was written.
    pub fn add_node(&mut self, op: Op, inputs: &[ValueId], loc: SourceLoc) -> Result<ValueId> {
        let result = {
            let operands: SmallVec<[&Value; 3]> = inputs.iter().map(|&v| self.value(v)).collect();
            crate::infer::infer(&op, &operands)
        }
        .map_err(|e| self.locate(e, &op, inputs, loc))?;
        let output = self.push_value(Value {
            name: None,
            kind: ValueKind::Node(NodeId::from_index(self.nodes.len())),
            dtype: result.dtype,
            dims: result.dims,
            strides: result.strides,
        });
        self.nodes.push(Node { op, inputs: inputs.iter().copied().collect(), output, loc });
        Ok(output)
    }

    fn locate(&self, e: Error, op: &Op, inputs: &[ValueId], loc: SourceLoc) -> Error {
        let operands: Vec<String> = inputs.iter().map(|&v| self.describe(v)).collect();
        let place = if loc == SourceLoc::NONE { String::new() } else { format!(" at {loc}") };
        Error::new(
            e.kind(),
            format!("`{}` in `{}`{place}: {}; operands: {}", op.name(), self.name, e.message(), operands.join(", ")),
        )
    }

    fn push_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId::from_index(self.values.len() - 1)
    }

    /// Declares the results, in order.
    pub fn set_outputs(&mut self, outputs: impl IntoIterator<Item = ValueId>) {
        self.outputs = outputs.into_iter().collect();
    }

    /// The graph with two operands exchanged. What the first node gives must keep its dims by it.
    pub(crate) fn with_swapped(&self, first: (NodeId, usize), second: (NodeId, usize)) -> Graph {
        let mut graph = self.clone();
        let (a, b) = (self.node(first.0).inputs[first.1], self.node(second.0).inputs[second.1]);
        graph.nodes[first.0.index()].inputs[first.1] = b;
        graph.nodes[second.0.index()].inputs[second.1] = a;
        graph
    }

    /// Gives a value its name.
    pub fn set_name(&mut self, value: ValueId, name: &str) {
        self.values[value.index()].name = Some(name.to_owned());
    }

    /// Takes a value's name away.
    pub(crate) fn clear_name(&mut self, value: ValueId) {
        self.values[value.index()].name = None;
    }

    /// Replaces the strides that a result has in memory (`dims.len()` of them).
    pub fn set_strides(&mut self, value: ValueId, strides: Dims) {
        self.values[value.index()].strides = strides;
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// A value, if there is one of this handle.
    pub fn get_value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// A node, if there is one of this handle.
    pub fn get_node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// To break it on purpose.
    #[cfg(test)]
    pub(crate) fn parts(&mut self) -> (&mut Vec<Value>, &mut Vec<Node>) {
        (&mut self.values, &mut self.nodes)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All values, in order of creation.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(i, v)| (ValueId::from_index(i), v))
    }

    /// All nodes, operands before users.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> + DoubleEndedIterator {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId::from_index(i), n))
    }

    /// The results, in the order in which the function returns them.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The tensor arguments, in order.
    pub fn inputs(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values().filter(|(_, v)| matches!(v.kind, ValueKind::Input { .. }))
    }

    /// The host scalars, in order.
    pub fn scalars(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values().filter(|(_, v)| matches!(v.kind, ValueKind::Scalar { .. }))
    }

    /// The node that produces a value, unless it is an argument or a literal.
    pub fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.value(value).kind {
            ValueKind::Node(n) => Some(n),
            _ => None,
        }
    }

    /// The nodes that read a value.
    pub fn users(&self, value: ValueId) -> impl Iterator<Item = NodeId> {
        self.nodes().filter(move |(_, n)| n.inputs.contains(&value)).map(|(id, _)| id)
    }

    /// A value as texts show it: the user's name or the operation that made it, element type and dims.
    pub fn describe(&self, id: ValueId) -> String {
        let v = self.value(id);
        let layout =
            if layout::is_channels_last(&v.dims, &v.strides) && v.dims.len() > 3 { " channels-last" } else { "" };
        match v.kind {
            ValueKind::Const(c) => format!("{c}"),
            ValueKind::Scalar { .. } => format!("scalar `{}`", self.label(id)),
            _ => format!("`{}` {} {}{layout}", self.label(id), v.dtype, v.dims),
        }
    }

    /// The user's name of a value, or the operation that made it.
    pub fn label(&self, id: ValueId) -> String {
        let v = self.value(id);
        match (&v.name, v.kind) {
            (Some(n), _) => n.clone(),
            // A view is called what it looks at.
            (None, ValueKind::Node(n)) if matches!(self.node(n).op, Op::View(_)) => self.label(self.node(n).inputs[0]),
            (None, ValueKind::Node(n)) => format!("{}(…)", self.node(n).op.name()),
            (None, ValueKind::Const(c)) => format!("{c}"),
            (None, _) => "?".to_owned(),
        }
    }
}
