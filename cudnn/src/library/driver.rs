//! The CUDA driver, `libcuda.so.1`.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudnn_sys::{Library, Version};

use super::loader;

/// Where the driver lies when the loader does not know about it: WSL, NVIDIA's containers, NixOS.
const ELSEWHERE: &[&str] = &["/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib"];

/// The driver's library.
#[derive(Debug)]
pub(crate) struct Driver {
    library: Library,
    /// The newest CUDA that it runs.
    pub(crate) version: Version,
    /// The file that was loaded.
    pub(crate) path: Option<PathBuf>,
}

/// The driver, or each name that was tried with the reason.
pub(crate) fn driver() -> Result<&'static Driver, &'static [String]> {
    static DRIVER: OnceLock<Result<Driver, Vec<String>>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref().map_err(Vec::as_slice)
}

/// A function of the driver that cudarc does not declare under every toolkit.
///
/// # Safety
/// `F` is a pointer to a function with the signature that the driver's function of this name has.
pub(crate) unsafe fn function<F: Copy>(name: &str) -> Result<F, String> {
    let driver = driver().map_err(|reasons| reasons.join("; "))?;
    // SAFETY: as the caller says; the library stays loaded.
    let function =
        unsafe { driver.library.get::<F>(name) }.map_err(|e| format!("the CUDA driver has no {name}: {e}"))?;
    Ok(*function)
}

/// Whether there is a CUDA driver on this machine.
///
/// Decided once, before a stand-in for it is loaded, so a stand-in does not count. `cudarc` panics where there is no
/// driver: ask this before the first call to it.
pub fn present() -> bool {
    driver().is_ok()
}

fn open() -> Result<Driver, Vec<String>> {
    let name = "libcuda.so.1";
    let elsewhere = ELSEWHERE.iter().map(|folder| Path::new(folder).join(name)).filter(|path| path.exists());
    let paths = std::iter::once(loader::search_name(name)).chain(elsewhere);
    let mut reasons = vec![];
    for path in paths {
        match loader::open(&path) {
            Ok(library) => return Driver::new(library).map_err(|reason| vec![reason]),
            Err(error) => reasons.push(error),
        }
    }
    Err(reasons)
}

impl Driver {
    fn new(library: Library) -> Result<Self, String> {
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
        // SAFETY: the driver's function of this name has had this signature since CUDA 2.2.
        let get_version = unsafe { library.get::<GetVersion>("cuDriverGetVersion") }.map_err(|e| e.to_string())?;
        let mut version = 0;
        // SAFETY: the argument points to an int; the function needs no context and no cuInit.
        let code = unsafe { get_version(&mut version) };
        if code != 0 {
            return Err(format!("cuDriverGetVersion answered {code}"));
        }
        let path = loader::path_of(*get_version as *const std::ffi::c_void);
        Ok(Self { version: Version::from_cuda(version.unsigned_abs() as usize), path, library })
    }

    /// How many GPUs the driver offers, or the name of its error. What `CUDA_VISIBLE_DEVICES` hides is not counted.
    pub(crate) fn devices(&self) -> Result<u32, String> {
        type Init = unsafe extern "C" fn(c_uint) -> c_int;
        type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
        // SAFETY: the driver's functions of these names have had these signatures since CUDA 1.0.
        let (init, count) = unsafe {
            let init = self.library.get::<Init>("cuInit").map_err(|e| e.to_string())?;
            (init, self.library.get::<Count>("cuDeviceGetCount").map_err(|e| e.to_string())?)
        };
        let mut devices = 0;
        // SAFETY: cuInit may be called any number of times; the count points to an int.
        let code = unsafe {
            match init(0) {
                0 => count(&mut devices),
                code => code,
            }
        };
        const NO_DEVICE: c_int = 100;
        match code {
            0 => Ok(devices.unsigned_abs()),
            NO_DEVICE => Ok(0),
            code => Err(self.error_name(code)),
        }
    }

    fn error_name(&self, code: c_int) -> String {
        type GetErrorName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        let mut name = std::ptr::null();
        // SAFETY: the driver's function has had this signature since CUDA 6; it stores a static string or a null
        // pointer, and is not asked for it if it is missing.
        unsafe {
            if let Ok(get_name) = self.library.get::<GetErrorName>("cuGetErrorName") {
                get_name(code, &mut name);
            }
            if name.is_null() { format!("error {code}") } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        }
    }
}
