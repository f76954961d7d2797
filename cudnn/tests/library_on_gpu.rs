//! The libraries of a GPU machine as they are found there.

use fused_graph_cudnn::library::{DriverReport, Library};

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn the_library_is_found_and_the_driver_takes_it() {
    let library = Library::for_device().unwrap_or_else(|error| panic!("{error}"));
    let report = library.report();
    println!("{report}");
    assert!(
        matches!(&report.driver, DriverReport::Found { devices: Ok(count), .. } if *count > 0),
        "the driver shows no GPU:\n{report}"
    );
    let cudnn = report.cudnn.as_ref().and_then(|found| found.path.clone());
    let cudnn = cudnn.unwrap_or_else(|| panic!("the file of cuDNN is not known:\n{report}"));
    if let Some(wanted) = std::env::var_os("FUSED_GRAPH_CUDNN_DIR") {
        let wanted = std::fs::canonicalize(wanted).unwrap();
        assert_eq!(
            std::fs::canonicalize(cudnn).unwrap().parent(),
            Some(&*wanted),
            "another cuDNN was loaded:\n{report}"
        );
    }
    assert!(report.nvrtc.is_some(), "cuDNN compiles kernels at run time and needs nvrtc:\n{report}");
}
