//! Many plans in one file: made once, shipped, read by many.

use super::entry::{Kind, open, seal};
use super::{Entry, Key};
use crate::error::{Error, Result};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Plans of many functions and several GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    entries: Vec<Entry>,
}

impl Bundle {
    /// A bundle of these entries. Of two with one key the tuned one is kept, else the later one. The order does not matter to its bytes.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Bundle {
        let mut bundle = Bundle::default();
        entries.into_iter().for_each(|entry| bundle.add(entry));
        bundle
    }

    /// Adds one.
    pub fn add(&mut self, entry: Entry) {
        match self.entries.binary_search_by(|e| e.key.cmp(&entry.key)) {
            Ok(at) if self.entries[at].tuned && !entry.tuned => {}
            Ok(at) => self.entries[at] = entry,
            Err(at) => self.entries.insert(at, entry),
        }
    }

    /// The entries, by their keys.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.binary_search_by(|e| e.key.cmp(key)).ok().map(|at| &self.entries[at])
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        seal(Kind::Bundle, &self.entries)
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Bundle> {
        let entries: Vec<Entry> = open(Kind::Bundle, bytes).map_err(|fault| fault.error(Kind::Bundle))?;
        Ok(Bundle::new(entries))
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |e: std::io::Error| Error::cache(format!("the bundle {} cannot be written: {e}", path.display()));
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(&self.to_bytes()?).map_err(failed)?;
        // Others read it: unlike the store it is meant to be shared.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|e| failed(e.error))?;
        Ok(())
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Bundle> {
        let bytes = fs::read(path);
        let bytes = bytes.map_err(|e| Error::cache(format!("the bundle {} cannot be read: {e}", path.display())))?;
        Self::from_bytes(&bytes).map_err(|e| e.context(format!("{}", path.display())))
    }
}
