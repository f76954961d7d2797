//! Codes that describe tensors.

use super::{codes, newtype};

codes! {
    /// The type of a tensor's elements, or of the arithmetic of an operation.
    DataType: cudnnDataType_t, "CUDNN_DATA_" .. "" {
        FLOAT = 0,
        DOUBLE = 1,
        HALF = 2,
        INT8 = 3,
        INT32 = 4,
        INT8x4 = 5,
        UINT8 = 6,
        UINT8x4 = 7,
        INT8x32 = 8,
        BFLOAT16 = 9,
        INT64 = 10,
        BOOLEAN = 11,
        FP8_E4M3 = 12,
        FP8_E5M2 = 13,
        FAST_FLOAT_FOR_FP8 = 14,
        FP8_E8M0 = 15,
        FP4_E2M1 = 16,
        INT4 = 17,
        UINT4 = 18,
        UINT32 = 19,
        COMPLEX_FP32 = 20,
        COMPLEX_FP64 = 21,
        BYTE_BOOLEAN = 22,
        FP8_E5M3 = 23,
    }
}

codes! {
    /// The order of elements inside a tensor that is not described by strides alone.
    TensorReordering: cudnnBackendTensorReordering_t, "CUDNN_TENSOR_REORDERING_" .. "" {
        NONE = 0,
        INT8x32 = 1,
        F16x16 = 2,
        F8_128x4 = 3,
    }
}

codes! {
    /// The layout that an engine would like a tensor to have.
    LayoutType: cudnnBackendLayoutType_t, "CUDNN_LAYOUT_TYPE_" .. "" {
        PREFERRED_NCHW = 0,
        PREFERRED_NHWC = 1,
        PREFERRED_PAD4CK = 2,
        PREFERRED_PAD8CK = 3,
    }
}
