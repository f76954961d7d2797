//! Opening shared libraries, and seeing which are open.

use std::path::{Path, PathBuf};

pub(crate) use imp::{already_loaded, memory_file, open, open_global, path_of};

#[cfg(target_os = "linux")]
mod imp {
    use std::error::Error;
    use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
    use std::fs::File;
    use std::os::fd::FromRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use cudnn_sys::Library;
    use libloading::os::unix;

    /// glibc and musl agree on it.
    const RTLD_NOLOAD: c_int = 4;

    fn open_with(name: &Path, flags: c_int) -> Result<Library, String> {
        // SAFETY: what is opened through this module are NVIDIA's libraries and our stand-in for one. Their
        // initialisers ask nothing of the process, and no finaliser runs early since none is ever closed before exit.
        let library = unsafe { unix::Library::open(Some(name), flags) };
        // The loader's own words are the source; the error itself says no more than that it failed.
        library.map(Library::from).map_err(|error| error.source().map_or(error.to_string(), ToString::to_string))
    }

    /// Opens a library by path, or by name through the loader's own search.
    pub(crate) fn open(name: &Path) -> Result<Library, String> {
        open_with(name, unix::RTLD_NOW | unix::RTLD_LOCAL)
    }

    /// The same, and lets libraries opened later link to it.
    pub(crate) fn open_global(name: &Path) -> Result<Library, String> {
        open_with(name, unix::RTLD_NOW | unix::RTLD_GLOBAL)
    }

    /// The library of this name, if the process has it open.
    pub(crate) fn already_loaded(name: &str) -> Option<Library> {
        open_with(Path::new(name), unix::RTLD_NOW | RTLD_NOLOAD).ok()
    }

    /// A file that exists in memory only, and the path by which it can be opened as long as it is not closed. The function
    /// is looked up, since the C library may be too old to have it.
    pub(crate) fn memory_file(name: &str) -> Result<(File, PathBuf), String> {
        const CLOSE_ON_EXEC: c_uint = 1;
        type Create = unsafe extern "C" fn(*const c_char, c_uint) -> c_int;
        // SAFETY: the C library's `memfd_create` has this signature wherever it exists.
        let create = unsafe { unix::Library::this().get::<Create>("memfd_create") }
            .map_err(|_| "the C library has no memory files")?;
        let name = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the name is NUL-terminated and outlives the call.
        let descriptor = unsafe { create(name.as_ptr(), CLOSE_ON_EXEC) };
        if descriptor < 0 {
            return Err(format!("memory file: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just made and nobody else has it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        Ok((file, PathBuf::from(format!("/proc/self/fd/{descriptor}"))))
    }

    /// `Dl_info` of `dlfcn.h`.
    #[repr(C)]
    struct Info {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }

    /// The file that holds the code at this address, as it was named when it was opened: links are not followed.
    pub(crate) fn path_of(address: *const c_void) -> Option<PathBuf> {
        type Find = unsafe extern "C" fn(*const c_void, *mut Info) -> c_int;
        // SAFETY: the C library's `dladdr` has this signature.
        let find = unsafe { unix::Library::this().get::<Find>("dladdr") }.ok()?;
        let null: *mut c_void = std::ptr::null_mut();
        let mut info = Info { file: null.cast(), base: null, symbol: null.cast(), address: null };
        // SAFETY: any address may be asked about, and the answer has the layout above.
        if unsafe { find(address, &mut info) } == 0 || info.file.is_null() {
            return None;
        }
        // SAFETY: the name is a string of the loader's own, which lives as long as the library is open.
        let name = unsafe { CStr::from_ptr(info.file) };
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::path::Path;

    use cudnn_sys::Library;

    const ELSEWHERE: &str = "fused-graph loads NVIDIA's libraries on Linux only";

    pub(crate) fn open(_: &Path) -> Result<Library, String> {
        Err(ELSEWHERE.to_owned())
    }

    pub(crate) fn open_global(_: &Path) -> Result<Library, String> {
        Err(ELSEWHERE.to_owned())
    }

    pub(crate) fn already_loaded(_: &str) -> Option<Library> {
        None
    }

    pub(crate) fn memory_file(_: &str) -> Result<(std::fs::File, std::path::PathBuf), String> {
        Err(ELSEWHERE.to_owned())
    }

    pub(crate) fn path_of(_: *const std::ffi::c_void) -> Option<std::path::PathBuf> {
        None
    }
}

/// What to open so that the loader searches for this library. In tests that have a root of their own: a file under it.
pub(crate) fn search_name(name: &str) -> PathBuf {
    match super::places::Root::of_test() {
        Some(root) => root.join("loader").join(name),
        None => PathBuf::from(name),
    }
}

/// The files that are mapped and whose name begins like this: `libcudnn` finds all of cuDNN's.
pub(crate) fn loaded_files(prefix: &str) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let named = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut files: Vec<_> = mapped_files(&maps).filter(|path| named(path)).map(Path::to_owned).collect();
    files.sort();
    files.dedup();
    files
}

/// Lines look like `7f12…-7f13… r-xp 00001000 fe:00 1234   /usr/lib/libfoo.so`.
fn mapped_files(maps: &str) -> impl Iterator<Item = &Path> {
    maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read() {
        let maps = "55d0-55d1 r--p 00000000 fe:00 12  /usr/bin/a b\n7f00-7f01 rw-p 00000000 00:00 0 \n\
                    7ffe-7fff r-xp 00000000 00:00 0    [vdso]\n7f02-7f03 r-xp 00000000 fe:00 13 /lib/libc.so.6\n";
        assert_eq!(mapped_files(maps).collect::<Vec<_>>(), [Path::new("/usr/bin/a b"), Path::new("/lib/libc.so.6")]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_function_of_the_c_library_is_placed_in_its_file() {
        let path = path_of(std::ptr::from_ref(&std::env::consts::OS).cast()).expect("code of this program");
        assert!(path.is_absolute() || path.exists(), "{}", path.display());
        let library = open(Path::new("libc.so.6")).expect("the C library");
        // SAFETY: the symbol is looked up, not called.
        let malloc = unsafe { library.get::<unsafe extern "C" fn()>("malloc").expect("malloc") };
        let path = path_of(*malloc as *const std::ffi::c_void).expect("its file");
        assert!(path.ends_with("libc.so.6"), "{}", path.display());
        assert!(loaded_files("libc.so").iter().any(|file| file.ends_with("libc.so.6")));
    }
}
