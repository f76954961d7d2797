//! Names of descriptor attributes. Those of an operation are numbered from a base of its own.

use super::newtype;

mod attention;
mod convolution;
mod engine;
mod matmul;
mod movement;
mod norm;
mod pointwise;
mod resample;
mod tensor;

newtype! {
    /// The name of an attribute of a backend descriptor.
    AttributeName: cudnnBackendAttributeName_t, [
        attention::NAMES,
        convolution::NAMES,
        engine::NAMES,
        matmul::NAMES,
        movement::NAMES,
        norm::NAMES,
        pointwise::NAMES,
        resample::NAMES,
        tensor::NAMES,
    ]
}
