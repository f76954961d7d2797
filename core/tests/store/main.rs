//! The store against everything that happens to files: damage, killed writers, full and read-only disks, many processes at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod child;
mod disk;
mod processes;

use fused_graph_core::store::{Checked, Disk, Entry, Key};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// More than any test writes.
const ROOMY: u64 = 1 << 30;

fn key(text: &str) -> Key {
    Key { device: "NVIDIA H200, sm_90, 132 SMs".into(), library: "cuDNN 9.19.0".into(), text: text.into() }
}

fn plan(text: &str, payload: &[u8]) -> Entry {
    Entry { key: key(text), function: "linear".into(), tuned: false, payload: payload.to_vec() }
}

/// A payload that tells by itself whether it is whole: eight bytes and what follows from them.
fn stamped(name: &str, seed: u64, size: usize) -> Entry {
    let mut payload = vec![0; 8 + size];
    payload[..8].copy_from_slice(&seed.to_le_bytes());
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut payload[8..]);
    plan(&format!("{name} of {size}"), &payload)
}

/// Whether an entry is one that [`stamped`] made.
fn is_whole(entry: &Entry, name: &str, size: usize) -> bool {
    entry.payload.first_chunk().is_some_and(|seed| *entry == stamped(name, u64::from_le_bytes(*seed), size))
}

/// Whether an entry is kept once it is put.
fn put(disk: &Disk, entry: &Entry) -> bool {
    disk.put(entry);
    disk.list().is_ok_and(|list| list.iter().any(|s| matches!(&s.content, Checked::Plan(e) if **e == *entry)))
}

/// The file of an entry that is kept.
fn path(disk: &Disk, key: &Key) -> PathBuf {
    let list = disk.list().unwrap();
    list.into_iter().find(|s| matches!(&s.content, Checked::Plan(e) if e.key == *key)).unwrap().path
}

/// The files in a folder by name, in order.
fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The warnings that `f` gives.
fn warnings(f: impl FnOnce()) -> Vec<String> {
    let said = Warnings::default();
    tracing::subscriber::with_default(said.clone(), f);
    said.0.lock().unwrap().clone()
}

/// Collects the texts of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, meta: &tracing::Metadata<'_>) -> bool {
        *meta.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{value:?}");
    }
}
