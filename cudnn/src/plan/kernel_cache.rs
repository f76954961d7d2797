//! Kernels that plans of one function for different sizes share.

use super::Choice;
use crate::descriptor::Descriptor;
use crate::lower::Lowered;
use cudnn_sys::{Api, AttributeName, DescriptorType};
use fused_graph_core::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// cuDNN's caches of compiled kernels on one GPU: one for each function and shape of its graph, whatever the sizes.
#[derive(Debug, Default)]
pub struct KernelCaches(Mutex<HashMap<(String, u64), KernelCache>>);

/// One of them. Two threads that build plans with one cache at once make cuDNN fail, so whoever builds holds the lock.
pub(crate) type KernelCache = Arc<Mutex<Shared>>;

/// A cache, and the configurations that were compiled into it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cache: Descriptor,
    pub(crate) choices: Vec<Choice>,
}

impl KernelCaches {
    /// The cache for an operation graph of a function, made with the first that asks.
    pub(crate) fn get(&self, api: &'static Api, function: &str, lowered: &Lowered) -> Result<KernelCache> {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (function.to_owned(), lowered.topology);
        if let Some(cache) = caches.get(&key) {
            return Ok(Arc::clone(cache));
        }
        let cache = Descriptor::build(api, DescriptorType::KERNEL_CACHE, |d| {
            d.set_descriptors(AttributeName::KERNEL_CACHE_OPERATION_GRAPH, &[&lowered.graph])
        })?;
        let cache = Arc::new(Mutex::new(Shared { cache, choices: Vec::new() }));
        caches.insert(key, Arc::clone(&cache));
        Ok(cache)
    }
}

/// Whether the kernel of a configuration is in a cache: cuDNN counts it, if it is asked about it.
pub(crate) fn holds(cache: &Descriptor, config: &Descriptor) -> bool {
    cache.query(AttributeName::KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED, config).unwrap_or(0) > 0
}
