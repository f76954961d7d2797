#![allow(clippy::panic, reason = "a test may")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use super::*;
use crate::library::loader;

/// Not the driver's: tests of one process share what is loaded.
const NAME: &str = "libfused_graph_stub_test.so.1";

fn functions() -> Vec<(&'static str, Body)> {
    [tables::DRIVER, tables::CUBLAS_LT].concat()
}

fn library() -> cudnn_sys::Library {
    assert_eq!(load(NAME, &functions()), Ok(()));
    loader::already_loaded(NAME).unwrap_or_else(|| panic!("the stand-in is not found by its name"))
}

#[test]
fn every_function_answers_as_the_table_says() {
    let library = library();
    for (name, body) in functions() {
        match body {
            Body::Return(code) => {
                // SAFETY: the function takes nothing into account.
                let answer = unsafe { library.get::<unsafe extern "C" fn() -> u32>(name).expect(name)() };
                assert_eq!(answer, code, "{name}");
            }
            Body::StoreInt(number, code) => {
                let mut stored = [-1, -1];
                // SAFETY: the function writes one int through its argument.
                let function = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(name) };
                // SAFETY: as above.
                let answer = unsafe { function.expect(name)(stored.as_mut_ptr()) };
                assert_eq!((answer, stored), (c_int::from(code), [c_int::from(number), -1]), "{name}");
            }
            Body::StoreIntSecond(number) => {
                let mut stored = [-1, -1];
                // SAFETY: the function writes one int through its second argument.
                let function = unsafe { library.get::<unsafe extern "C" fn(c_int, *mut c_int) -> c_int>(name) };
                // SAFETY: as above.
                let answer = unsafe { function.expect(name)(0, stored.as_mut_ptr()) };
                assert_eq!((answer, stored), (0, [c_int::from(number), -1]), "{name}");
            }
            Body::StoreNull => {
                let mut stored = std::ptr::dangling_mut::<c_void>();
                // SAFETY: the function writes one pointer through its argument.
                let function = unsafe { library.get::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(name) };
                // SAFETY: as above.
                let answer = unsafe { function.expect(name)(&mut stored) };
                assert_eq!((answer, stored), (0, std::ptr::null_mut()), "{name}");
            }
            Body::StoreText(text) => {
                type Function = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
                let mut stored = std::ptr::null();
                // SAFETY: the function writes one pointer, to a static string, through its second argument.
                let (answer, stored) = unsafe {
                    let answer = library.get::<Function>(name).expect(name)(1, &mut stored);
                    (answer, CStr::from_ptr(stored))
                };
                assert_eq!((answer, stored.to_str()), (0, Ok(text)), "{name}");
            }
        }
    }
}

#[test]
fn what_it_does_not_have_is_not_found() {
    let library = library();
    for name in ["cuMemAlloc_v2", "cuInit2", "", "cu"] {
        // SAFETY: the symbol is looked up, not called.
        assert!(unsafe { library.get::<unsafe extern "C" fn()>(name) }.is_err(), "{name}");
    }
}

#[test]
fn a_second_one_is_not_taken_for_the_first() {
    let (first, second) = ("libfused_graph_stub_one.so.1", "libfused_graph_stub_two.so.1");
    assert_eq!(load(first, &tables::DRIVER[..1]), Ok(()));
    assert_eq!(load(second, &tables::CUBLAS_LT[..1]), Ok(()));
    for (name, function) in [(first, tables::DRIVER[0].0), (second, tables::CUBLAS_LT[0].0)] {
        let library = loader::already_loaded(name).unwrap_or_else(|| panic!("{name} is not found"));
        // SAFETY: the symbol is looked up, not called.
        assert!(unsafe { library.get::<unsafe extern "C" fn()>(function) }.is_ok(), "{name} has no {function}");
    }
}

#[test]
fn it_loads_from_a_file_where_memory_files_are_forbidden_and_leaves_nothing() {
    let parent = std::env::temp_dir().join(format!("fused-graph-stub-test-{}", std::process::id()));
    std::fs::create_dir(&parent).expect("a folder");
    let arch = elf::Arch::host().expect("a known architecture");
    let name = "libfused_graph_stub_file_test.so.1";
    in_file(&parent, &elf::shared_library(arch, name, tables::DRIVER)).expect("it loads");
    assert!(loader::already_loaded(name).is_some());
    assert_eq!(std::fs::read_dir(&parent).expect("the folder").count(), 0);
    std::fs::remove_dir(&parent).expect("removed");
    assert!(in_file(Path::new("/nonexistent"), &[]).is_err());
}

/// The words of the other architecture, as a disassembler (capstone) reads them.
#[test]
fn aarch64_words() {
    let words = |body: Body| -> Vec<u32> {
        let code = body.code(elf::Arch::Aarch64);
        code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    };
    assert_eq!(words(Body::Return(130_400)), [0x529fac00, 0x72a00020, 0xd65f03c0]);
    assert_eq!(words(Body::StoreInt(13000, 100)), [0x52865902, 0xb9000002, 0x52800c80, 0xd65f03c0]);
    assert_eq!(words(Body::StoreIntSecond(13000)), [0x52865902, 0xb9000022, 0x52800000, 0xd65f03c0]);
    assert_eq!(words(Body::StoreNull), [0xf900001f, 0x52800000, 0xd65f03c0]);
    assert_eq!(words(Body::StoreText("abc"))[..4], [0x10000082, 0xf9000022, 0x52800000, 0xd65f03c0]);
}
