//! NVRTC, loaded at run time: CUDA C in, code for one architecture out.

use fused_graph_core::{Error, Result};
use libloading::Library;
use once_cell::sync::OnceCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The functions of a loaded NVRTC.
struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Get,
    code_size: Size,
    code: Get,
    destroy: Destroy,
    /// The functions above are its.
    _library: Library,
}

/// Compiles CUDA C for compute capability `sm` (× 10): the bytes of a cubin.
pub fn compile(source: &str, sm: u32) -> Result<Vec<u8>> {
    let nvrtc = loaded()?;
    let source = CString::new(source).map_err(|_| Error::cuda("a kernel's source holds a zero byte"))?;
    let architecture = CString::new(format!("--gpu-architecture=sm_{sm}")).unwrap_or_default();
    let options = [architecture.as_ptr(), c"--std=c++17".as_ptr(), c"--device-as-default-execution-space".as_ptr()];
    let mut program: Program = std::ptr::null_mut();
    // SAFETY: strings end with zero bytes and live through the calls; the program is destroyed once below.
    unsafe {
        let name = c"fused_graph.cu";
        let none = std::ptr::null();
        if (nvrtc.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, none, none) != 0 {
            return Err(Error::cuda("NVRTC could not start a compilation"));
        }
        let status = (nvrtc.compile)(program, options.len() as c_int, options.as_ptr());
        let result = if status == 0 {
            read(program, nvrtc.code_size, nvrtc.code).ok_or_else(|| Error::cuda("NVRTC gave no code"))
        } else {
            let log = read(program, nvrtc.log_size, nvrtc.log).unwrap_or_default();
            let log = CStr::from_bytes_until_nul(&log).map(|l| l.to_string_lossy().into_owned()).unwrap_or_default();
            Err(Error::cuda(format!("NVRTC refused a generated kernel for sm_{sm}: {log}")))
        };
        (nvrtc.destroy)(&mut program);
        result
    }
}

/// # Safety
/// `size` and `get` are functions of the NVRTC that made `program`.
unsafe fn read(program: Program, size: Size, get: Get) -> Option<Vec<u8>> {
    let mut bytes = 0usize;
    // SAFETY: the size is written to `bytes`, and as many bytes fit into the buffer.
    unsafe {
        if size(program, &mut bytes) != 0 {
            return None;
        }
        let mut buffer = vec![0u8; bytes];
        (get(program, buffer.as_mut_ptr().cast()) == 0).then_some(buffer)
    }
}

fn loaded() -> Result<&'static Nvrtc> {
    static NVRTC: OnceCell<Nvrtc> = OnceCell::new();
    NVRTC.get_or_try_init(|| {
        // Finding cuDNN has opened NVRTC where it is, so its name is enough.
        let cudart = crate::library::Library::for_planning()?.cudart();
        let name = format!("libnvrtc.so.{}", cudart.major);
        // SAFETY: NVRTC's initializers do nothing but set up its own state.
        let library = unsafe { Library::new(&name) }.map_err(|e| {
            Error::environment(format!("{name} is needed to compile kernels: {e}; `pip install nvidia-cuda-nvrtc`"))
        })?;
        let missing = |e: libloading::Error| Error::environment(format!("{name} is not NVRTC: {e}"));
        // SAFETY: NVRTC has had these functions with these signatures since CUDA 11.
        unsafe {
            Ok(Nvrtc {
                create: *library.get(b"nvrtcCreateProgram\0").map_err(missing)?,
                compile: *library.get(b"nvrtcCompileProgram\0").map_err(missing)?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0").map_err(missing)?,
                log: *library.get(b"nvrtcGetProgramLog\0").map_err(missing)?,
                code_size: *library.get(b"nvrtcGetCUBINSize\0").map_err(missing)?,
                code: *library.get(b"nvrtcGetCUBIN\0").map_err(missing)?,
                destroy: *library.get(b"nvrtcDestroyProgram\0").map_err(missing)?,
                _library: library,
            })
        }
    })
}
