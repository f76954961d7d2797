//! cuDNN and the run-time compiler it calls, out of NVIDIA's Python wheels.
//!
//! `.wheels/cudnn-…/` is laid as a Python environment has it, `nvidia/cudnn/lib` beside `nvidia/cu13/lib`: the libraries of cuDNN look for
//! nvrtc there by themselves (their RUNPATH holds `$ORIGIN/../../cu13/lib`), so no LD_LIBRARY_PATH is needed. cuBLAS, which the wheels
//! ask for, is not used by cuDNN's graphs.
//!
//! A folder is filled under another name and renamed when it is whole, and lists its files in a stamp: what an interrupted or
//! meddled-with fetch left is seen and fetched again.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

const CUDNN: &str = "nvidia-cudnn-cu13";
/// The version beside torch 2.11, and the one the support table was measured with.
const PINNED: &str = "9.19.0.56";
/// CUDA 13.0's, which every driver of the 13 series takes.
const NVRTC: (&str, &str) = ("nvidia-cuda-nvrtc", "13.0.88");
const STAMP: &str = "wheel.txt";

/// Which of the two versions of cuDNN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Pinned,
    /// The newest at the time of the first fetch; its stamp remembers which that was.
    Newest,
}

impl Which {
    pub(crate) const ALL: [Self; 2] = [Self::Pinned, Self::Newest];

    /// Reads the argument of `--cudnn`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "newest" => Ok(Self::Newest),
            _ if text == PINNED || PINNED.starts_with(&format!("{text}.")) => Ok(Self::Pinned),
            _ => bail!("--cudnn is `9.19` or `newest`, not `{text}`"),
        }
    }
}

/// A version of cuDNN on the disk.
pub(crate) struct Cudnn {
    pub(crate) version: String,
    /// For FUSED_GRAPH_CUDNN_DIR.
    pub(crate) folder: PathBuf,
}

/// Fetches both versions where needed and prints where they are.
pub(crate) fn print_all(root: &Path) -> Result<()> {
    for which in Which::ALL {
        let cudnn = ensure(root, which)?;
        println!("export FUSED_GRAPH_CUDNN_DIR={}  # cuDNN {}", cudnn.folder.display(), cudnn.version);
    }
    Ok(())
}

/// The wanted version, fetched if it is not there.
pub(crate) fn ensure(root: &Path, which: Which) -> Result<Cudnn> {
    let store = Store::open(root)?;
    let nvrtc = store.ensure("nvrtc-13.0", &format!("{}=={}", NVRTC.0, NVRTC.1), &wanted_nvrtc, None)?;
    let (folder, requirement) = match which {
        Which::Pinned => (format!("cudnn-{PINNED}"), format!("{CUDNN}=={PINNED}")),
        Which::Newest => ("cudnn-newest".to_owned(), CUDNN.to_owned()),
    };
    let wheel = store.ensure(&folder, &requirement, &wanted_cudnn, Some(&nvrtc))?;
    Ok(Cudnn { version: wheel.version, folder: wheel.folder.join("nvidia/cudnn/lib") })
}

/// The headers are small, and a test compares the codes of cudnn-sys with them.
fn wanted_cudnn(member: &str) -> bool {
    member.starts_with("nvidia/cudnn/lib/") && member.contains(".so") || member.starts_with("nvidia/cudnn/include/")
}

/// The `.alt` files are a second build of the compiler that nothing here loads.
fn wanted_nvrtc(member: &str) -> bool {
    member.starts_with("nvidia/cu13/lib/") && member.contains(".so") && !member.contains(".alt.")
}

/// An unpacked wheel.
struct Wheel {
    folder: PathBuf,
    version: String,
}

/// `.wheels/`, locked against a second xtask as long as this lives.
struct Store {
    folder: PathBuf,
    _lock: File,
}

impl Store {
    fn open(root: &Path) -> Result<Self> {
        let folder = root.join(".wheels");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock().with_context(|| format!("locking {}", folder.display()))?;
        Ok(Self { folder, _lock: lock })
    }

    /// The wheel for `requirement` in `.wheels/NAME`, holding its members that are `wanted` and links to those of `beside`.
    fn ensure(
        &self,
        name: &str,
        requirement: &str,
        wanted: &dyn Fn(&str) -> bool,
        beside: Option<&Wheel>,
    ) -> Result<Wheel> {
        let folder = self.folder.join(name);
        if let Some(version) = whole(&folder) {
            return Ok(Wheel { folder, version });
        }
        if folder.exists() {
            eprintln!("xtask: {} is not whole; fetching it again", folder.display());
            fs::remove_dir_all(&folder)?;
        }
        let scratch = self.scratch()?;
        eprintln!("xtask: fetching {requirement} into {} (once)", folder.display());
        let (packed, version) = download(requirement, &scratch.join("packed"))?;
        let unpacked = scratch.join("unpacked");
        unpack(&packed, &unpacked, wanted)?;
        if let Some(beside) = beside {
            link_files(&beside.folder, &unpacked)?;
        }
        fs::write(unpacked.join(STAMP), stamp(&version, &unpacked)?)?;
        fs::rename(&unpacked, &folder).with_context(|| format!("moving the files to {}", folder.display()))?;
        fs::remove_dir_all(&scratch)?;
        Ok(Wheel { folder, version })
    }

    /// An empty folder on the same disk. The lock is held, so one that is there was left by a run that was interrupted.
    fn scratch(&self) -> Result<PathBuf> {
        let scratch = self.folder.join("unfinished");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }
}

/// The version that the folder holds, if all its files are there in their full size.
fn whole(folder: &Path) -> Option<String> {
    let stamp = fs::read_to_string(folder.join(STAMP)).ok()?;
    let (version, files) = stamp.split_once('\n')?;
    let intact = |line: &str| {
        let (size, path) = line.split_once(' ')?;
        let found = fs::metadata(folder.join(path)).ok()?;
        (found.len().to_string() == size).then_some(())
    };
    files.lines().all(|line| intact(line).is_some()).then(|| version.to_owned())
}

/// The version, then a line for each file: its size and path.
fn stamp(version: &str, folder: &Path) -> Result<String> {
    let mut text = format!("{version}\n");
    for path in files_below(folder)? {
        writeln!(text, "{} {}", fs::metadata(folder.join(&path))?.len(), path.display())?;
    }
    Ok(text)
}

/// Paths of all files below `folder`, from there.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The files below `from`, its stamp left out, below `to` as well, without taking room twice where the file system has hard links.
fn link_files(from: &Path, to: &Path) -> Result<()> {
    for path in files_below(from)? {
        if path == Path::new(STAMP) {
            continue;
        }
        let (old, new) = (from.join(&path), to.join(&path));
        fs::create_dir_all(new.parent().context("a file lies in a folder")?)?;
        if fs::hard_link(&old, &new).is_err() {
            fs::copy(&old, &new).with_context(|| format!("copying {} to {}", old.display(), new.display()))?;
        }
    }
    Ok(())
}

/// Fetches the wheel of a requirement; returns its path and version.
fn download(requirement: &str, folder: &Path) -> Result<(PathBuf, String)> {
    let step = format!("fetching {requirement}");
    let found = python(&["-m", "pip", "--version"]);
    let pip = found.with_context(|| {
        format!("{step}: needs python3 with pip (`apt install python3-pip`); `--quick` does without")
    })?;
    let pip_version = String::from_utf8_lossy(&pip.stdout).trim().to_owned();
    let target = folder.to_string_lossy();
    let fetch = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"];
    let fetched = python(&[&fetch[..], &["--only-binary=:all:", "--dest", &target, requirement]].concat());
    fetched.with_context(|| {
        format!(
            "{step}: `python3 -m pip download --no-deps {requirement}` failed ({pip_version}). It needs PyPI or a mirror (PIP_INDEX_URL), \
             about 600 MB and Linux, for which alone there are wheels; `cargo xtask test --quick` does without"
        )
    })?;
    let mut packed = files_below(folder)?;
    let (Some(name), true) = (packed.pop(), packed.is_empty()) else {
        bail!("{step}: pip left no wheel in {}", folder.display())
    };
    let text = name.to_string_lossy();
    let version = text.split('-').nth(1).with_context(|| format!("{step}: no version in the name {text}"))?;
    Ok((folder.join(&name), version.to_owned()))
}

/// Takes the wanted members out of a wheel and deletes it.
fn unpack(packed: &Path, into: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
    const LIST: &str = "import sys, zipfile; print('\\n'.join(zipfile.ZipFile(sys.argv[1]).namelist()))";
    const EXTRACT: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2], sys.argv[3:])";
    let (packed_text, into_text) = (packed.to_string_lossy(), into.to_string_lossy());
    let step = || format!("unpacking {}", packed.display());
    let listing = python(&["-c", LIST, &packed_text]).with_context(step)?;
    let listing = String::from_utf8(listing.stdout).with_context(step)?;
    let members: Vec<&str> = listing.lines().filter(|member| wanted(member)).collect();
    ensure!(
        !members.is_empty(),
        "{}: the wheel holds none of the libraries; its layout has changed:\n{listing}",
        step()
    );
    python(&[&["-c", EXTRACT, &packed_text, &into_text], &members[..]].concat()).with_context(step)?;
    fs::remove_file(packed).with_context(step)
}

fn python(args: &[&str]) -> Result<Output> {
    let output = Command::new("python3").args(args).output().context("running python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_version() {
        assert_eq!(Which::parse("9.19").unwrap(), Which::Pinned);
        assert_eq!(Which::parse(PINNED).unwrap(), Which::Pinned);
        assert_eq!(Which::parse("newest").unwrap(), Which::Newest);
        assert!(Which::parse("9.1").is_err());
    }

    #[test]
    fn what_is_unpacked() {
        assert!(wanted_cudnn("nvidia/cudnn/lib/libcudnn.so.9"));
        assert!(wanted_cudnn("nvidia/cudnn/include/cudnn.h"));
        assert!(!wanted_cudnn("nvidia_cudnn_cu13-9.19.0.56.dist-info/RECORD"));
        assert!(wanted_nvrtc("nvidia/cu13/lib/libnvrtc-builtins.so.13.0"));
        assert!(!wanted_nvrtc("nvidia/cu13/lib/libnvrtc.alt.so.13"));
    }

    #[test]
    fn a_folder_that_lost_part_of_a_file_is_not_whole() {
        let folder = std::env::temp_dir().join(format!("fused-graph-xtask-{}", std::process::id()));
        fs::create_dir_all(folder.join("nvidia")).unwrap();
        fs::write(folder.join("nvidia/a.so"), "abc").unwrap();
        assert_eq!(whole(&folder), None, "there is no stamp yet");
        let text = stamp("9.0", &folder).unwrap();
        fs::write(folder.join(STAMP), text).unwrap();
        assert_eq!(whole(&folder), Some("9.0".into()));
        fs::write(folder.join("nvidia/a.so"), "ab").unwrap();
        assert_eq!(whole(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
