//! Handles and structures that cross the C boundary.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use crate::codes::{Severity, Status};

/// `cudnnHandle_t`: a cuDNN context of one device, used by one thread at a time.
pub type Handle = *mut c_void;

/// `cudnnBackendDescriptor_t`.
pub type Descriptor = *mut c_void;

/// `cudaStream_t`, the same pointer as the driver API's `CUstream`.
pub type Stream = *mut c_void;

/// `cudaGraph_t`, the same pointer as the driver API's `CUgraph`.
pub type CudaGraph = *mut c_void;

/// `cudnnFraction_t`: an element of [`crate::AttributeType::FRACTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fraction {
    /// What stands above the line.
    pub numerator: i64,
    /// What stands below the line.
    pub denominator: i64,
}

/// `cudnnDebug_t`: what cuDNN tells a [`Callback`] about the call that a message is about.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DebugInfo {
    /// As [`crate::Api::get_version`] gives it.
    pub cudnn_version: c_uint,
    /// What the call answers.
    pub status: Status,
    /// Seconds since the epoch.
    pub time_sec: c_uint,
    /// Microseconds of that second.
    pub time_usec: c_uint,
    /// Seconds since the library was loaded.
    pub time_delta: c_uint,
    /// The handle that the call was given.
    pub handle: Handle,
    /// The stream of that handle.
    pub stream: Stream,
    /// The process.
    pub pid: c_ulonglong,
    /// The thread.
    pub tid: c_ulonglong,
    /// The device of that handle.
    pub cuda_device_id: c_int,
    /// Kept for later versions.
    pub reserved: [c_int; 15],
}

/// `cudnnCallback_t`: receives the messages of the log. It must not unwind.
pub type Callback =
    unsafe extern "C" fn(severity: Severity, user_data: *mut c_void, info: *const DebugInfo, message: *const c_char);

impl Severity {
    /// The bit that asks [`crate::Api::set_callback`] for messages of this severity. Fatal ones cannot be masked.
    pub fn mask(self) -> c_uint {
        if (0..32).contains(&self.0) { 1 << self.0 } else { 0 }
    }
}
