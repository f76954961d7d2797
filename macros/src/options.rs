//! The operations that take named options: the one table from which calls are rewritten and checked.

/// An operation of `ops` that has named options.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The function as the user calls it; with options it is `<name>_with`.
    pub(crate) name: &'static str,
    /// The struct in `ops` that collects the options.
    pub(crate) options_type: &'static str,
    /// The operands that come before the options.
    pub(crate) operands: &'static [&'static str],
    /// The options, which are methods of `options_type`.
    pub(crate) options: &'static [&'static str],
}

const CONV: &[&str] = &["bias", "scale", "residual", "padding", "stride", "dilation", "groups"];
const LAYER_NORM: &[&str] = &["epsilon", "zero_centered"];
const RMS_NORM: &[&str] = &["bias", "epsilon", "zero_centered"];
const MAX_POOL: &[&str] = &["stride", "padding"];
const AVG_POOL: &[&str] = &["stride", "padding", "count_include_pad"];
const SDPA: &[&str] = &[
    "scale",
    "causal",
    "left_window",
    "right_window",
    "bottom_right",
    "softcap",
    "bias",
    "alibi_slopes",
    "seq_len_q",
    "seq_len_kv",
    "sink",
];
const REDUCE: &[&str] = &["axes", "keepdim"];

const fn operation(
    name: &'static str,
    options_type: &'static str,
    operands: &'static [&'static str],
    options: &'static [&'static str],
) -> Operation {
    Operation { name, options_type, operands, options }
}

/// Every operation with named options.
pub(crate) const OPERATIONS: &[Operation] = &[
    operation("conv1d", "ConvOptions", &["x", "w"], CONV),
    operation("conv2d", "ConvOptions", &["x", "w"], CONV),
    operation("conv3d", "ConvOptions", &["x", "w"], CONV),
    operation("matmul", "MatmulOptions", &["a", "b"], &["transpose_a", "transpose_b", "bias"]),
    operation("leaky_relu", "LeakyReluOptions", &["x"], &["slope"]),
    operation("clipped_relu", "ClippedReluOptions", &["x"], &["lower", "upper"]),
    operation("elu", "EluOptions", &["x"], &["alpha"]),
    operation("swish", "SwishOptions", &["x"], &["beta"]),
    operation("softplus", "SoftplusOptions", &["x"], &["beta"]),
    operation("gelu", "GeluOptions", &["x"], &["approximate"]),
    operation("sum", "ReduceOptions", &["x"], REDUCE),
    operation("mean", "ReduceOptions", &["x"], REDUCE),
    operation("max", "ReduceOptions", &["x"], REDUCE),
    operation("min", "ReduceOptions", &["x"], REDUCE),
    operation("prod", "ReduceOptions", &["x"], REDUCE),
    operation("amax", "ReduceOptions", &["x"], REDUCE),
    operation("norm1", "ReduceOptions", &["x"], REDUCE),
    operation("norm2", "ReduceOptions", &["x"], REDUCE),
    operation("layer_norm", "LayerNormOptions", &["x", "gamma", "beta"], LAYER_NORM),
    operation("layer_norm_stats", "LayerNormOptions", &["x", "gamma", "beta"], LAYER_NORM),
    operation("rms_norm", "RmsNormOptions", &["x", "gamma"], RMS_NORM),
    operation("rms_norm_stats", "RmsNormOptions", &["x", "gamma"], RMS_NORM),
    operation("batch_norm", "BatchNormOptions", &["x", "gamma", "beta", "mean", "var"], &["epsilon"]),
    operation(
        "batch_norm_train",
        "BatchNormTrainOptions",
        &["x", "gamma", "beta"],
        &["epsilon", "running_mean", "running_var", "momentum"],
    ),
    operation("instance_norm", "InstanceNormOptions", &["x", "gamma", "beta"], &["epsilon"]),
    operation("group_norm", "InstanceNormOptions", &["x", "groups", "gamma", "beta"], &["epsilon"]),
    operation("max_pool1d", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("max_pool2d", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("max_pool3d", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("max_pool1d_index", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("max_pool2d_index", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("max_pool3d_index", "MaxPoolOptions", &["x", "window"], MAX_POOL),
    operation("avg_pool1d", "AvgPoolOptions", &["x", "window"], AVG_POOL),
    operation("avg_pool2d", "AvgPoolOptions", &["x", "window"], AVG_POOL),
    operation("avg_pool3d", "AvgPoolOptions", &["x", "window"], AVG_POOL),
    operation("sdpa", "SdpaOptions", &["q", "k", "v"], SDPA),
    operation("sdpa_stats", "SdpaOptions", &["q", "k", "v"], SDPA),
    operation("slice", "SliceOptions", &["x"], &["axis", "start", "end", "step"]),
];

/// The operation of that name, if it takes named options.
pub(crate) fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

/// The names of all operations with options, for messages.
pub(crate) fn names() -> String {
    OPERATIONS.iter().map(|operation| operation.name).collect::<Vec<_>>().join(", ")
}
