//! The functions of a loaded cuDNN.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt;

use libloading::Library;

use crate::codes::{AttributeName, AttributeType, DescriptorType, Status};
use crate::types::{Callback, CudaGraph, Descriptor, Handle, Stream};
use crate::version::Version;

/// Declares [`Api`]: its fields, and how they are looked up.
macro_rules! api {
    (
        required { $($(#[$rdoc:meta])* $r:ident = $rsym:literal: fn($($rarg:ident: $rty:ty),*) $(-> $rret:ty)?;)* }
        optional { $($(#[$odoc:meta])* $o:ident = $osym:literal: fn($($oarg:ident: $oty:ty),*) $(-> $oret:ty)?;)* }
    ) => {
        /// The functions of a loaded cuDNN 9, and the libraries that they live in.
        ///
        /// Every function is `unsafe` to call: cuDNN trusts its arguments. What the library in hand does not have is
        /// `None`, or, if nothing works without it, the reason why [`Api::load`] fails.
        pub struct Api {
            $(
                $(#[$rdoc])*
                #[doc = concat!("\n\nC: `", $rsym, "`.")]
                pub $r: unsafe extern "C" fn($($rarg: $rty),*) $(-> $rret)?,
            )*
            $(
                $(#[$odoc])*
                #[doc = concat!("\n\nC: `", $osym, "`.")]
                pub $o: Option<unsafe extern "C" fn($($oarg: $oty),*) $(-> $oret)?>,
            )*
            /// The functions above are those of these libraries, so they stay loaded at least as long.
            libraries: Vec<Library>,
        }

        impl Api {
            /// Looks the functions up in `cudnn`.
            ///
            /// # Errors
            /// [`MissingFunction`] if the library lacks one without which nothing works.
            ///
            /// # Safety
            /// `cudnn` is a cuDNN of major version 9: the signatures are that version's.
            pub unsafe fn load(cudnn: Library) -> Result<Self, MissingFunction> {
                // SAFETY: the caller vouches that this is cuDNN 9, whose header gives these names these signatures.
                // The pointers outlive the borrowed symbols because `libraries` keeps the library loaded.
                unsafe {
                    Ok(Self {
                        $($r: *cudnn.get($rsym).map_err(|_| MissingFunction($rsym))?,)*
                        $($o: cudnn.get($osym).ok().map(|function| *function),)*
                        libraries: vec![cudnn],
                    })
                }
            }
        }
    };
}

api! {
    required {
        /// The version, as [`Version::from_cudnn`] reads it.
        get_version = "cudnnGetVersion": fn() -> usize;
        /// The name of a status; a static string.
        get_error_string = "cudnnGetErrorString": fn(status: Status) -> *const c_char;
        /// Copies the calling thread's last error message, NUL-terminated, and clears it.
        get_last_error_string = "cudnnGetLastErrorString": fn(message: *mut c_char, max_size: usize);
        /// Makes a handle for the current device.
        create = "cudnnCreate": fn(handle: *mut Handle) -> Status;
        /// Destroys a handle. Waits for the device.
        destroy = "cudnnDestroy": fn(handle: Handle) -> Status;
        /// Makes later calls on the handle use the stream. Takes 0.14 to 2.5 µs even when nothing changes.
        set_stream = "cudnnSetStream": fn(handle: Handle, stream: Stream) -> Status;
        /// Sends the messages of the severities in `mask` to a function. There is one callback for the whole process.
        set_callback = "cudnnSetCallback":
            fn(mask: c_uint, user_data: *mut c_void, callback: Option<Callback>) -> Status;
        /// Makes a descriptor.
        backend_create_descriptor = "cudnnBackendCreateDescriptor":
            fn(descriptor_type: DescriptorType, descriptor: *mut Descriptor) -> Status;
        /// Destroys a descriptor, finalized or not.
        backend_destroy_descriptor = "cudnnBackendDestroyDescriptor": fn(descriptor: Descriptor) -> Status;
        /// Copies `element_count` elements into an attribute of a descriptor that is not finalized.
        backend_set_attribute = "cudnnBackendSetAttribute":
            fn(
                descriptor: Descriptor,
                name: AttributeName,
                attribute_type: AttributeType,
                element_count: i64,
                elements: *const c_void
            ) -> Status;
        /// Copies up to `requested_element_count` elements of an attribute of a finalized descriptor, and says how
        /// many there are. Descriptors are written into ones that the caller made.
        backend_get_attribute = "cudnnBackendGetAttribute":
            fn(
                descriptor: Descriptor,
                name: AttributeName,
                attribute_type: AttributeType,
                requested_element_count: i64,
                element_count: *mut i64,
                elements: *mut c_void
            ) -> Status;
        /// Checks a descriptor and makes it read-only. On a plan this compiles.
        backend_finalize = "cudnnBackendFinalize": fn(descriptor: Descriptor) -> Status;
        /// Runs a plan on the data of a variant pack, on the handle's stream.
        backend_execute = "cudnnBackendExecute":
            fn(handle: Handle, plan: Descriptor, variant_pack: Descriptor) -> Status;
    }
    optional {
        /// The version of the CUDA runtime linked into cuDNN, as [`Version::from_cuda`] reads it.
        get_cudart_version = "cudnnGetCudartVersion": fn() -> usize;
        /// The highest compute capability that this cuDNN knows: major × 100 + minor × 10.
        get_max_device_version = "cudnnGetMaxDeviceVersion": fn() -> usize;
        /// Whether the graph library is of this library's version.
        graph_version_check = "cudnnGraphVersionCheck": fn() -> Status;
        /// The stream of a handle.
        get_stream = "cudnnGetStream": fn(handle: Handle, stream: *mut Stream) -> Status;
        /// What [`Api::set_callback`] was last given.
        get_callback = "cudnnGetCallback":
            fn(mask: *mut c_uint, user_data: *mut *mut c_void, callback: *mut Option<Callback>) -> Status;
        /// Writes a plan's kernels into a CUDA graph (9.5).
        backend_populate_cuda_graph = "cudnnBackendPopulateCudaGraph":
            fn(handle: Handle, plan: Descriptor, variant_pack: Descriptor, graph: CudaGraph) -> Status;
        /// Replaces the pointers in such a graph (9.5).
        backend_update_cuda_graph = "cudnnBackendUpdateCudaGraph":
            fn(handle: Handle, plan: Descriptor, variant_pack: Descriptor, graph: CudaGraph) -> Status;
        /// The workspace that a plan needs for the shapes of a variant pack (9.23).
        get_execution_plan_workspace_size = "cudnnGetExecutionPlanWorkspaceSize":
            fn(handle: Handle, plan: Descriptor, variant_pack: Descriptor, size: *mut usize) -> Status;
    }
}

/// A library that was to be cuDNN 9 lacks a function that all of cuDNN 9 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFunction(pub &'static str);

impl fmt::Display for MissingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the library has no function {}", self.0)
    }
}

impl std::error::Error for MissingFunction {}

impl Api {
    /// Keeps another library loaded as long as this value lives: cuDNN opens some by name, at a time of its choice.
    pub fn keep(&mut self, library: Library) {
        self.libraries.push(library);
    }

    /// The version of this cuDNN.
    pub fn version(&self) -> Version {
        // SAFETY: the function takes nothing and touches no state.
        Version::from_cudnn(unsafe { (self.get_version)() })
    }

    /// The version of the CUDA runtime inside this cuDNN: its major number is that of the driver it needs.
    pub fn cudart_version(&self) -> Option<Version> {
        // SAFETY: the function takes nothing and touches no state.
        self.get_cudart_version.map(|function| Version::from_cuda(unsafe { function() }))
    }

    /// The calling thread's last error message, which may be empty. Reading clears it.
    pub fn last_error(&self) -> String {
        let mut text = [0_u8; 4096];
        // SAFETY: the buffer is writable for the length given, and cuDNN writes no more than that.
        unsafe { (self.get_last_error_string)(text.as_mut_ptr().cast(), text.len()) };
        match CStr::from_bytes_until_nul(&text) {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => String::from_utf8_lossy(&text).into_owned(),
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("version", &self.version()).finish_non_exhaustive()
    }
}
