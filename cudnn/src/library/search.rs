//! Going through the places until one holds the library.

use std::path::{Path, PathBuf};

use cudnn_sys::Library;

use super::fault::Fault;
use super::loader;
use super::places::{self, Place, Root};
use super::report::{Found, Tried};

/// A library that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) library: Library,
    pub(super) found: Found,
}

/// Everywhere but one place was in vain.
pub(super) type Search = (Option<Opened>, Vec<Tried>);

/// `libcudnn.so.9`.
const CUDNN: &str = "libcudnn.so.9";

/// Opens cuDNN. What was tried in vain is added to `tried`.
///
/// The folder that the user names is final: falling back from it to another version would be a surprise.
pub(super) fn cudnn(root: &Root, tried: &mut Vec<Tried>) -> Result<Opened, Fault> {
    let loaded = already_loaded(CUDNN);
    if let Some(named) = places::named_by_user() {
        return named_by_user(&named, loaded, tried);
    }
    tried.push(Tried { place: "FUSED_GRAPH_CUDNN_DIR".to_owned(), reason: "not set".to_owned() });
    if let Some(opened) = loaded {
        return Ok(opened);
    }
    tried.push(Tried { place: "this process".to_owned(), reason: format!("has no {CUDNN} loaded") });
    by_name(CUDNN, tried)
        .or_else(|| places::after_the_loader(root, CUDNN).find_map(|place| in_place(&place, CUDNN, tried)))
        .ok_or(Fault::NoCudnn)
}

fn named_by_user(named: &Place, loaded: Option<Opened>, tried: &mut Vec<Tried>) -> Result<Opened, Fault> {
    let same_file = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if let Some(Opened { library, found }) = loaded {
        let path = found.path.clone().unwrap_or_else(|| PathBuf::from(CUDNN));
        if named.folders.iter().any(|folder| same_file(&folder.join(CUDNN), &path)) {
            return Ok(Opened { library, found });
        }
        return Err(Fault::AnotherIsLoaded { named: named.name.clone(), loaded: path });
    }
    in_place(named, CUDNN, tried).ok_or_else(|| Fault::NotInNamedFolder { named: named.name.clone() })
}

/// Opens a library that cuDNN will look for by this name. First comes what lies beside cuDNN, since cuDNN's own search
/// goes there too.
pub(super) fn companion(root: &Root, name: &str, beside: Place) -> Search {
    if let Some(opened) = already_loaded(name) {
        return (Some(opened), vec![]);
    }
    let mut tried = vec![Tried { place: "this process".to_owned(), reason: format!("has no {name} loaded") }];
    let opened = in_place(&beside, name, &mut tried)
        .or_else(|| by_name(name, &mut tried))
        .or_else(|| places::after_the_loader(root, name).find_map(|place| in_place(&place, name, &mut tried)));
    (opened, tried)
}

fn already_loaded(name: &str) -> Option<Opened> {
    let library = loader::already_loaded(name)?;
    Some(opened(library, name, None, "already loaded by this process"))
}

/// By the loader's own search: `LD_LIBRARY_PATH`, then its cache of the system's folders.
pub(super) fn by_name(name: &str, tried: &mut Vec<Tried>) -> Option<Opened> {
    match loader::open(&loader::search_name(name)) {
        Ok(library) => Some(opened(library, name, None, "found by the loader")),
        Err(error) => {
            let place = match places::variable("LD_LIBRARY_PATH") {
                Some(path) => format!("the loader, LD_LIBRARY_PATH={}", path.display()),
                None => "the loader".to_owned(),
            };
            tried.push(Tried { place, reason: error });
            None
        }
    }
}

fn in_place(place: &Place, name: &str, tried: &mut Vec<Tried>) -> Option<Opened> {
    let mut reasons = place.absent.iter().cloned().collect::<Vec<_>>();
    for folder in &place.folders {
        let path = folder.join(name);
        if !path.exists() {
            reasons.push(why_not_in(folder, name));
            continue;
        }
        match loader::open(&path) {
            Ok(library) => return Some(opened(library, name, Some(path), &place.name)),
            Err(error) => reasons.push(error),
        }
    }
    reasons.dedup();
    tried.push(Tried { place: place.name.clone(), reason: reasons.join("; ") });
    None
}

/// Tells a missing folder from one that holds another version of the library.
fn why_not_in(folder: &Path, name: &str) -> String {
    if !folder.is_dir() {
        return format!("no folder {}", folder.display());
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let others: Vec<String> = places::entries(folder, &format!("{stem}."))
        .iter()
        .filter_map(|other| Some(other.file_name()?.to_string_lossy().into_owned()))
        .filter(|other| other != stem)
        .collect();
    match others.first() {
        Some(other) => format!("{} holds {other}, not {name}", folder.display()),
        None => format!("no {name} in {}", folder.display()),
    }
}

fn opened(library: Library, name: &str, path: Option<PathBuf>, how: &str) -> Opened {
    let path = path.or_else(|| loader::loaded_files(name).into_iter().next_back());
    Opened { library, found: Found { name: name.to_owned(), path, how: how.to_owned() } }
}
