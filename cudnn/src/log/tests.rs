use super::*;

/// From cuDNN 9.28, for a convolution of NCHW tensors followed by a GELU; shortened.
const CHECKED: &str = r#"CuDNN (v92801 4) function cudnnBackendGetAttribute_CUDNN_ATTR_ENGINEHEUR_RESULTS_engine_config_support_checks() called:
    Warning: No viable engine configs among (4) heuristics result(s). 
    === error stack (1/4) ===
    engineConfig: type=json; val={"engineId":-1,"smVersion":900,"knobChoices":{}};
    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: The specified engine with global index -1 is not found for GENERIC_CONV_FUSION(20) at: CUDNN_INVALID_PLACE_HOLDER_ENGINE == name
    === error stack (2/4) ===
    engineConfig: type=json; val={"engineId":4,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_SPLIT_K_SLC":-1,"CUDNN_KNOB_TYPE_KERNEL_CFG":3}};
    Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: Epilogue tensors must be row major or N(D)HWC layout. at: (layout != "RowMajor" && layout != "TensorNHWC")
    Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: check_output_layout_support(port)
    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: (CUDNN_STATUS_NOT_INITIALIZED == status) || (CUDNN_STATUS_NOT_SUPPORTED == ((status) / 1000 * 1000))
    === error stack (3/4) ===
    engineConfig: type=json; val={"engineId":4,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":1}};
    Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: Epilogue tensors must be row major or N(D)HWC layout. at: (layout != "RowMajor" && layout != "TensorNHWC")
    === error stack (4/4) ===
    engineConfig: type=json; val={"engineId":7,"smVersion":900,"knobChoices":{}};
    Warning: CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN; Reason: the chosen engine does not support this graph pattern at: true
Time: 2026-12-01T06:18:49.202116 (0d+0h+0m+0s since start)
"#;

#[test]
fn each_engine_names_its_cause_once() {
    let found = distinct(refusals(CHECKED));
    let texts: Vec<String> = found.iter().map(|(refusal, count)| format!("{count}x {refusal}")).collect();
    assert_eq!(
        texts,
        [
            "1x The specified engine with global index -1 is not found for GENERIC_CONV_FUSION(20) (CUDNN_STATUS_NOT_SUPPORTED)",
            "2x engine 4: Epilogue tensors must be row major or N(D)HWC layout. (CUDNN_STATUS_NOT_SUPPORTED_LAYOUT)",
            "1x engine 7: the chosen engine does not support this graph pattern (CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN)",
        ]
    );
    let (first_of_4, _) = &found[1];
    assert_eq!(first_of_4.knobs, ["CUDNN_KNOB_TYPE_SPLIT_K_SLC=-1", "CUDNN_KNOB_TYPE_KERNEL_CFG=3"]);
    assert_eq!(first_of_4.condition.as_deref(), Some(r#"(layout != "RowMajor" && layout != "TensorNHWC")"#));
    assert_eq!(found[2].0.condition, None);
}

/// The last error string has the same lines without a marker between them.
#[test]
fn the_last_error_string_reads_the_same() {
    let text =
        CHECKED.replace("    === error stack", "\n    === error stack").replace("engineConfig: type=json; val=", "");
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("===")).collect();
    assert_eq!(refusals(&text.join("\n")), refusals(CHECKED));
}

/// From the heuristics of cuDNN 9.19, for a matmul of F64.
#[test]
fn without_an_engine_only_causes_are_kept() {
    let text = "CuDNN (v91900 56) function cudnnBackendFinalize() called:
        Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: !isValidSetting(name, c)
        Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: !is_input_compute_type_match
        Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: check_matmul_support_fort(node)
        Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: check_for_support()
        Warning: CUDNN_STATUS_SUCCESS; Reason: cuDNN Library configuration is set to AUTO.
        Warning: CUDNN_STAT";
    let found = refusals(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].to_string(), "!is_input_compute_type_match (CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)");
}

#[test]
fn text_that_is_no_log_holds_no_refusal() {
    for text in
        ["", "{\"engineId\":", "{\"engineId\":x,\"knobChoices\":{", "Warning: ", "Error: A; Reason", "=== error stack"]
    {
        assert_eq!(refusals(text), [], "{text}");
    }
}

#[test]
fn lines_of_a_message_are_joined() {
    let read = |message: &str| text_of(message.as_ptr().cast());
    assert_eq!(read("one\0\0"), "one\n");
    assert_eq!(read("one\0  two\0\0three\0"), "one\n  two\n");
    assert_eq!(text_of(std::ptr::null()), "");
}
