//! The store on disk: a file a plan, written aside and renamed, so that a reader sees all of it or nothing.

use super::entry::Fault;
use super::{Entry, Key};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Bytes that a store may take unless `FUSED_GRAPH_CACHE_SIZE` says otherwise.
const SIZE: u64 = 1 << 30;
/// A use is noted on the file when the last note is older than this.
const NOTE: Duration = Duration::from_secs(600);
/// Files of writers that died are swept away after this.
const STALE: Duration = Duration::from_secs(3600);

/// A folder of plans. Any number of processes may use it at once.
///
/// Nothing that goes wrong here reaches a caller: what cannot be read is not there, what cannot be written is not kept, and one warning says why.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    size: u64,
    warned: AtomicBool,
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
        Disk { folder: folder.into(), size, warned: AtomicBool::new(false) }
    }

    /// The store that the environment asks for, decided once: none with `FUSED_GRAPH_CACHE=off`, else in `FUSED_GRAPH_CACHE_DIR` or the user's
    /// cache folder.
    pub fn of_environment() -> Option<&'static Disk> {
        static DISK: OnceLock<Option<Disk>> = OnceLock::new();
        DISK.get_or_init(|| {
            let size = std::env::var("FUSED_GRAPH_CACHE_SIZE").ok().and_then(|s| s.trim().parse().ok());
            folder(|name| std::env::var_os(name)).map(|folder| Disk::new(folder, size.unwrap_or(SIZE)))
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
        let bytes = match read_own(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return self.warn(format!("{}: {e}", path.display())),
        };
        match Entry::read(&bytes) {
            Ok(entry) if entry.key == *key => {
                note_use(&path);
                Some(entry)
            }
            Ok(_) => None,
            Err(Fault::Newer(format)) => self.warn(format!("{} has format {format}; it is left alone", path.display())),
            Err(fault) => {
                let _ = fs::remove_file(&path);
                let why = fault.error(super::entry::Kind::Plan);
                self.warn(format!("{}: {}", path.display(), why.message()))
            }
        }
    }

    /// Writes an entry. One that was tuned stays where the new one was not.
    pub fn put(&self, entry: &Entry) {
        let path = self.folder.join(entry.key.file_name());
        let keep = !entry.tuned && self.peek(&path).is_some_and(|e| e.tuned && e.key == entry.key);
        let written = if keep { Ok(()) } else { self.write(&path, entry) };
        match written {
            Ok(()) => self.evict(),
            Err(e) => {
                let _: Option<()> = self.warn(format!("plans are not kept in {}: {e}", self.folder.display()));
            }
        }
    }

    fn peek(&self, path: &Path) -> Option<Entry> {
        Entry::read(&read_own(path).ok()?).ok()
    }

    fn write(&self, path: &Path, entry: &Entry) -> io::Result<()> {
        let bytes = entry.to_bytes().map_err(|e| io::Error::other(e.message().to_owned()))?;
        self.prepare()?;
        // Readable by its owner alone, which is how `tempfile` makes it.
        let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(&self.folder)?;
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

    /// Removes what was not used for longest until the store fits its size, and what dead writers left.
    fn evict(&self) {
        let Ok(files) = self.files() else { return };
        let now = SystemTime::now();
        let (temporary, mut plans): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| !is_plan(&f.path));
        for file in temporary {
            let writing = file.path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(".writing-"));
            if writing && now.duration_since(file.used).is_ok_and(|age| age > STALE) {
                let _ = fs::remove_file(&file.path);
            }
        }
        let mut total: u64 = plans.iter().map(|f| f.bytes).sum();
        plans.sort_by_key(|f| f.used);
        for file in plans {
            if total <= self.size {
                break;
            }
            // Another process may have been faster.
            let _ = fs::remove_file(&file.path);
            total -= file.bytes;
        }
    }

    fn files(&self) -> io::Result<Vec<Found>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let Ok(entry) = entry else { continue };
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() {
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Found { path: entry.path(), bytes: meta.len(), used });
            }
        }
        Ok(files)
    }

    /// Every plan, read and checked, last used first.
    pub fn list(&self) -> io::Result<Vec<Stored>> {
        let files = match self.files() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let mut list: Vec<Stored> = files.into_iter().filter(|f| is_plan(&f.path)).map(check).collect();
        list.sort_by_key(|s| std::cmp::Reverse(s.used));
        Ok(list)
    }

    /// Removes every plan, and says how many there were.
    pub fn clear(&self) -> io::Result<usize> {
        let mut removed = 0;
        for stored in self.list()? {
            match fs::remove_file(&stored.path) {
                Ok(()) => removed += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(removed)
    }

    /// Says once what is wrong with the store.
    fn warn<T>(&self, text: String) -> Option<T> {
        if !self.warned.swap(true, Relaxed) {
            tracing::warn!("plan store: {text}");
        }
        None
    }
}

struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn is_plan(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("plan"))
}

fn check(file: Found) -> Stored {
    let content = match read_own(&file.path) {
        Err(e) => Checked::Unusable(e.to_string()),
        Ok(bytes) => match Entry::read(&bytes) {
            Err(fault) => Checked::Unusable(fault.error(super::entry::Kind::Plan).message().to_owned()),
            Ok(entry) if file.path.file_name() != Some(OsStr::new(&entry.key.file_name())) => {
                Checked::Unusable("it is under another plan's name".to_owned())
            }
            Ok(entry) => Checked::Plan(Box::new(entry)),
        },
    };
    Stored { path: file.path, bytes: file.bytes, used: file.used, content }
}

/// The folder that an environment asks for.
pub(super) fn folder(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    if var("FUSED_GRAPH_CACHE").is_some_and(|v| v.eq_ignore_ascii_case("off") || v == "0") {
        return None;
    }
    let given = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = given("FUSED_GRAPH_CACHE_DIR") {
        return Some(folder);
    }
    let base = if cfg!(windows) {
        given("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        given("HOME").map(|home| home.join("Library/Caches"))
    } else {
        given("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| given("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("fused-graph"))
}

/// The content of a file that only we can have written.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    #[cfg(unix)]
    {
        let meta = fs::metadata(path)?;
        if let Some(folder) = path.parent() {
            trusted(folder)?;
        }
        permitted(&meta, path)?;
    }
    fs::read(path)
}

/// Whether a folder is ours alone to write to.
fn trusted(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    permitted(&fs::metadata(folder)?, folder)?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(unix)]
fn permitted(meta: &fs::Metadata, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    // The owner of this is the effective user of the process; where there is no /proc only the mode is looked at.
    let us = fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or(meta.uid());
    if meta.uid() != us {
        return Err(io::Error::other(format!("{} belongs to another user", path.display())));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("{} can be written by others; `chmod go-w` it", path.display())));
    }
    Ok(())
}

fn note_use(path: &Path) {
    let now = SystemTime::now();
    let old =
        fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|t| now.duration_since(t).is_ok_and(|d| d > NOTE));
    if old && let Ok(file) = File::options().write(true).open(path) {
        let _ = file.set_modified(now);
    }
}
