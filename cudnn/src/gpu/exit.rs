//! The end of the process, at which the driver and cuDNN take themselves apart while other threads may still be calling them.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

static ENDING: AtomicBool = AtomicBool::new(false);
static BY: std::sync::Mutex<Option<ThreadId>> = std::sync::Mutex::new(None);

/// A call that has begun is over by then.
const CALL: Duration = Duration::from_millis(2);

unsafe extern "C" {
    fn atexit(callback: extern "C" fn()) -> c_int;
}

/// What is registered last runs first, and each library of NVIDIA's registers its own end when it is loaded, some of them with the first plan of a
/// kind: so this is called whenever one was compiled. More often than this nothing new is loaded.
const PLANS: u32 = 256;

/// From now on the end of the process holds other threads back while driver and cuDNN are still whole.
pub(super) fn watch() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if CALLS.fetch_add(1, Ordering::Relaxed) < PLANS {
        // SAFETY: C's `atexit`; the function lives as long as the process and does not unwind. If it cannot be registered, nothing is held back.
        let _ = unsafe { atexit(ending) };
    }
}

extern "C" fn ending() {
    if ENDING.load(Ordering::Relaxed) {
        return;
    }
    if let Ok(mut by) = BY.lock() {
        *by = Some(thread::current().id());
    }
    ENDING.store(true, Ordering::SeqCst);
    thread::sleep(CALL);
}

/// Holds the calling thread back for good if the process is ending, unless it is the thread that ends it.
#[inline]
pub(crate) fn check() {
    if ENDING.load(Ordering::Relaxed) {
        hold();
    }
}

#[cold]
fn hold() {
    if BY.lock().is_ok_and(|by| *by == Some(thread::current().id())) {
        return;
    }
    loop {
        thread::park();
    }
}
