//! The codes against those of a cuDNN header.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use cudnn_sys::*;

/// A header's enumerations: type → name → number.
type Enums = BTreeMap<String, BTreeMap<String, i32>>;

fn header() -> String {
    let lib = PathBuf::from(std::env::var_os("FUSED_GRAPH_CUDNN_DIR").expect("FUSED_GRAPH_CUDNN_DIR"));
    let path = lib.join("../include/cudnn_graph.h");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((code, comment)) = rest.split_once("/*") {
        out.push_str(code);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    out + rest
}

fn enums(header: &str) -> Enums {
    let mut enums = Enums::new();
    for part in without_comments(header).split("typedef enum").skip(1) {
        let (body, after) = part.split_once('}').expect("an enum ends");
        let name = after.split([';', ' ']).find(|word| !word.is_empty()).expect("an enum has a name");
        let codes = enums.entry(name.to_owned()).or_default();
        let mut next = 0;
        for entry in body.trim_start_matches([' ', '{', '\n']).split(',') {
            let entry = entry.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
            let (left, value) = entry.split_once('=').map_or((entry.as_str(), None), |(l, v)| (l, Some(v.trim())));
            let Some(name) = left.split_whitespace().next() else { continue };
            if let Some(value) = value {
                next = value.parse().unwrap_or_else(|_| codes[value]);
            }
            codes.insert(name.to_owned(), next);
            next += 1;
        }
    }
    enums
}

/// Names that the header has under a number that has no name here, and differences.
fn compare(enums: &Enums, c_type: &str, known: Vec<(i32, Option<&'static str>)>) -> Vec<String> {
    let Some(theirs) = enums.get(c_type) else { return vec![] };
    let numbers: Vec<i32> = known.iter().map(|(number, _)| *number).collect();
    let differ = known.into_iter().filter_map(|(number, name)| {
        let name = name.expect("a known code has a name");
        let other = *theirs.get(name)?;
        (other != number).then(|| format!("{name}: {number} here, {other} in the header"))
    });
    let counts = |name: &str| name.ends_with("_COUNT") || name.ends_with("_COUNTS");
    let missing = theirs.iter().filter(|(name, number)| !counts(name) && !numbers.contains(number));
    differ.chain(missing.map(|(name, number)| format!("{name} = {number}: not here"))).collect()
}

macro_rules! compare_all {
    ($enums:expr; $($ty:ident = $c:literal),* $(,)?) => {
        [$(compare($enums, $c, $ty::known().map(|code| (code.0, code.name())).collect())),*].concat()
    };
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn codes_are_those_of_the_header() {
    let enums = enums(&header());
    assert!(enums["cudnnBackendAttributeName_t"].len() > 200, "the header was not understood");
    let faults = compare_all!(&enums;
        Status = "cudnnStatus_t", Severity = "cudnnSeverity_t", DescriptorType = "cudnnBackendDescriptorType_t",
        AttributeName = "cudnnBackendAttributeName_t", AttributeType = "cudnnBackendAttributeType_t",
        DataType = "cudnnDataType_t", TensorReordering = "cudnnBackendTensorReordering_t",
        LayoutType = "cudnnBackendLayoutType_t", PointwiseMode = "cudnnPointwiseMode_t",
        ConvolutionMode = "cudnnConvolutionMode_t", ReductionOp = "cudnnReduceTensorOp_t",
        NanPropagation = "cudnnNanPropagation_t", ResampleMode = "cudnnResampleMode_t",
        PaddingMode = "cudnnPaddingMode_t", NormMode = "cudnnBackendNormMode_t",
        NormFwdPhase = "cudnnBackendNormFwdPhase_t", ReshapeMode = "cudnnBackendReshapeMode_t",
        RngDistribution = "cudnnRngDistribution_t", SignalMode = "cudnnSignalMode_t",
        GenStatsMode = "cudnnGenStatsMode_t", BnFinalizeStatsMode = "cudnnBnFinalizeStatsMode_t",
        MoeGroupedMatmulMode = "cudnnMoeGroupedMatmulMode_t", HeurMode = "cudnnBackendHeurMode_t",
        NumericalNote = "cudnnBackendNumericalNote_t", BehaviorNote = "cudnnBackendBehaviorNote_t",
        KnobType = "cudnnBackendKnobType_t", OperationGraphMode = "cudnnBackendOperationGraphMode_t",
        CudaGraphRetention = "cudnnCudaGraphRetention_t",
    );
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn an_unknown_code_is_kept_and_printed_as_its_number() {
    let unknown = Status(3999);
    assert_eq!(unknown.name(), None);
    assert_eq!(unknown.to_string(), "cudnnStatus_t(3999)");
    assert!(unknown.is_not_supported());
    assert_eq!(Status::from_name("CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"), Some(Status::NOT_SUPPORTED_LAYOUT));
    assert_eq!(Status::from_name("CUDNN_STATUS_LATER"), None);
    assert_eq!(DataType::BFLOAT16.to_string(), "CUDNN_DATA_BFLOAT16");
    assert_eq!(DescriptorType::OPERATION_MATMUL.to_string(), "CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR");
    assert_eq!(format!("{:?}", OperationGraphMode::AUTO), "CUDNN_OPERATIONGRAPH_MODE_AUTO");
}

#[test]
fn severities_have_the_masks_of_the_header() {
    assert_eq!(Severity::ERROR.mask() | Severity::WARNING.mask() | Severity::INFO.mask(), 0b1110);
    assert_eq!(Severity(-1).mask(), 0);
}
