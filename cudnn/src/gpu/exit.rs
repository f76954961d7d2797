//! The end of the process, at which the driver and cuDNN take themselves apart while other threads may still be calling them.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

static ENDING: AtomicBool = AtomicBool::new(false);
static BY: std::sync::Mutex<Option<ThreadId>> = std::sync::Mutex::new(None);

/// A call that has begun is over by then.
const CALL: Duration = Duration::from_millis(2);

unsafe extern "C" {
    fn atexit(callback: extern "C" fn()) -> c_int;
}

/// From now on the end of the process holds other threads back. Called when driver and cuDNN are there: what is registered later runs earlier, so
/// they are still whole then.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: C's `atexit`; the function lives as long as the process and does not unwind. If it cannot be registered, nothing is held back.
        let _ = unsafe { atexit(ending) };
    });
}

extern "C" fn ending() {
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
