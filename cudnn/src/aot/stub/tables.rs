//! What the stand-ins export.

use super::elf::Body;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: Body = Body::Return(100);

/// What libcuda is asked for while a plan is built, and what it answers.
///
/// `libcudnn_engines_runtime_compiled` of cuDNN 9.28 links to cuGetErrorString, cuModule* and cuTensorMap*. The others
/// are looked up by name; without them engines log errors, and without cuKernelGetFunction and a cuCtxGetCurrent that
/// succeeds, engines for sm_100 refuse graphs that they serve (measured with 9.28). The count of devices is stored although
/// the call fails: cuDNN goes by it, and would load a plan's kernel if it found something else there.
pub(crate) const DRIVER: &[(&str, Body)] = &[
    ("cuInit", NO_DEVICE),
    ("cuDriverGetVersion", Body::StoreInt(13000, 0)),
    ("cuGetErrorString", Body::StoreText("no CUDA driver is loaded")),
    ("cuGetErrorName", Body::StoreText("CUDA_ERROR_NO_DEVICE")),
    ("cuCtxGetCurrent", Body::StoreNull),
    ("cuCtxGetLimit", NO_DEVICE),
    ("cuCtxPopCurrent", NO_DEVICE),
    ("cuCtxPushCurrent", NO_DEVICE),
    ("cuDeviceGet", NO_DEVICE),
    ("cuDeviceGetAttribute", NO_DEVICE),
    ("cuDeviceGetCount", Body::StoreInt(0, 100)),
    ("cuDeviceGetName", NO_DEVICE),
    ("cuDeviceTotalMem_v2", NO_DEVICE),
    ("cuGetExportTable", NO_DEVICE),
    ("cuGetProcAddress", NO_DEVICE),
    ("cuGetProcAddress_v2", NO_DEVICE),
    ("cuKernelGetAttribute", NO_DEVICE),
    ("cuKernelGetFunction", NO_DEVICE),
    ("cuKernelSetAttribute", NO_DEVICE),
    ("cuLaunchCooperativeKernel", NO_DEVICE),
    ("cuLaunchKernel", NO_DEVICE),
    ("cuLaunchKernelEx", NO_DEVICE),
    ("cuLibraryGetKernel", NO_DEVICE),
    ("cuLibraryLoadData", NO_DEVICE),
    ("cuLibraryLoadFromFile", NO_DEVICE),
    ("cuLibraryUnload", NO_DEVICE),
    ("cuLinkAddData", NO_DEVICE),
    ("cuLinkComplete", NO_DEVICE),
    ("cuLinkCreate", NO_DEVICE),
    ("cuLinkDestroy", NO_DEVICE),
    ("cuModuleGetFunction", NO_DEVICE),
    ("cuModuleLoadData", NO_DEVICE),
    ("cuModuleUnload", NO_DEVICE),
    ("cuOccupancyMaxPotentialClusterSize", NO_DEVICE),
    ("cuStreamGetCtx", NO_DEVICE),
    ("cuTensorMapEncodeIm2col", NO_DEVICE),
    ("cuTensorMapEncodeTiled", NO_DEVICE),
];

/// `CUBLAS_STATUS_NOT_INITIALIZED`.
const NOT_INITIALIZED: Body = Body::Return(1);

/// What cuDNN 9.19 to 9.28 look up in cuBLASLt. A function that is missing makes cuDNN abort the process.
///
/// The version is one without the faults that cuDNN avoids in older ones: for `cublasLtGetProperty`, whose first argument
/// says which part of it is wanted, 13.13.13.
pub(crate) const CUBLAS_LT: &[(&str, Body)] = &[
    ("cublasLtCreate", NOT_INITIALIZED),
    ("cublasLtDestroy", NOT_INITIALIZED),
    ("cublasLtGetProperty", Body::StoreIntSecond(13)),
    ("cublasLtGetVersion", Body::Return(131_313)),
    ("cublasLtGroupedMatrixLayoutCreate", NOT_INITIALIZED),
    ("cublasLtMatmul", NOT_INITIALIZED),
    ("cublasLtMatmulAlgoGetHeuristic", NOT_INITIALIZED),
    ("cublasLtMatmulDescCreate", NOT_INITIALIZED),
    ("cublasLtMatmulDescDestroy", NOT_INITIALIZED),
    ("cublasLtMatmulDescGetAttribute", NOT_INITIALIZED),
    ("cublasLtMatmulDescInit_internal", NOT_INITIALIZED),
    ("cublasLtMatmulDescSetAttribute", NOT_INITIALIZED),
    ("cublasLtMatmulPreferenceCreate", NOT_INITIALIZED),
    ("cublasLtMatmulPreferenceDestroy", NOT_INITIALIZED),
    ("cublasLtMatmulPreferenceInit_internal", NOT_INITIALIZED),
    ("cublasLtMatmulPreferenceSetAttribute", NOT_INITIALIZED),
    ("cublasLtMatrixLayoutCreate", NOT_INITIALIZED),
    ("cublasLtMatrixLayoutDestroy", NOT_INITIALIZED),
    ("cublasLtMatrixLayoutGetAttribute", NOT_INITIALIZED),
    ("cublasLtMatrixLayoutInit_internal", NOT_INITIALIZED),
    ("cublasLtMatrixLayoutSetAttribute", NOT_INITIALIZED),
    ("cublasLtMatrixTransform", NOT_INITIALIZED),
    ("cublasLtMatrixTransformDescCreate", NOT_INITIALIZED),
    ("cublasLtMatrixTransformDescDestroy", NOT_INITIALIZED),
    ("cublasLtMatrixTransformDescGetAttribute", NOT_INITIALIZED),
    ("cublasLtMatrixTransformDescInit_internal", NOT_INITIALIZED),
    ("cublasLtMatrixTransformDescSetAttribute", NOT_INITIALIZED),
];
