//! Failures of the CUDA driver in words.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use fused_graph_core::Error;

/// The error of a driver call; `doing` says what was being done, in the user's terms.
#[cold]
pub(crate) fn cuda(doing: impl std::fmt::Display, error: DriverError) -> Error {
    let code = error.0;
    let name = match error.error_name() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", code as u32),
    };
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let advice = advice(code);
    Error::cuda(format!("{doing}: {text} ({name}){advice}"))
}

/// What the user can do about it.
fn advice(code: CUresult) -> &'static str {
    if is_sticky(code) {
        return ". A kernel failed and took the CUDA context of this process with it: every later call on this GPU fails with the same \
                error, and only a new process helps. `compute-sanitizer` names the kernel at fault";
    }
    match code {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ". Drop tensors that are no longer needed, or use smaller ones",
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        | CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        | CUresult::CUDA_ERROR_CAPTURED_EVENT => {
            ". The stream is being captured into a CUDA graph, where this is not allowed: call the function once before the capture"
        }
        CUresult::CUDA_ERROR_DEINITIALIZED | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED => {
            ". The process is ending or its CUDA context was destroyed"
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            ". The driver is older than the CUDA libraries that were loaded: update it"
        }
        _ => "",
    }
}

/// Whether every later call on the context fails as well.
fn is_sticky(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
    )
}
