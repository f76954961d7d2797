//! Codes of engines, heuristics and plans.

use super::{codes, newtype};

codes! {
    /// Which heuristic proposes engine configurations.
    HeurMode: cudnnBackendHeurMode_t, "CUDNN_HEUR_MODE_" .. "" {
        INSTANT = 0,
        B = 1,
        FALLBACK = 2,
        A = 3,
    }
}

codes! {
    /// What an engine does to the numbers.
    NumericalNote: cudnnBackendNumericalNote_t, "CUDNN_NUMERICAL_NOTE_" .. "" {
        TENSOR_CORE = 0,
        DOWN_CONVERT_INPUTS = 1,
        REDUCED_PRECISION_REDUCTION = 2,
        FFT = 3,
        NONDETERMINISTIC = 4,
        WINOGRAD = 5,
        WINOGRAD_TILE_4x4 = 6,
        WINOGRAD_TILE_6x6 = 7,
        WINOGRAD_TILE_13x13 = 8,
        STRICT_NAN_PROP = 9,
    }
}

codes! {
    /// What an engine asks of its caller.
    BehaviorNote: cudnnBackendBehaviorNote_t, "CUDNN_BEHAVIOR_NOTE_" .. "" {
        RUNTIME_COMPILATION = 0,
        REQUIRES_FILTER_INT8x32_REORDER = 1,
        REQUIRES_BIAS_INT8x32_REORDER = 2,
        SUPPORTS_CUDA_GRAPH_NATIVE_API = 3,
        CUBLASLT_DEPENDENCY = 4,
    }
}

codes! {
    /// A tuning parameter of an engine.
    KnobType: cudnnBackendKnobType_t, "CUDNN_KNOB_TYPE_" .. "" {
        SPLIT_K = 0,
        SWIZZLE = 1,
        TILE_SIZE = 2,
        USE_TEX = 3,
        EDGE = 4,
        KBLOCK = 5,
        LDGA = 6,
        LDGB = 7,
        CHUNK_K = 8,
        SPLIT_H = 9,
        WINO_TILE = 10,
        MULTIPLY = 11,
        SPLIT_K_BUF = 12,
        TILEK = 13,
        STAGES = 14,
        REDUCTION_MODE = 15,
        CTA_SPLIT_K_MODE = 16,
        SPLIT_K_SLC = 17,
        IDX_MODE = 18,
        SLICED = 19,
        SPLIT_RS = 20,
        SINGLEBUFFER = 21,
        LDGC = 22,
        SPECFILT = 23,
        KERNEL_CFG = 24,
        WORKSPACE = 25,
        TILE_CGA = 26,
        TILE_CGA_M = 27,
        TILE_CGA_N = 28,
        BLOCK_SIZE = 29,
        OCCUPANCY = 30,
        ARRAY_SIZE_PER_THREAD = 31,
        NUM_C_PER_BLOCK = 32,
        SPLIT_COLS = 33,
        TILE_ROWS = 34,
        TILE_COLS = 35,
        LOAD_SIZE = 36,
        CTA_COUNT = 37,
        STREAM_K = 38,
        SPLIT_P_SLC = 39,
        TILE_M = 40,
        TILE_N = 41,
        WARP_SPEC_CFG = 42,
        SWAP_AB = 43,
        INPUT_TMA_ENABLE = 44,
        OUTPUT_TMA_ENABLE = 45,
    }
}

codes! {
    /// The kind of an operation graph. A wrong one bypasses cuDNN's own check, so [`Self::AUTO`] is the only
    /// safe choice (cuDNN 9.23 and later).
    OperationGraphMode: cudnnBackendOperationGraphMode_t, "CUDNN_OPERATIONGRAPH_MODE_" .. "" {
        AUTO = -1,
        CONV_FORWARD = 0,
        CONV_BWD_DATA = 1,
        CONV_BWD_FILTER = 2,
        NORM_FWD_INFER = 17,
        NORM_FWD_TRAIN = 18,
        NORM_BWD = 19,
        GENERIC_CONV_FUSION = 20,
        RESAMPLE_FWD = 22,
        RESAMPLE_BWD = 23,
        BLAS_MATMUL = 25,
        GENERIC_MATMUL_FUSION = 26,
        GENERIC_POINTWISE_FUSION = 27,
        SDPA_FWD = 28,
        SDPA_BWD = 29,
        UNIFIED_SDPA_FWD = 30,
        UNIFIED_SDPA_BWD = 31,
    }
}

codes! {
    /// Whether a CUDA graph keeps what it needs of the plan alive (cuDNN 9.28 and later).
    CudaGraphRetention: cudnnCudaGraphRetention_t, "CUDNN_CUDA_GRAPH_RETENTION_" .. "" {
        PER_GRAPH = 0,
        NONE = 1,
    }
}
