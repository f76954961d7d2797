//! Where the store on disk is and how large it may grow: what the environment says.

use std::ffi::OsString;
use std::path::PathBuf;

/// What the environment says about the store.
pub(super) struct Settings {
    /// The folder of the plans; `None`: nothing is kept on disk.
    pub(super) folder: Option<PathBuf>,
    /// Bytes that all its files may take.
    pub(super) size: u64,
}

/// How many bytes the store may take unless `FUSED_GRAPH_CACHE_SIZE` says otherwise: some thousand plans.
const SIZE: u64 = 1 << 30;

/// What `FUSED_GRAPH_CACHE`, `FUSED_GRAPH_CACHE_DIR` and `FUSED_GRAPH_CACHE_SIZE` ask for. A value that cannot be understood is a warning and as
/// good as none.
pub(super) fn of_environment() -> Settings {
    let (settings, complaints) = read(&|name| std::env::var_os(name), std::env::home_dir());
    for complaint in complaints {
        tracing::warn!("plan store: {complaint}");
    }
    settings
}

/// The settings that `variable` tells, and what is wrong with them.
fn read(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> (Settings, Vec<String>) {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let word = |name| given(name).map(|value| value.to_string_lossy().trim().to_lowercase());
    let mut complaints = Vec::new();
    let off = match word("FUSED_GRAPH_CACHE").as_deref() {
        Some("off" | "0" | "false" | "no") => true,
        None | Some("on" | "1" | "true" | "yes") => false,
        Some(other) => {
            complaints.push(format!("FUSED_GRAPH_CACHE={other} is neither `on` nor `off`: plans are kept on disk"));
            false
        }
    };
    let absolute = |path: &PathBuf| path.is_absolute();
    let home = home.filter(absolute);
    let base = if cfg!(windows) {
        given("LOCALAPPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Caches"))
    } else {
        // The XDG base directory specification: a relative path is to be ignored.
        let xdg = given("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
        xdg.or_else(|| home.map(|home| home.join(".cache")))
    };
    let folder = given("FUSED_GRAPH_CACHE_DIR").map(PathBuf::from).or(base.map(|base| base.join("fused-graph")));
    if !off && folder.is_none() {
        complaints.push("plans are not kept on disk: there is no home folder; set FUSED_GRAPH_CACHE_DIR".to_owned());
    }
    let size = word("FUSED_GRAPH_CACHE_SIZE").map_or(Some(SIZE), |text| bytes(&text));
    if size.is_none() {
        complaints.push("FUSED_GRAPH_CACHE_SIZE is no size such as `512MiB` or `2GB`: 1GiB is used".to_owned());
    }
    (Settings { folder: folder.filter(|_| !off), size: size.unwrap_or(SIZE) }, complaints)
}

/// Units by their usual meaning, as in `workspace_limit`: powers of 1024 with an `i`, powers of 1000 without.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// The number of bytes that a text in lower case names.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::{SIZE, bytes, read};
    use std::path::{Path, PathBuf};

    /// The folder, the size and the number of complaints.
    fn settings(variables: &[(&str, &str)], home: Option<&str>) -> (Option<PathBuf>, u64, usize) {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        let (settings, complaints) = read(&variable, home.map(PathBuf::from));
        (settings.folder, settings.size, complaints.len())
    }

    fn folder(variables: &[(&str, &str)], home: Option<&str>) -> Option<PathBuf> {
        settings(variables, home).0
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_nearest_folder_wins() {
        let all = [("FUSED_GRAPH_CACHE_DIR", "here"), ("XDG_CACHE_HOME", "/xdg")];
        assert_eq!(folder(&all, Some("/home/me")).as_deref(), Some(Path::new("here")));
        assert_eq!(folder(&all[1..], Some("/home/me")).as_deref(), Some(Path::new("/xdg/fused-graph")));
        assert_eq!(folder(&[], Some("/home/me")).as_deref(), Some(Path::new("/home/me/.cache/fused-graph")));
        let useless = [("FUSED_GRAPH_CACHE_DIR", ""), ("XDG_CACHE_HOME", "relative")];
        assert_eq!(folder(&useless, Some("/home/me")).as_deref(), Some(Path::new("/home/me/.cache/fused-graph")));
    }

    #[test]
    fn without_a_home_nothing_is_stored_and_one_complaint_says_so() {
        assert_eq!(settings(&[], None), (None, SIZE, 1));
        assert_eq!(settings(&[], Some("")), (None, SIZE, 1));
        assert_eq!(settings(&[("FUSED_GRAPH_CACHE", "off")], None), (None, SIZE, 0));
        assert_eq!(settings(&[("FUSED_GRAPH_CACHE_DIR", "/d")], None), (Some("/d".into()), SIZE, 0));
    }

    #[test]
    fn off_is_off() {
        for off in ["off", "OFF", "0", "false", " no "] {
            assert_eq!(settings(&[("FUSED_GRAPH_CACHE", off), ("FUSED_GRAPH_CACHE_DIR", "/d")], None), (None, SIZE, 0));
        }
        for (on, complaints) in [("on", 0), ("1", 0), ("", 0), ("of", 1)] {
            let told = settings(&[("FUSED_GRAPH_CACHE", on), ("FUSED_GRAPH_CACHE_DIR", "/d")], None);
            assert_eq!(told, (Some("/d".into()), SIZE, complaints), "{on}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("512mib"), Some(512 << 20));
        assert_eq!(bytes("2 gb"), Some(2_000_000_000));
        assert_eq!(bytes("4096"), Some(4096));
        for wrong in ["", "mib", "1.5gib", "-1", "64mx", "99999999tib"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        let told = settings(&[("FUSED_GRAPH_CACHE_SIZE", "much"), ("FUSED_GRAPH_CACHE_DIR", "/d")], None);
        assert_eq!(told, (Some("/d".into()), SIZE, 1));
        assert_eq!(settings(&[("FUSED_GRAPH_CACHE_SIZE", "1 MiB")], Some("/h")).1, 1 << 20);
    }
}
