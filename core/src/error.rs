//! One error type for the whole framework.

use std::fmt;

/// `std::result::Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of mistake or condition an [`Error`] reports. Stable: match on this, not on texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Ranks or extents do not fit the operation.
    Shape,
    /// Element types do not fit the operation, or a host slice has another element type than the tensor.
    DType,
    /// Strides that the operation cannot take.
    Layout,
    /// Tensors of different devices, or a device that does not exist.
    Device,
    /// No kernel can do what the function describes.
    Unsupported,
    /// A library is missing, of the wrong version, or the driver is too old.
    Environment,
    /// The CUDA driver reported a failure.
    Cuda,
    /// cuDNN reported a failure.
    Cudnn,
    /// A stored plan could not be read or written.
    Cache,
    /// An argument has a value that is not allowed.
    Argument,
}

impl ErrorKind {
    /// The word that stands in front of an error's text.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Shape => "shape",
            ErrorKind::DType => "dtype",
            ErrorKind::Layout => "layout",
            ErrorKind::Device => "device",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Environment => "environment",
            ErrorKind::Cuda => "cuda",
            ErrorKind::Cudnn => "cudnn",
            ErrorKind::Cache => "cache",
            ErrorKind::Argument => "argument",
        }
    }
}

/// Why a call failed: a stable [`kind`](Error::kind) and a text that says what would work.
///
/// Small (one pointer), cheap to move, and cloneable so that a failed build can be reported to every caller that waited for it.
#[derive(Clone)]
pub struct Error(std::sync::Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
    };
}

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(std::sync::Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    constructors! {
        /// A [`ErrorKind::Shape`] error.
        shape => Shape;
        /// A [`ErrorKind::DType`] error.
        dtype => DType;
        /// A [`ErrorKind::Layout`] error.
        layout => Layout;
        /// A [`ErrorKind::Device`] error.
        device => Device;
        /// A [`ErrorKind::Unsupported`] error.
        unsupported => Unsupported;
        /// A [`ErrorKind::Environment`] error.
        environment => Environment;
        /// A [`ErrorKind::Cuda`] error.
        cuda => Cuda;
        /// A [`ErrorKind::Cudnn`] error.
        cudnn => Cudnn;
        /// A [`ErrorKind::Cache`] error.
        cache => Cache;
        /// An [`ErrorKind::Argument`] error.
        argument => Argument;
    }

    /// Keeps `source` as the cause.
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error(std::sync::Arc::new(Inner {
            kind: self.0.kind,
            message: self.0.message.clone(),
            source: Some(Box::new(source)),
        }))
    }

    /// The same kind with `context` in front of the text.
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self::new(self.0.kind, format!("{context}: {}", self.0.message))
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text without the kind in front.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} error: {}", self.0.kind.name(), self.0.message)
    }
}

/// The same text as `Display`, so that `unwrap` and `main() -> Result` show something readable.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
