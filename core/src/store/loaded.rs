//! What this process was given: plans as bytes, and bundles.

use super::{Bundle, Entry, Key};
use crate::error::Result;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Once, PoisonError, RwLock};

static LOADED: RwLock<Option<HashMap<Key, Entry>>> = RwLock::new(None);

/// Makes an entry known to the process. One that was tuned is not replaced by one that was not.
pub fn load(entry: Entry) {
    let mut loaded = LOADED.write().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if entry.tuned || !loaded.get(&entry.key).is_some_and(|known| known.tuned) {
        loaded.insert(entry.key.clone(), entry);
    }
}

/// Makes all plans of a bundle known to the process, and says how many they are. Those for other GPUs and versions do no harm.
pub fn load_bundle(path: impl AsRef<Path>) -> Result<usize> {
    let bundle = Bundle::read(path.as_ref())?;
    let count = bundle.entries().len();
    bundle.entries().iter().cloned().for_each(load);
    Ok(count)
}

/// The entry of a key, from what was loaded or from the bundles that `FUSED_GRAPH_BUNDLE` lists.
///
/// If the same plan is there for another version of the library, that is said once.
pub fn loaded(key: &Key) -> Option<Entry> {
    of_environment();
    let loaded = LOADED.read().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.as_ref()?;
    if let Some(entry) = loaded.get(key) {
        return Some(entry.clone());
    }
    if let Some(other) = loaded.values().find(|e| e.key.is_another_version_of(key)) {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::warn!(
                "a plan of `{}` was loaded that is for {}, but {} is in use: plans are built anew",
                other.function,
                other.key.library,
                key.library
            );
        });
    }
    None
}

/// The versions for which a plan was loaded that is otherwise of this key.
#[cfg(test)]
pub(crate) fn other_versions(key: &Key) -> Vec<String> {
    let loaded = LOADED.read().unwrap_or_else(PoisonError::into_inner);
    let entries = loaded.iter().flat_map(|l| l.values()).filter(|e| e.key.is_another_version_of(key));
    let mut versions: Vec<String> = entries.map(|e| e.key.library.clone()).collect();
    versions.sort();
    versions.dedup();
    versions
}

fn of_environment() {
    static READ: Once = Once::new();
    READ.call_once(|| {
        let Some(paths) = std::env::var_os("FUSED_GRAPH_BUNDLE") else { return };
        for path in std::env::split_paths(&paths).filter(|p| !p.as_os_str().is_empty()) {
            match load_bundle(&path) {
                Ok(count) => tracing::debug!(count, path = %path.display(), "bundle loaded"),
                Err(error) => tracing::warn!(%error, "FUSED_GRAPH_BUNDLE"),
            }
        }
    });
}
