//! Modes of the other operations.

use super::{codes, newtype};

codes! {
    /// Whether the filter is flipped. What machine learning calls a convolution is [`Self::CROSS_CORRELATION`].
    ConvolutionMode: cudnnConvolutionMode_t, "CUDNN_" .. "" {
        CONVOLUTION = 0,
        CROSS_CORRELATION = 1,
    }
}

codes! {
    /// How a reduction combines elements.
    ReductionOp: cudnnReduceTensorOp_t, "CUDNN_REDUCE_TENSOR_" .. "" {
        ADD = 0,
        MUL = 1,
        MIN = 2,
        MAX = 3,
        AMAX = 4,
        AVG = 5,
        NORM1 = 6,
        NORM2 = 7,
        MUL_NO_ZEROS = 8,
    }
}

codes! {
    /// Whether a NaN among the inputs reaches the output.
    NanPropagation: cudnnNanPropagation_t, "CUDNN_" .. "" {
        NOT_PROPAGATE_NAN = 0,
        PROPAGATE_NAN = 1,
    }
}

codes! {
    /// Pooling and interpolation.
    ResampleMode: cudnnResampleMode_t, "CUDNN_RESAMPLE_" .. "" {
        NEAREST = 0,
        BILINEAR = 1,
        AVGPOOL_INCLUDE_PADDING = 2,
        MAXPOOL = 3,
        AVGPOOL_EXCLUDE_PADDING = 4,
    }
}

codes! {
    /// What a resampling window reads outside the tensor.
    PaddingMode: cudnnPaddingMode_t, "CUDNN_" .. "_PAD" {
        ZERO = 0,
        NEG_INF = 1,
        EDGE_VAL = 2,
    }
}

codes! {
    /// Over which dimensions a normalisation takes its statistics.
    NormMode: cudnnBackendNormMode_t, "CUDNN_" .. "_NORM" {
        LAYER = 0,
        INSTANCE = 1,
        BATCH = 2,
        GROUP = 3,
        RMS = 4,
        ADA_LAYER = 5,
    }
}

codes! {
    /// Whether a normalisation computes the statistics or is given them.
    NormFwdPhase: cudnnBackendNormFwdPhase_t, "CUDNN_NORM_FWD_" .. "" {
        INFERENCE = 0,
        TRAINING = 1,
    }
}

codes! {
    /// Whether a reshape may move data (cuDNN 9.22 and later).
    ReshapeMode: cudnnBackendReshapeMode_t, "CUDNN_RESHAPE_" .. "" {
        VIEW_ONLY = 0,
        LOGICAL = 1,
    }
}

codes! {
    /// The distribution that random numbers are drawn from.
    RngDistribution: cudnnRngDistribution_t, "CUDNN_RNG_DISTRIBUTION_" .. "" {
        BERNOULLI = 0,
        UNIFORM = 1,
        NORMAL = 2,
    }
}

codes! {
    /// Whether a signal operation sets a flag or waits for it.
    SignalMode: cudnnSignalMode_t, "CUDNN_SIGNAL_" .. "" {
        SET = 0,
        WAIT = 1,
    }
}

codes! {
    /// Which statistics an operation gathers.
    GenStatsMode: cudnnGenStatsMode_t, "CUDNN_GENSTATS_" .. "" {
        SUM_SQSUM = 0,
    }
}

codes! {
    /// For which phase batch-norm statistics are finished.
    BnFinalizeStatsMode: cudnnBnFinalizeStatsMode_t, "CUDNN_BN_FINALIZE_STATISTICS_" .. "" {
        TRAINING = 0,
        INFERENCE = 1,
    }
}

codes! {
    /// How a grouped matmul finds the tokens of an expert.
    MoeGroupedMatmulMode: cudnnMoeGroupedMatmulMode_t, "CUDNN_MOE_GROUPED_MATMUL_MODE_" .. "" {
        NONE = 0,
        GATHER = 1,
        SCATTER = 2,
    }
}
