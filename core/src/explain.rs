//! What became of a function for one signature, as a value and as a text.

use std::fmt;

/// Where a plan came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanSource {
    /// Compiled in this process.
    Built,
    /// Found in memory.
    Memory,
}

/// One kernel of an [`Explain`].
#[derive(Clone, Debug, PartialEq)]
pub struct KernelReport {
    /// The operations in it, in the user's words: `conv2d`, `add b`, `relu`, ….
    pub operations: Vec<String>,
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

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.function, self.device)
    }
}
