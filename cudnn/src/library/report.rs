//! What was found where, and what was tried.

use std::fmt;
use std::path::PathBuf;

use cudnn_sys::Version;

/// A library that is loaded.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is called: `libcudnn_graph.so.9`.
    pub name: String,
    /// The file. Unknown for one that the loader found and that has no name of its own.
    pub path: Option<PathBuf>,
    /// How it was found.
    pub how: String,
}

/// A place where a library was looked for.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The place, as a user would call it.
    pub place: String,
    /// Why the library did not come from there.
    pub reason: String,
}

/// What is known of the CUDA driver.
#[derive(Clone, Debug)]
pub enum DriverReport {
    /// It is loaded.
    Found {
        /// The file.
        path: Option<PathBuf>,
        /// The newest CUDA that it runs.
        version: Version,
        /// How many GPUs it offers, or the name of its error.
        devices: Result<u32, String>,
    },
    /// It could not be opened; the reasons.
    Missing(Vec<String>),
}

/// Where NVIDIA's libraries were found, in which versions, and where they were looked for in vain.
#[derive(Clone, Debug)]
pub struct LibraryReport {
    /// The CUDA driver.
    pub driver: DriverReport,
    /// `libcudnn.so.9`.
    pub cudnn: Option<Found>,
    /// Its version.
    pub version: Option<Version>,
    /// The version of the CUDA runtime inside it.
    pub cudart: Option<Version>,
    /// Its sub-libraries.
    pub parts: Vec<Found>,
    /// The run-time compiler of CUDA.
    pub nvrtc: Option<Found>,
    /// The version of that.
    pub nvrtc_version: Option<Version>,
    /// cuBLASLt, or the stand-in for it.
    pub cublas_lt: Option<Found>,
    /// Where libraries were looked for that were not there.
    pub tried: Vec<Tried>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({})", path.display(), self.how),
            None => write!(f, "{} ({})", self.name, self.how),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl fmt::Display for DriverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { path, version, devices } => {
                write!(f, "for CUDA {}.{}, ", version.major, version.minor)?;
                match devices {
                    Ok(1) => write!(f, "1 GPU")?,
                    Ok(count) => write!(f, "{count} GPUs")?,
                    Err(error) => write!(f, "which answers {error}")?,
                }
                path.iter().try_for_each(|path| write!(f, ", {}", path.display()))
            }
            Self::Missing(_) => f.write_str("not found"),
        }
    }
}

impl fmt::Display for LibraryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA driver: {}", self.driver)?;
        if let Some(cudnn) = &self.cudnn {
            write!(f, "\ncuDNN: ")?;
            self.version.iter().try_for_each(|version| write!(f, "{version}, "))?;
            self.cudart.iter().try_for_each(|cuda| write!(f, "for CUDA {}.{}, ", cuda.major, cuda.minor))?;
            write!(f, "{cudnn}")?;
        }
        for part in &self.parts {
            write!(f, "\n  {part}")?;
        }
        if let Some(nvrtc) = &self.nvrtc {
            write!(f, "\nnvrtc: ")?;
            self.nvrtc_version.iter().try_for_each(|v| write!(f, "{}.{}, ", v.major, v.minor))?;
            write!(f, "{nvrtc}")?;
        }
        self.cublas_lt.iter().try_for_each(|library| write!(f, "\ncuBLASLt: {library}"))?;
        if !self.tried.is_empty() {
            write!(f, "\nlooked for in vain:")?;
        }
        self.tried.iter().try_for_each(|tried| write!(f, "\n  {tried}"))
    }
}
