//! Host memory that tensors share.

use super::host::HostData;
use std::sync::{Arc, PoisonError, RwLock};

/// The elements behind tensors on the CPU. Who reads them holds them as they were when they were asked for; what is written is seen by all who ask later.
#[derive(Debug)]
pub struct HostMemory(RwLock<Arc<HostData>>);

impl HostMemory {
    /// Memory with these elements.
    pub fn new(data: impl Into<Arc<HostData>>) -> Self {
        HostMemory(RwLock::new(data.into()))
    }

    /// The elements as they are now.
    pub fn load(&self) -> Arc<HostData> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges the elements for others of the same type and number, and gives the old ones. Others may hold the new ones too: who changes them
    /// copies them first.
    pub(crate) fn replace(&self, data: Arc<HostData>) -> Arc<HostData> {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!((now.dtype(), now.len()), (data.dtype(), data.len()));
        std::mem::replace(&mut *now, data)
    }

    /// Changes elements in place; those who hold the old ones keep them, at the price of a copy.
    pub(crate) fn change(&self, f: impl FnOnce(&mut HostData)) {
        f(Arc::make_mut(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner)))
    }
}
