//! The last line of defence: a panic in a macro becomes one readable error, and the user's item stays.

use crate::diagnostics::{self as says, Errors};
use proc_macro2::{Span, TokenStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs `expand`; if it panics, the result is `item` with an error that says where.
pub(crate) fn guarded(item: &TokenStream, expand: impl Fn() -> TokenStream) -> TokenStream {
    panic::catch_unwind(AssertUnwindSafe(&expand)).unwrap_or_else(|_| {
        let mut errors = Errors::default();
        errors.at(Span::call_site(), &says::BUG, &[&place(&expand)]);
        let mut tokens = errors.into_tokens();
        tokens.extend(item.clone());
        tokens
    })
}

/// Where the panic happens. The macros are deterministic, so it happens again under a hook that notes it; in the good case no hook,
/// which is shared by all threads of the compiler, is touched.
fn place(expand: &dyn Fn() -> TokenStream) -> String {
    let noted = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&noted);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
        let reason = reason(info.payload()).map_or_else(String::new, |reason| format!(": {reason}"));
        *note.lock().unwrap_or_else(PoisonError::into_inner) = place + &reason;
    }));
    let again = panic::catch_unwind(AssertUnwindSafe(expand));
    panic::set_hook(hook);
    drop(again);
    noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The text of a panic: `PanicHookInfo::payload_as_str` is younger than our oldest compiler.
fn reason(payload: &dyn std::any::Any) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::guarded;
    use quote::quote;

    #[test]
    fn a_panic_is_an_error_with_its_place_and_the_item_stays() {
        let tokens = guarded(
            &quote!(
                fn f() {}
            ),
            || panic!("impossible"),
        )
        .to_string();
        assert!(
            tokens.contains("this is a bug in fused-graph: its macro panicked at macros/src/guard.rs:"),
            "{tokens}"
        );
        assert!(tokens.contains("impossible") && tokens.contains("[FG099]"), "{tokens}");
        assert!(tokens.ends_with("fn f () { }"), "{tokens}");
    }
}
