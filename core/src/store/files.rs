//! The files of the store on disk: which are ours, and reading one that only we can have written.

use super::Entry;
use super::entry::{FORMAT, Fault, HEADER, Kind, check_header};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How the name of a file starts that is being written.
pub(super) const UNFINISHED: &str = ".writing-";
/// A use is noted on the file when the last note is older than this.
const NOTE: Duration = Duration::from_secs(600);
/// Files of writers that died are swept away after this. To a writer that only slept it is a write that failed.
const STALE: Duration = Duration::from_secs(3600);

/// A file of the store, of any format.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
    /// Whether it is being written, or was when its writer died.
    pub(super) unfinished: bool,
}

impl Found {
    /// Whether its writer died. A time far ahead is one by a clock that was wrong.
    pub(super) fn is_left_behind(&self) -> bool {
        self.unfinished && self.used.elapsed().unwrap_or_else(|ahead| ahead.duration()) > STALE
    }

    /// Whether it is a plan in the format of this version.
    pub(super) fn is_current(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        !self.unfinished && name.and_then(format) == Some(FORMAT)
    }
}

/// The format of a plan, by the name that [`Key::file_name`](super::Key) gives its file; `None`: not ours.
fn format(name: &str) -> Option<u32> {
    let (hash, format) = name.strip_suffix(".plan")?.split_once('.')?;
    let ours = hash.len() == 2 * blake3::OUT_LEN && hash.bytes().all(|c| c.is_ascii_hexdigit());
    format.parse().ok().filter(|_| ours)
}

/// The files of the store in a folder. Others are not ours to count or to remove.
pub(super) fn find(folder: &Path) -> io::Result<Vec<Found>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let Ok(entry) = entry else { continue };
        let Ok(name) = entry.file_name().into_string() else { continue };
        let unfinished = name.starts_with(UNFINISHED);
        if !unfinished && format(&name).is_none() {
            continue;
        }
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_file() {
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(Found { path: entry.path(), bytes: meta.len(), used, unfinished });
        }
    }
    Ok(files)
}

/// The entry in a file that only we can have written, or why what is in it is none.
pub(super) fn read_own(path: &Path) -> io::Result<Result<Entry, Fault>> {
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is a link or no file"));
    }
    if let Some(folder) = path.parent() {
        trusted(folder)?;
    }
    permitted(&meta, path)?;
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(HEADER);
    (&mut file).take(HEADER as u64).read_to_end(&mut bytes)?;
    if let Err(fault) = check_header(Kind::Plan, &bytes, size) {
        return Ok(Err(fault));
    }
    file.take(size).read_to_end(&mut bytes)?;
    Ok(Entry::read(&bytes))
}

/// Whether a folder is ours alone to write to.
pub(super) fn trusted(folder: &Path) -> io::Result<()> {
    permitted(&fs::metadata(folder)?, folder)
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

#[cfg(not(unix))]
fn permitted(_: &fs::Metadata, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Marks a file as used now.
pub(super) fn note_use(path: &Path) {
    let now = SystemTime::now();
    // A time ahead would keep it for ever.
    let is_old = |noted: SystemTime| now.duration_since(noted).map_or(true, |ago| ago > NOTE);
    if fs::metadata(path).and_then(|m| m.modified()).is_ok_and(is_old)
        && let Ok(file) = File::options().write(true).open(path)
    {
        let _ = file.set_modified(now);
    }
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn names_of_plans() {
        let hash = blake3::hash(b"key").to_hex();
        assert_eq!(format(&format!("{hash}.1.plan")), Some(1));
        assert_eq!(format(&format!("{hash}.27.plan")), Some(27));
        for other in
            [format!("{hash}.plan"), format!("{hash}.1.plan~"), format!("{}.1.plan", &hash[1..]), "floor.1.plan".into()]
        {
            assert_eq!(format(&other), None, "{other}");
        }
    }
}
