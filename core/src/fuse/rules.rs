//! The rules of grouping, as data. `docs/fusion.md` is made from them, texts of cuts and errors quote them.
//!
//! These decide what is *tried*. On a GPU cuDNN's own answer is final: a group that no engine takes is cut, and the reason kept.

/// A rule: why an operation does not go into the kernel of its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $text:literal;)*) => {
        $($(#[$doc])* pub const $name: Rule = Rule { id: $id, text: $text };)*
        /// All of them.
        pub const RULES: &[Rule] = &[$($name,)*];
    };
}

rules! {
    /// One core operation.
    ONE_CORE = "one-core", "a kernel holds one convolution or matmul; its operands are read from memory";
    /// Reductions end.
    EXIT_REDUCTION = "exit-reduction", "a reduction is the exit of its kernel: nothing in the same kernel can read its result";
    /// Views end.
    VIEW = "view", "a view of a computed value looks at memory, so the value is written first";
    /// Copies.
    COPY = "copy", "this view cannot be expressed by strides, so its operand is copied";
    /// Same shape.
    SHAPE = "shape", "every operation of a kernel has the shape of its core operation, smaller operands being repeated to it";
    /// Order.
    ORDER = "order", "an operand is computed by a later kernel";
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text, self.id)
    }
}
