//! What this thread is building: a body that calls its own function would wait for itself.

use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Addresses of the cells, which live as long as their builds.
    static CELLS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn address<T>(cell: &Arc<T>) -> usize {
    Arc::as_ptr(cell).addr()
}

/// Whether this thread is building the plan of this cell.
pub(super) fn is_here<T>(cell: &Arc<T>) -> bool {
    CELLS.with_borrow(|cells| cells.contains(&address(cell)))
}

/// A build on this thread, until it is dropped.
pub(super) struct Here;

/// Notes that this thread is building the plan of this cell.
pub(super) fn enter<T>(cell: &Arc<T>) -> Here {
    CELLS.with_borrow_mut(|cells| cells.push(address(cell)));
    Here
}

impl Drop for Here {
    fn drop(&mut self) {
        CELLS.with_borrow_mut(|cells| cells.pop());
    }
}
