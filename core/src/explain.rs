//! What became of a function for one signature, as a value and as a text.

mod text;

use crate::site::Plan;
use std::borrow::Cow;
use std::fmt;

/// Where a plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanSource {
    /// Compiled in this process.
    Built,
    /// Found in memory.
    Memory,
    /// From the store on disk.
    Disk,
    /// From bytes or a bundle that the process loaded.
    Loaded,
}

impl fmt::Display for PlanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PlanSource::Built => "built now",
            PlanSource::Memory => "found in memory",
            PlanSource::Disk => "read from disk",
            PlanSource::Loaded => "loaded",
        })
    }
}

/// One kernel of an [`Explain`]. [`fuse::report::kernel`](crate::fuse::report::kernel) fills in what follows from the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelReport {
    /// The operations in it, in the user's words: `conv2d x, w`, `add b`, `relu`, ….
    pub operations: Vec<String>,
    /// For each operation, where it was written (`src/net.rs:12`), if that is known.
    pub places: Vec<String>,
    /// The results that it writes, each with the index of the operation that gives it.
    pub results: Vec<(usize, String)>,
    /// Who runs it: "cuDNN", "nvrtc" or "cpu".
    pub provider: &'static str,
    /// Engine and knobs, or the name of the CPU kernel.
    pub engine: String,
    /// Bytes of workspace.
    pub workspace: u64,
    /// Bytes read and written by it.
    pub bytes: u64,
    /// Bytes the same operations would move, each as a kernel of its own.
    pub unfused_bytes: u64,
    /// Floating-point operations of its core.
    pub flops: u64,
    /// Milliseconds it took to build.
    pub build_ms: f64,
    /// Engines that were offered and refused, with their reasons.
    pub refused: Vec<String>,
    /// Anything else the user should know: an operand that was copied, TF32, ….
    pub notes: Vec<String>,
}

/// What became of a function for one signature. `Display` prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// The function.
    pub function: String,
    /// The device and the versions of what was loaded.
    pub device: String,
    /// The arguments: name, element type, dims, layout.
    pub arguments: Vec<String>,
    /// The kernels, in the order in which they run.
    pub kernels: Vec<KernelReport>,
    /// Where a value goes through memory, and why: (value, reason).
    pub cuts: Vec<(String, String)>,
    /// Where the plan came from.
    pub source: PlanSource,
}

impl Explain {
    /// Bytes that one call reads and writes.
    pub fn bytes(&self) -> u64 {
        self.kernels.iter().map(|k| k.bytes).sum()
    }

    /// Bytes that one call would move if every operation were a kernel of its own.
    pub fn unfused_bytes(&self) -> u64 {
        self.kernels.iter().map(|k| k.unfused_bytes).sum()
    }

    /// Floating-point operations of the cores.
    pub fn flops(&self) -> u64 {
        self.kernels.iter().map(|k| k.flops).sum()
    }
}

/// What [`assert_fused!`](crate::assert_fused) takes: an [`Explain`] or a [`Plan`].
pub trait Explained {
    /// What became of the function.
    fn explained(&self) -> Cow<'_, Explain>;
}

impl Explained for Explain {
    fn explained(&self) -> Cow<'_, Explain> {
        Cow::Borrowed(self)
    }
}

impl Explained for Plan {
    fn explained(&self) -> Cow<'_, Explain> {
        Cow::Owned(self.explain())
    }
}

impl<T: Explained + ?Sized> Explained for &T {
    fn explained(&self) -> Cow<'_, Explain> {
        (**self).explained()
    }
}

/// The text with which [`assert_fused!`](crate::assert_fused) fails, unless there are `kernels` kernels.
#[doc(hidden)]
pub fn expect_kernels(explained: &dyn Explained, kernels: usize) -> Result<(), String> {
    let e = explained.explained();
    let count = |n: usize| if n == 1 { "1 kernel".to_owned() } else { format!("{n} kernels") };
    if e.kernels.len() == kernels {
        return Ok(());
    }
    Err(format!("`{}` should be {} but is {}:\n\n{e}", e.function, count(kernels), count(e.kernels.len())))
}

/// Panics unless a function became so many kernels, and then shows what is in each, where a value goes through memory, and why.
///
/// ```
/// # use fused_graph_core::explain::{Explain, KernelReport, PlanSource};
/// # let explain = Explain { function: "f".into(), device: "the CPU".into(), arguments: vec![], cuts: vec![],
/// #     kernels: vec![KernelReport::default()], source: PlanSource::Built };
/// // let explain = conv_bias_relu::explain(&x, &w, &b)?;
/// fused_graph_core::assert_fused!(explain, kernels = 1);
/// ```
#[macro_export]
macro_rules! assert_fused {
    ($explained:expr, kernels = $kernels:expr $(,)?) => {
        if let ::std::result::Result::Err(text) = $crate::explain::expect_kernels(&$explained, $kernels) {
            ::std::panic!("{text}");
        }
    };
}
