//! Plans that outlive a process: bytes, the store on disk, and bundles of many.
//!
//! Everything here knows keys and payloads; what a payload means is the backend's. A key is stored whole and compared whole.

mod bundle;
mod disk;
mod entry;
mod files;
mod loaded;
mod settings;
#[cfg(test)]
mod tests;

pub use bundle::Bundle;
pub use disk::{Checked, Disk, Stored};
pub use entry::{Entry, Key};
pub use loaded::{load, load_bundle, loaded};

use crate::explain::PlanSource;

/// What is stored under a key: first what the process loaded, then the disk. An entry that was made by tuning wins over one that was not.
pub(crate) fn find(key: &Key) -> Option<(Entry, PlanSource)> {
    let from_disk = || Disk::of_environment()?.get(key).map(|entry| (entry, PlanSource::Disk));
    match loaded(key) {
        Some(entry) if entry.tuned => Some((entry, PlanSource::Loaded)),
        Some(entry) => from_disk().filter(|(e, _)| e.tuned).or(Some((entry, PlanSource::Loaded))),
        None => from_disk(),
    }
}

/// Writes an entry to the disk, if there is a store.
pub(crate) fn put(entry: &Entry) {
    if let Some(disk) = Disk::of_environment() {
        disk.put(entry);
    }
}
