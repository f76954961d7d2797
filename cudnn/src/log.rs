//! cuDNN's own log, which says why each engine refused a graph.
//!
//! The status of a call names at most a class of reasons, and of many engines only the last. The log's warnings name
//! engine, knobs, status and the condition that failed. They are sent to a callback, of which there is one per process,
//! so it is set only while somebody collects. That costs about 0.8 ms per refused graph (which takes 5 ms in itself).

mod parse;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use cudnn_sys::{Api, Callback, DebugInfo, Severity, Status};

pub use parse::{Refusal, distinct, refusals};

/// A message of the log: what one call had to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How grave it is.
    pub severity: Severity,
    /// What the call answers.
    pub status: Status,
    /// The lines. cuDNN cuts a message off at about 64 KiB.
    pub text: String,
}

impl Message {
    /// The refusals that it tells of.
    pub fn refusals(&self) -> Vec<Refusal> {
        refusals(&self.text)
    }
}

thread_local! {
    /// The collectors of this thread, innermost last.
    static COLLECTORS: RefCell<Vec<Vec<Message>>> = const { RefCell::new(vec![]) };
}

/// Runs `f` and returns what cuDNN logged meanwhile on this thread: errors and warnings (its log levels 1 and 2).
///
/// Nothing is collected where the user logs by `CUDNN_LOGLEVEL_DBG`, because a callback would take that log away, nor
/// where cuDNN refuses the callback. Of collectors inside each other, the inner one gets the messages.
pub fn collect<R>(api: &'static Api, f: impl FnOnce() -> R) -> (R, Vec<Message>) {
    let collector = Collector::start(api);
    let result = f();
    (result, collector.finish())
}

/// Ends the collecting also if the closure panics.
struct Collector {
    api: &'static Api,
    installed: bool,
    depth: usize,
}

impl Collector {
    fn start(api: &'static Api) -> Self {
        let depth = COLLECTORS.with_borrow_mut(|collectors| {
            collectors.push(vec![]);
            collectors.len()
        });
        Self { api, installed: !user_logs() && install(api), depth }
    }

    fn finish(self) -> Vec<Message> {
        COLLECTORS.with_borrow_mut(|collectors| collectors.last_mut().map(std::mem::take)).unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        COLLECTORS.with_borrow_mut(|collectors| collectors.truncate(self.depth - 1));
        if self.installed {
            uninstall(self.api);
        }
    }
}

fn user_logs() -> bool {
    std::env::var_os("CUDNN_LOGLEVEL_DBG").is_some_and(|level| !level.is_empty() && level != "0")
}

/// How many collectors want the callback, and what was there before it.
struct Installed {
    collectors: usize,
    before: Before,
}

/// Somebody else's callback.
#[derive(Clone, Copy)]
struct Before {
    mask: c_uint,
    user_data: *mut c_void,
    callback: Option<Callback>,
}

// SAFETY: the pointer is only handed back to cuDNN and to the callback it belongs to, which cuDNN calls from any thread.
unsafe impl Send for Before {}

const NOTHING: Before = Before { mask: 0, user_data: std::ptr::null_mut(), callback: None };

static INSTALLED: Mutex<Installed> = Mutex::new(Installed { collectors: 0, before: NOTHING });

fn install(api: &Api) -> bool {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if installed.collectors == 0 {
        let before = current(api);
        let mask = Severity::ERROR.mask() | Severity::WARNING.mask();
        // SAFETY: the callback has the type that cuDNN calls, stays valid for ever, and uses no user data.
        let status = unsafe { (api.set_callback)(mask | before.mask, std::ptr::null_mut(), Some(receive)) };
        if !status.is_success() {
            return false;
        }
        installed.before = before;
    }
    installed.collectors += 1;
    true
}

fn uninstall(api: &Api) {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    installed.collectors -= 1;
    if installed.collectors == 0 {
        let Before { mask, user_data, callback } = std::mem::replace(&mut installed.before, NOTHING);
        // SAFETY: this is what was set before. A failure leaves our callback, which ignores what nobody collects.
        unsafe { (api.set_callback)(mask, user_data, callback) };
    }
}

fn current(api: &Api) -> Before {
    let mut before = NOTHING;
    if let Some(get_callback) = api.get_callback {
        // SAFETY: all three results point to what they are to hold.
        let status = unsafe { get_callback(&mut before.mask, &mut before.user_data, &mut before.callback) };
        if !status.is_success() || before.callback.is_none() {
            return NOTHING;
        }
    }
    before
}

/// Called by cuDNN on the thread whose call the message is about.
unsafe extern "C" fn receive(severity: Severity, _: *mut c_void, info: *const DebugInfo, message: *const c_char) {
    // SAFETY: cuDNN passes a message, and information that it points to or a null pointer, valid for this call.
    let (status, text) = unsafe {
        let status = info.as_ref().map_or(Status::SUCCESS, |info| info.status);
        (status, |message| text_of(message))
    };
    // Nobody collects on this thread, or the thread is ending: then there is nothing to keep it in.
    let _ = COLLECTORS.try_with(|collectors| {
        if let Ok(mut collectors) = collectors.try_borrow_mut()
            && let Some(messages) = collectors.last_mut()
        {
            messages.push(Message { severity, status, text: text(message) });
        }
    });
    forward(severity, info, message);
}

/// A message is a sequence of C strings, a line each, that ends with an empty one.
fn text_of(message: *const c_char) -> String {
    let mut text = String::new();
    let mut at = message;
    while !at.is_null() {
        // SAFETY: `at` points to a C string inside the message, of which an empty one is the last.
        let line = unsafe { CStr::from_ptr(at) };
        if line.is_empty() {
            break;
        }
        text.push_str(&line.to_string_lossy());
        text.push('\n');
        // SAFETY: the terminator of the line belongs to the message, and so does what follows it: a line or the end.
        at = unsafe { at.add(line.count_bytes() + 1) };
    }
    text
}

/// To the callback that was there before.
fn forward(severity: Severity, info: *const DebugInfo, message: *const c_char) {
    // Not locked while it runs: it may call cuDNN.
    let before = INSTALLED.try_lock().map(|installed| installed.before).unwrap_or(NOTHING);
    if let Some(callback) = before.callback
        && before.mask & severity.mask() != 0
    {
        // SAFETY: these are the arguments that cuDNN would have called it with.
        unsafe { callback(severity, before.user_data, info, message) };
    }
}

#[cfg(test)]
mod tests;
