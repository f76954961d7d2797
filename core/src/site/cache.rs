//! The plans of one function: the one used last, found without a lock that waits, then a bounded map.

use super::key::Key;
use super::{Meta, building};
use crate::backend::{Executable, Identity};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::explain::PlanSource;
use crate::ir::Graph;
use crate::store;
use arc_swap::ArcSwapOption;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// Plans that one function keeps in memory; the one unused for longest goes first.
const CAPACITY: usize = 256;

/// The static of an annotated function: what it is and the plans it has.
#[derive(Debug)]
pub struct Site {
    meta: Meta,
    last: ArcSwapOption<(Key, Arc<Entry>)>,
    plans: OnceLock<RwLock<HashMap<Key, Slot, foldhash::fast::RandomState>>>,
    clock: AtomicU64,
    counters: Counters,
}

/// A finished plan.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) graph: Arc<Graph>,
    pub(crate) executable: Arc<dyn Executable>,
    /// For each result of the function its position among the results of the executable.
    pub(crate) order: Vec<usize>,
    /// Where it came from.
    pub(crate) source: PlanSource,
    /// What it is stored under.
    pub(crate) key: store::Key,
    /// Whether its engines were chosen by timing them.
    pub(crate) tuned: bool,
    /// Time it took to make.
    pub(crate) build: Duration,
}

impl Entry {
    /// The form in which it is stored.
    pub(crate) fn stored(&self) -> Result<store::Entry> {
        let payload = self.executable.to_bytes()?.unwrap_or_default();
        let function = self.graph.name().to_owned();
        Ok(store::Entry { key: self.key.clone(), function, tuned: self.tuned, payload })
    }
}

/// A plan, one being built, or the refusal that stands for this process.
#[derive(Debug, Default)]
struct Slot {
    cell: Arc<OnceCell<Result<Arc<Entry>>>>,
    used: AtomicU64,
}

#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    built: AtomicU64,
    loaded: AtomicU64,
    shared: AtomicU64,
    reused: AtomicU64,
    failed: AtomicU64,
    evicted: AtomicU64,
    build_micros: AtomicU64,
}

impl Site {
    /// A function that has not been called.
    pub const fn new(meta: Meta) -> Site {
        Site {
            meta,
            last: ArcSwapOption::const_empty(),
            plans: OnceLock::new(),
            clock: AtomicU64::new(0),
            counters: Counters {
                calls: AtomicU64::new(0),
                built: AtomicU64::new(0),
                loaded: AtomicU64::new(0),
                shared: AtomicU64::new(0),
                reused: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                evicted: AtomicU64::new(0),
                build_micros: AtomicU64::new(0),
            },
        }
    }

    /// What the macro knows of the function.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn count_call(&self) {
        self.counters.calls.fetch_add(1, Relaxed);
    }

    /// The plan of this key if it is there.
    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Entry>> {
        if let Some(last) = self.last.load().as_deref()
            && last.0 == *key
        {
            return Some(Arc::clone(&last.1));
        }
        self.find_in_map(key)
    }

    fn find_in_map(&self, key: &Key) -> Option<Arc<Entry>> {
        let plans = self.plans.get()?.read().unwrap_or_else(PoisonError::into_inner);
        let slot = plans.get(key)?;
        slot.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        let entry = Arc::clone(slot.cell.get()?.as_ref().ok()?);
        drop(plans);
        self.last.store(Some(Arc::new((key.clone(), Arc::clone(&entry)))));
        Some(entry)
    }

    /// The plan of this key, built by exactly one of the threads that ask for it; true if by this one. A failed build is tried again by
    /// the next call, but what no kernel can do stays refused.
    pub(crate) fn get_or_build(&self, key: Key, build: impl FnOnce() -> Result<Entry>) -> Result<(Arc<Entry>, bool)> {
        let cell = self.slot(&key);
        if building::is_here(&cell) {
            return Err(Error::argument(format!(
                "`{0}` calls itself with the same signature while its body runs, so it would wait for itself; inline it with `{0}::expr`",
                self.meta.name
            )));
        }
        let mut fresh = false;
        let built = cell.get_or_try_init(|| {
            fresh = true;
            let _here = building::enter(&cell);
            match build() {
                Ok(entry) => {
                    let counter =
                        if entry.source == PlanSource::Built { &self.counters.built } else { &self.counters.loaded };
                    counter.fetch_add(1, Relaxed);
                    let (shared, reused) = entry.executable.shared();
                    self.counters.shared.fetch_add(shared as u64, Relaxed);
                    self.counters.reused.fetch_add(reused as u64, Relaxed);
                    self.counters.build_micros.fetch_add(entry.build.as_micros() as u64, Relaxed);
                    Ok(Ok(Arc::new(entry)))
                }
                Err(error) => {
                    self.counters.failed.fetch_add(1, Relaxed);
                    if error.kind() == ErrorKind::Unsupported { Ok(Err(error)) } else { Err(error) }
                }
            }
        });
        match built {
            Ok(Ok(entry)) => {
                self.last.store(Some(Arc::new((key, Arc::clone(entry)))));
                Ok((Arc::clone(entry), fresh))
            }
            Ok(Err(refused)) => Err(refused.clone()),
            Err(error) => {
                self.forget(&key, &cell);
                Err(error)
            }
        }
    }

    /// Puts a plan in the place of the one that the key had. Launches of that one in flight finish.
    pub(crate) fn replace(&self, key: Key, entry: Entry) {
        self.counters.built.fetch_add(1, Relaxed);
        self.counters.build_micros.fetch_add(entry.build.as_micros() as u64, Relaxed);
        let entry = Arc::new(entry);
        let lock = self.plans.get_or_init(Default::default);
        let mut plans = lock.write().unwrap_or_else(PoisonError::into_inner);
        let used = AtomicU64::new(self.clock.fetch_add(1, Relaxed));
        plans.insert(key.clone(), Slot { cell: Arc::new(OnceCell::with_value(Ok(Arc::clone(&entry)))), used });
        drop(plans);
        self.last.store(Some(Arc::new((key, entry))));
    }

    fn slot(&self, key: &Key) -> Arc<OnceCell<Result<Arc<Entry>, Error>>> {
        let lock = self.plans.get_or_init(Default::default);
        let mut plans = lock.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= CAPACITY && !plans.contains_key(key) {
            // Launches in flight and builds that are waited for hold the entry or the cell themselves.
            let oldest = plans.iter().min_by_key(|(_, s)| s.used.load(Relaxed)).map(|(k, _)| k.clone());
            if let Some(oldest) = oldest {
                plans.remove(&oldest);
                self.counters.evicted.fetch_add(1, Relaxed);
            }
        }
        let slot = plans.entry(key.clone()).or_default();
        slot.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        Arc::clone(&slot.cell)
    }

    /// Drops the slot of a build that failed, unless somebody has started another one.
    fn forget(&self, key: &Key, cell: &Arc<OnceCell<Result<Arc<Entry>>>>) {
        if let Some(plans) = self.plans.get() {
            let mut plans = plans.write().unwrap_or_else(PoisonError::into_inner);
            if plans.get(key).is_some_and(|s| Arc::ptr_eq(&s.cell, cell) && s.cell.get().is_none()) {
                plans.remove(key);
            }
        }
    }

    /// Makes a plan that another process wrote known to this one: the next call with its signature compiles nothing.
    pub fn load(&self, device: &Device, bytes: &[u8]) -> Result<()> {
        let entry = store::Entry::from_bytes(bytes).map_err(|e| e.context(format!("`{}`", self.meta.name)))?;
        let here = Identity::of(device);
        if entry.function != self.meta.name {
            let text = format!("these bytes are a plan of `{}`, not of `{}`", entry.function, self.meta.name);
            return Err(Error::argument(text));
        }
        if entry.key.device != here.device {
            let text = format!("`{}`: this plan is for {}, not for {}", self.meta.name, entry.key.device, here.device);
            return Err(Error::device(text));
        }
        if entry.key.library != here.library {
            return Err(Error::cache(format!(
                "`{}`: this plan was made with {}, but {} is in use; plans fit exactly one version, so make it anew",
                self.meta.name, entry.key.library, here.library
            )));
        }
        store::load(entry);
        Ok(())
    }

    /// Forgets every plan of the function. Launches in flight finish.
    pub fn clear(&self) {
        self.last.store(None);
        if let Some(plans) = self.plans.get() {
            plans.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Counts since the start of the process.
    pub fn stats(&self) -> Stats {
        let plans = self.plans.get().map(|p| p.read().unwrap_or_else(PoisonError::into_inner));
        let in_memory = plans.map_or(0, |p| p.values().filter(|s| matches!(s.cell.get(), Some(Ok(_)))).count());
        let c = &self.counters;
        let (calls, built, failed) = (c.calls.load(Relaxed), c.built.load(Relaxed), c.failed.load(Relaxed));
        Stats {
            function: self.meta.name,
            calls,
            plans_built: built,
            plans_loaded: c.loaded.load(Relaxed),
            kernels_shared: c.shared.load(Relaxed),
            kernels_reused: c.reused.load(Relaxed),
            builds_failed: failed,
            plans_in_memory: in_memory as u64,
            evicted: c.evicted.load(Relaxed),
            build_ms: c.build_micros.load(Relaxed) as f64 / 1e3,
        }
    }
}

/// What a function did since the start of the process. `Display` prints a line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The function.
    pub function: &'static str,
    /// Calls, including those that failed.
    pub calls: u64,
    /// Plans that were built: compiled, or tuned.
    pub plans_built: u64,
    /// Plans that came from the store on disk or from loaded bytes, without compiling.
    pub plans_loaded: u64,
    /// Kernels that were built with `dynamic_shapes`, to serve other sizes too.
    pub kernels_shared: u64,
    /// Those of them that were compiled for another size before.
    pub kernels_reused: u64,
    /// Builds that failed.
    pub builds_failed: u64,
    /// Plans kept at this moment.
    pub plans_in_memory: u64,
    /// Plans that made room for others.
    pub evicted: u64,
    /// Time spent on building and loading, in milliseconds.
    pub build_ms: f64,
}

impl Stats {
    /// Calls that found their plan.
    pub fn hits(&self) -> u64 {
        self.calls.saturating_sub(self.plans_built + self.plans_loaded + self.builds_failed)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { function, calls, plans_built, plans_loaded, build_ms, .. } = self;
        write!(f, "{function}: {calls} calls, {} hits, {plans_built} plans built", self.hits())?;
        if *plans_loaded > 0 {
            write!(f, " and {plans_loaded} loaded")?;
        }
        write!(f, " in {build_ms:.1} ms")?;
        if self.kernels_shared > 0 {
            write!(f, " ({} of {} kernels were there for another size)", self.kernels_reused, self.kernels_shared)?;
        }
        write!(f, ", {} in memory, {} evicted, {} failed", self.plans_in_memory, self.evicted, self.builds_failed)
    }
}
