//! The text form of a graph: one line a value, in the order of the graph, so that it reads back exactly.
//!
//! ```text
//! graph "conv_bias_relu" {
//!   x = input bf16 [32, 64, 56, 56] channels_last
//!   w = input bf16 [64, 64, 3, 3] channels_last
//!   b = input bf16 [64]
//!   %3 = conv2d x, w (pre_padding [1, 1], post_padding [1, 1]) bf16 [32, 64, 56, 56] channels_last @ "src/net.rs":12:10
//!   %4 = unsqueeze b (axis 1) bf16 [64, 1]
//!   y = relu %3 bf16 [32, 64, 56, 56] channels_last
//!   return y
//! }
//! ```
//!
//! A value is called by its name where that is a word and nobody else's, else by its number. Layouts are row-major unless they say `channels_last`
//! or `strides […]`. Attributes that have their default are left out. The type of a result may be left out when it is written by hand.

mod attributes;
mod lex;
mod parse;
mod print;
#[cfg(test)]
mod tests;
