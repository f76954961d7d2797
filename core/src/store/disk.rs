//! The store on disk: a file a plan, written aside and renamed, so that a reader sees all of it or nothing.

use super::entry::{Fault, Kind};
use super::files::{Found, UNFINISHED, find, note_use, read_own, trusted};
use super::{Entry, Key, settings};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

/// A folder of plans. Any number of processes may use it at once.
///
/// Nothing that goes wrong here reaches a caller: what cannot be read is not there, what cannot be written is not kept, and one warning says why.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    size: u64,
    /// Whether it was said that something cannot be used, and that something cannot be kept.
    said: [AtomicBool; 2],
}

/// What a warning is about: each is said once.
#[derive(Clone, Copy)]
enum About {
    Reading,
    Writing,
}

/// A file of a store, for lists.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// When it was last used, to about ten minutes.
    pub used: SystemTime,
    /// What it is, or what is wrong with it.
    pub content: Checked,
}

/// What checking a file found.
#[derive(Clone, Debug)]
pub enum Checked {
    /// A plan.
    Plan(Box<Entry>),
    /// Something that is not used, and why.
    Unusable(String),
}

impl Disk {
    /// A store in a folder, which is made when something is written.
    pub fn new(folder: impl Into<PathBuf>, size: u64) -> Disk {
        Disk { folder: folder.into(), size, said: Default::default() }
    }

    /// The store that the environment asks for, decided once: none with `FUSED_GRAPH_CACHE=off`, else in `FUSED_GRAPH_CACHE_DIR` or the user's
    /// cache folder.
    pub fn of_environment() -> Option<&'static Disk> {
        static DISK: OnceLock<Option<Disk>> = OnceLock::new();
        DISK.get_or_init(|| {
            let settings = settings::of_environment();
            settings.folder.map(|folder| Disk::new(folder, settings.size))
        })
        .as_ref()
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry of a key. One that is damaged is removed, and said so; one of a newer version is left alone.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        let path = self.folder.join(key.file_name());
        let text = match read_own(&path) {
            Ok(Ok(entry)) if entry.key == *key => {
                note_use(&path);
                return Some(entry);
            }
            Ok(Ok(_)) => return None,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => e.to_string(),
            Ok(Err(Fault::Newer(format))) => format!("it has format {format} and is left alone"),
            Ok(Err(fault)) => {
                let _ = fs::remove_file(&path);
                fault.error(Kind::Plan).message().to_owned()
            }
        };
        self.warn(About::Reading, format_args!("{}: {text}", path.display()));
        None
    }

    /// Writes an entry. One that was tuned stays where the new one was not.
    pub fn put(&self, entry: &Entry) {
        let path = self.folder.join(entry.key.file_name());
        let keep = !entry.tuned && self.peek(&path).is_some_and(|e| e.tuned && e.key == entry.key);
        let written = if keep { Ok(()) } else { self.write(&path, entry) };
        match written {
            Ok(()) => self.evict(&path),
            Err(e) => {
                self.warn(About::Writing, format_args!("plans are not kept in {}: {e}", self.folder.display()));
            }
        }
    }

    fn peek(&self, path: &Path) -> Option<Entry> {
        read_own(path).ok()?.ok()
    }

    fn write(&self, path: &Path, entry: &Entry) -> io::Result<()> {
        let bytes = entry.to_bytes().map_err(|e| io::Error::other(e.message().to_owned()))?;
        if bytes.len() as u64 > self.size {
            let (one, all) = (bytes.len(), self.size);
            return Err(io::Error::other(format!(
                "one has {one} bytes of {all} for all; raise FUSED_GRAPH_CACHE_SIZE"
            )));
        }
        self.prepare()?;
        // Readable by its owner alone, which is how `tempfile` makes it.
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
        file.write_all(&bytes)?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }

    /// Makes the folder, for its owner alone. A plan is code for the GPU, so one that others can write to is not used.
    fn prepare(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&self.folder)?;
        trusted(&self.folder)
    }

    /// Removes what was not used for longest until the store fits its size, but for what was just written, and what dead writers left.
    fn evict(&self, latest: &Path) {
        let Ok(mut files) = find(&self.folder) else { return };
        files.retain(|file| !(file.is_left_behind() && remove(&file.path).is_ok()));
        let mut total: u64 = files.iter().map(|f| f.bytes).sum();
        files.retain(|file| !file.unfinished && file.path != latest);
        files.sort_by_key(|f| f.used);
        for file in files {
            if total <= self.size {
                break;
            }
            if remove(&file.path).is_ok() {
                total -= file.bytes;
            }
        }
    }

    /// The files of the store; none if there is no folder.
    fn files(&self) -> io::Result<Vec<Found>> {
        match find(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    /// Every plan of this version's format, read and checked, last used first.
    pub fn list(&self) -> io::Result<Vec<Stored>> {
        let current = self.files()?.into_iter().filter(Found::is_current);
        let mut list: Vec<Stored> = current.map(check).collect();
        list.sort_by_key(|s| std::cmp::Reverse(s.used));
        Ok(list)
    }

    /// Removes every plan, also of other formats and unfinished ones, and says how many finished ones there were.
    pub fn clear(&self) -> io::Result<usize> {
        let mut removed = 0;
        for file in self.files()? {
            let there = remove(&file.path)?;
            removed += usize::from(there && !file.unfinished);
        }
        Ok(removed)
    }

    /// Says once what is wrong with the store.
    fn warn(&self, about: About, text: std::fmt::Arguments<'_>) {
        if self.said[about as usize].swap(true, Relaxed) {
            tracing::debug!("plan store: {text}");
        } else {
            tracing::warn!("plan store: {text}");
        }
    }
}

/// Removes a file, and says whether it was there: another process may have been faster.
fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other.map(|()| true),
    }
}

fn check(file: Found) -> Stored {
    let content = match read_own(&file.path) {
        Err(e) => Checked::Unusable(e.to_string()),
        Ok(Err(fault)) => Checked::Unusable(fault.error(Kind::Plan).message().to_owned()),
        Ok(Ok(entry)) if file.path.file_name() != Some(OsStr::new(&entry.key.file_name())) => {
            Checked::Unusable("it is under another plan's name".to_owned())
        }
        Ok(Ok(entry)) => Checked::Plan(Box::new(entry)),
    };
    Stored { path: file.path, bytes: file.bytes, used: file.used, content }
}
