//! One stored plan, and its bytes.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a stored plan is for. Two are the same only if all of it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name, architecture and number of multiprocessors.
    pub device: String,
    /// The library that made the plan, with its version.
    pub library: String,
    /// Options, alignments and the graph's canonical text.
    pub text: String,
}

/// A stored plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is for.
    pub key: Key,
    /// The function that it was made for: for lists.
    pub function: String,
    /// Whether its engines were chosen by timing them.
    pub tuned: bool,
    /// What the backend makes a plan from.
    pub payload: Vec<u8>,
}

/// What a file of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plan,
    Bundle,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Kind::Plan => b"fgplan\r\n",
            Kind::Bundle => b"fgbundl\n",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Bundle => "bundle of plans",
        }
    }
}

/// Changes whenever the bytes would be read as something else.
pub(super) const FORMAT: u32 = 1;
/// Magic, format, length of the body, checksum.
pub(super) const HEADER: usize = 8 + 4 + 8 + 32;

/// Why bytes are no file of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Foreign,
    Newer(u32),
    Damaged(&'static str),
}

impl Fault {
    pub(super) fn error(&self, kind: Kind) -> Error {
        let name = kind.name();
        Error::cache(match self {
            Fault::Foreign => format!("these bytes are no {name} of fused-graph"),
            Fault::Newer(format) => format!(
                "this {name} was written by another version of fused-graph (format {format}, this one reads {FORMAT}); make it anew with this version"
            ),
            Fault::Damaged(how) => format!("this {name} is damaged: {how}; make it anew"),
        })
    }
}

/// A body with its header.
pub(super) fn seal(kind: Kind, body: &impl Serialize) -> Result<Vec<u8>> {
    let body = postcard::to_stdvec(body).map_err(|e| Error::cache(format!("a plan cannot be written: {e}")))?;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(kind.magic());
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    let sum = checksum(&bytes, &body);
    bytes.extend(sum);
    bytes.extend(body);
    Ok(bytes)
}

/// Checks the header that `bytes` start with against the size of the whole file, so that no more than a file of ours is ever read.
pub(super) fn check_header(kind: Kind, bytes: &[u8], size: u64) -> Result<(), Fault> {
    let mut rest = bytes;
    let mut word = |n: usize| rest.split_off(..n).ok_or(Fault::Damaged("it ends too early"));
    if bytes.is_empty() {
        return Err(Fault::Damaged("it is empty"));
    }
    if word(8).map_err(|_| Fault::Foreign)? != kind.magic() {
        return Err(Fault::Foreign);
    }
    let format = word(4)?.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
    if format != FORMAT {
        return Err(Fault::Newer(format));
    }
    let length = word(8)?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    word(32)?;
    match length.checked_add(HEADER as u64).map(|whole| size.cmp(&whole)) {
        Some(std::cmp::Ordering::Equal) => Ok(()),
        Some(std::cmp::Ordering::Greater) => Err(Fault::Damaged("something follows it")),
        _ => Err(Fault::Damaged("it ends too early")),
    }
}

/// The body of sealed bytes.
pub(super) fn open<T: for<'a> Deserialize<'a>>(kind: Kind, bytes: &[u8]) -> Result<T, Fault> {
    check_header(kind, bytes, bytes.len() as u64)?;
    let (header, body) = bytes.split_at(HEADER);
    if checksum(&header[..20], body) != header[20..] {
        return Err(Fault::Damaged("its checksum is wrong"));
    }
    postcard::from_bytes(body).map_err(|_| Fault::Damaged("its content cannot be read"))
}

fn checksum(header: &[u8], body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(header).update(body).finalize().as_bytes()
}

impl Key {
    /// A name for files: two keys with the same have not been seen. Versions with another format have files of their own.
    pub(super) fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.device, &self.library, &self.text] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        format!("{}.{FORMAT}.plan", hasher.finalize().to_hex())
    }

    /// The same plan of another version of the library.
    pub fn is_another_version_of(&self, other: &Key) -> bool {
        self.device == other.device && self.text == other.text && self.library != other.library
    }
}

impl Entry {
    /// Header, checksum and content.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        seal(Kind::Plan, self)
    }

    /// From bytes; the error says whether they are foreign, of another version or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Entry> {
        Self::read(bytes).map_err(|fault| fault.error(Kind::Plan))
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Entry, Fault> {
        open(Kind::Plan, bytes)
    }
}
