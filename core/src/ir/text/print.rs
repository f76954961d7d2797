//! A graph as text.

use super::attributes::{self, Attribute};
use super::lex::{is_word, quoted};
use crate::ir::{Graph, ScalarType, SourceLoc, Value, ValueId, ValueKind};
use crate::layout::Dims;
use std::collections::HashMap;
use std::fmt::{self, Display, Write};

impl Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, true)
    }
}

impl Graph {
    /// The text without what does not matter to the result: the names of function and values, and where operations were written. Graphs that
    /// compute the same in the same way on arguments of the same layout have the same: the key of a stored plan.
    pub fn canonical_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write(&mut text, self, false);
        text
    }
}

fn write(f: &mut impl Write, graph: &Graph, names: bool) -> fmt::Result {
    let called = if names { names_of(graph) } else { HashMap::new() };
    let name = |v: ValueId| called.get(&v).map_or_else(|| format!("%{}", v.index()), |n| (*n).to_owned());
    writeln!(f, "graph {}{{", if names { quoted(graph.name()) + " " } else { String::new() })?;
    for (id, value) in graph.values() {
        write!(f, "  {}", name(id))?;
        if let Some(other) = value.name.as_ref().filter(|_| names && !called.contains_key(&id)) {
            write!(f, " {}", quoted(other))?;
        }
        write!(f, " = ")?;
        match value.kind {
            ValueKind::Input { .. } => writeln!(f, "input {}", Type(value))?,
            ValueKind::Scalar { ty: ScalarType::F32, .. } => writeln!(f, "scalar f32")?,
            ValueKind::Scalar { ty: ScalarType::F64, .. } => writeln!(f, "scalar f64")?,
            ValueKind::Const(number) => writeln!(f, "const {}", Float(number))?,
            ValueKind::Node(node) => {
                let node = graph.node(node);
                let operands: Vec<String> = node.inputs.iter().map(|&v| name(v)).collect();
                write!(f, "{} {}", node.op.name(), operands.join(", "))?;
                write_attributes(f, &attributes::of(&node.op))?;
                write!(f, " {}", Type(value))?;
                if names && node.loc != SourceLoc::NONE {
                    write!(f, " @ {}:{}:{}", quoted(node.loc.file), node.loc.line, node.loc.column)?;
                }
                writeln!(f)?;
            }
        }
    }
    let outputs: Vec<String> = graph.outputs().iter().map(|&v| name(v)).collect();
    writeln!(f, "  return {}\n}}", outputs.join(", "))
}

/// The names that are words, of those that are given once the only one.
fn names_of(graph: &Graph) -> HashMap<ValueId, &str> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    let named = || graph.values().filter_map(|(id, v)| Some((id, v.name.as_deref()?)));
    named().for_each(|(_, name)| *count.entry(name).or_default() += 1);
    named().filter(|(_, name)| is_word(name) && count[name] == 1).collect()
}

fn write_attributes(f: &mut impl Write, list: &attributes::Attributes) -> fmt::Result {
    for (i, (name, value)) in list.iter().enumerate() {
        write!(f, "{}{name}", if i == 0 { " (" } else { ", " })?;
        match value {
            Attribute::Int(value) => write!(f, " {value}")?,
            Attribute::Float(value) => write!(f, " {}", Float(*value))?,
            Attribute::Dims(dims) => write!(f, " {dims}")?,
            Attribute::Word(word) => write!(f, " {word}")?,
            Attribute::Flag => {}
        }
    }
    if list.is_empty() { Ok(()) } else { write!(f, ")") }
}

/// Element type, dims and layout.
struct Type<'a>(&'a Value);

impl Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Value { dtype, dims, strides, .. } = self.0;
        write!(f, "{dtype} {dims}{}", Layout(dims, strides))
    }
}

struct Layout<'a>(&'a Dims, &'a Dims);

impl Display for Layout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout(dims, strides) = self;
        if **strides == dims.contiguous_strides() {
            Ok(())
        } else if **strides == dims.channels_last_strides() {
            f.write_str(" channels_last")
        } else {
            write!(f, " strides {strides}")
        }
    }
}

/// A number that reads back with the same bits.
struct Float(f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n.is_nan() => write!(f, "nan_{:016x}", n.to_bits()),
            n if n.is_infinite() => f.write_str(if n > 0.0 { "inf" } else { "-inf" }),
            n => write!(f, "{n:?}"),
        }
    }
}
