//! What a call answers, and how its log marks a message.

use super::{codes, newtype};

codes! {
    /// What a cuDNN call answers. The thousands name the class of failure.
    Status: cudnnStatus_t, "CUDNN_STATUS_" .. "" {
        SUCCESS = 0,
        NOT_INITIALIZED = 1001,
        SUBLIBRARY_VERSION_MISMATCH = 1002,
        SERIALIZATION_VERSION_MISMATCH = 1003,
        DEPRECATED = 1004,
        LICENSE_ERROR = 1005,
        RUNTIME_IN_PROGRESS = 1006,
        RUNTIME_FP_OVERFLOW = 1007,
        SUBLIBRARY_LOADING_FAILED = 1008,
        BAD_PARAM = 2000,
        INVALID_VALUE = 2001,
        BAD_PARAM_NULL_POINTER = 2002,
        BAD_PARAM_MISALIGNED_POINTER = 2003,
        BAD_PARAM_NOT_FINALIZED = 2004,
        BAD_PARAM_OUT_OF_BOUND = 2005,
        BAD_PARAM_SIZE_INSUFFICIENT = 2006,
        BAD_PARAM_STREAM_MISMATCH = 2007,
        BAD_PARAM_SHAPE_MISMATCH = 2008,
        BAD_PARAM_DUPLICATED_ENTRIES = 2009,
        BAD_PARAM_ATTRIBUTE_TYPE = 2010,
        BAD_PARAM_CUDA_GRAPH_MISMATCH = 2011,
        BAD_PARAM_DESCRIPTOR_TYPE = 2012,
        NOT_SUPPORTED = 3000,
        NOT_SUPPORTED_GRAPH_PATTERN = 3001,
        NOT_SUPPORTED_SHAPE = 3002,
        NOT_SUPPORTED_DATA_TYPE = 3003,
        NOT_SUPPORTED_LAYOUT = 3004,
        NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER = 3005,
        NOT_SUPPORTED_INCOMPATIBLE_CUDART = 3006,
        NOT_SUPPORTED_ARCH_MISMATCH = 3007,
        NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING = 3008,
        NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE = 3009,
        NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT = 3010,
        NOT_SUPPORTED_PADDING = 3011,
        NOT_SUPPORTED_BAD_LAUNCH_PARAM = 3012,
        NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API = 3013,
        NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE = 3014,
        INTERNAL_ERROR = 4000,
        INTERNAL_ERROR_COMPILATION_FAILED = 4001,
        INTERNAL_ERROR_UNEXPECTED_VALUE = 4002,
        INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
        INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
        INTERNAL_ERROR_BAD_LAUNCH_PARAM = 4005,
        INTERNAL_ERROR_TEXTURE_CREATION_FAILED = 4006,
        EXECUTION_FAILED = 5000,
        EXECUTION_FAILED_CUDA_DRIVER = 5001,
        EXECUTION_FAILED_CUBLAS = 5002,
        EXECUTION_FAILED_CUDART = 5003,
        EXECUTION_FAILED_CURAND = 5004,
    }
}

codes! {
    /// How grave a message of the log is.
    Severity: cudnnSeverity_t, "CUDNN_SEV_" .. "" {
        FATAL = 0,
        ERROR = 1,
        WARNING = 2,
        INFO = 3,
    }
}

impl Status {
    /// Whether the call did what it was asked.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// Whether the request is well-formed but nothing in cuDNN serves it (3xxx).
    pub fn is_not_supported(self) -> bool {
        self.0 / 1000 == 3
    }

    /// Whether an argument is wrong (2xxx).
    pub fn is_bad_param(self) -> bool {
        self.0 / 1000 == 2
    }

    /// Whether a call or kernel failed while running (5xxx).
    pub fn is_execution_failed(self) -> bool {
        self.0 / 1000 == 5
    }

    /// `Ok` on success, else the code.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

impl std::error::Error for Status {}
