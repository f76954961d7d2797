//! The options of an annotated function: how its engines are chosen.

use crate::error::{Error, Result};
use std::fmt;

/// How engines are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heuristics {
    /// cuDNN's best guess.
    A,
    /// Slower to ask, wider.
    B,
    /// What works when nothing else does.
    Fallback,
    /// A quick guess.
    Instant,
}

/// What an engine says of itself: its numerical notes and its behaviour notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Note {
    /// Computes on tensor cores.
    TensorCore,
    /// Rounds its operands to a narrower type; F32 to TF32.
    DownConvert,
    /// Adds up in less than the type it computes in.
    ReducedPrecisionReduction,
    /// Another order of additions each time.
    Nondeterministic,
    /// Goes through a Fourier transform.
    Fft,
    /// Winograd's algorithm.
    Winograd,
    /// Compiled for the graph at hand when the plan is built.
    RuntimeCompilation,
    /// Can be put into a CUDA graph without capturing a stream.
    CudaGraphNative,
    /// Runs through cuBLASLt.
    CublasLt,
}

impl Note {
    /// All of them, with their names in the attribute and in texts.
    pub const ALL: &'static [(&'static str, Note)] = &[
        ("tensor_core", Note::TensorCore),
        ("down_convert", Note::DownConvert),
        ("reduced_precision_reduction", Note::ReducedPrecisionReduction),
        ("nondeterministic", Note::Nondeterministic),
        ("fft", Note::Fft),
        ("winograd", Note::Winograd),
        ("runtime_compilation", Note::RuntimeCompilation),
        ("cuda_graph_native", Note::CudaGraphNative),
        ("cublaslt", Note::CublasLt),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, note)| *note == self).map_or("?", |(name, _)| name)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Options of an annotated function; part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Only engines that give the same bits every time.
    pub deterministic: bool,
    /// Whether F32 cores may round their operands to TF32.
    pub tf32: bool,
    /// Most bytes of workspace that a plan may take.
    pub workspace_limit: Option<u64>,
    /// Heuristic modes, in the order in which their offers are tried.
    pub heuristics: &'static [Heuristics],
    /// If any are listed, only engines of these numbers are taken.
    pub engines: &'static [i64],
    /// Engines of these numbers are not taken.
    pub deny_engines: &'static [i64],
    /// Only engines that have all these notes are taken.
    pub require: &'static [Note],
    /// Engines that have one of these notes are not taken.
    pub deny: &'static [Note],
    /// Engine and knobs by hand, as cudnn-frontend writes them: `eng4_k24=2`.
    pub engine: Option<&'static str>,
    /// Multiprocessors that a kernel may take, where its engine can leave some free.
    pub sm_count: Option<u32>,
    /// The first call for a signature times the engines and keeps the fastest.
    pub autotune: bool,
    /// Plans of one function for different sizes share compiled kernels.
    pub dynamic_shapes: bool,
}

impl Options {
    /// TF32 allowed, heuristics A then Fallback, nothing else restricted.
    pub const DEFAULT: Options = Options {
        deterministic: false,
        tf32: true,
        workspace_limit: None,
        heuristics: &[Heuristics::A, Heuristics::Fallback],
        engines: &[],
        deny_engines: &[],
        require: &[],
        deny: &[],
        engine: None,
        sm_count: None,
        autotune: false,
        dynamic_shapes: false,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What differs from the default, in the attribute's own spelling: part of the key of a stored plan.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Options::DEFAULT;
        let names = |notes: &[Note]| notes.iter().map(|n| n.name()).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if self.deterministic {
            parts.push("deterministic".to_owned());
        }
        if !self.tf32 {
            parts.push("tf32 = false".to_owned());
        }
        parts.extend(self.workspace_limit.map(|n| format!("workspace_limit = {n}")));
        if self.heuristics != default.heuristics {
            parts.push(format!("heuristics = {:?}", self.heuristics));
        }
        if !self.engines.is_empty() {
            parts.push(format!("engines = {:?}", self.engines));
        }
        if !self.deny_engines.is_empty() {
            parts.push(format!("deny_engines = {:?}", self.deny_engines));
        }
        if !self.require.is_empty() {
            parts.push(format!("require = [{}]", names(self.require)));
        }
        if !self.deny.is_empty() {
            parts.push(format!("deny = [{}]", names(self.deny)));
        }
        parts.extend(self.engine.map(|e| format!("engine = {e:?}")));
        parts.extend(self.sm_count.map(|n| format!("sm_count = {n}")));
        if self.dynamic_shapes {
            parts.push("dynamic_shapes".to_owned());
        }
        // `autotune` is not among them: it chooses among the same plans.
        f.write_str(&parts.join(", "))
    }
}

impl std::str::FromStr for Options {
    type Err = Error;

    /// Reads what `Display` writes. Lists live as long as the process, which is how long those of the attribute do.
    fn from_str(text: &str) -> Result<Options> {
        let mut options = Options::DEFAULT;
        for part in split(text) {
            let (name, value) = part.split_once('=').map_or((part, ""), |(n, v)| (n.trim(), v.trim()));
            let wrong = || Error::argument(format!("`{part}` is no option of an annotated function"));
            let number = |text: &str| text.parse().map_err(|_| wrong());
            let list = || value.strip_prefix('[').and_then(|v| v.strip_suffix(']')).map(split).ok_or_else(wrong);
            match name {
                "deterministic" => options.deterministic = true,
                "dynamic_shapes" => options.dynamic_shapes = true,
                "tf32" => options.tf32 = value != "false",
                "workspace_limit" => options.workspace_limit = Some(value.parse().map_err(|_| wrong())?),
                "sm_count" => options.sm_count = Some(value.parse().map_err(|_| wrong())?),
                "engine" => options.engine = Some(String::leak(value.trim_matches('"').to_owned())),
                "engines" => options.engines = list()?.into_iter().map(number).collect::<Result<Vec<_>>>()?.leak(),
                "deny_engines" => {
                    options.deny_engines = list()?.into_iter().map(number).collect::<Result<Vec<_>>>()?.leak();
                }
                "require" => options.require = list()?.into_iter().map(note).collect::<Result<Vec<_>>>()?.leak(),
                "deny" => options.deny = list()?.into_iter().map(note).collect::<Result<Vec<_>>>()?.leak(),
                "heuristics" => options.heuristics = list()?.into_iter().map(mode).collect::<Result<Vec<_>>>()?.leak(),
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }
}

/// The parts between commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

fn note(name: &str) -> Result<Note> {
    let known = Note::ALL.iter().find(|(n, _)| *n == name).map(|(_, note)| *note);
    known.ok_or_else(|| Error::argument(format!("`{name}` is no note of an engine")))
}

fn mode(name: &str) -> Result<Heuristics> {
    let all = [Heuristics::A, Heuristics::B, Heuristics::Fallback, Heuristics::Instant];
    let known = all.into_iter().find(|mode| format!("{mode:?}") == name);
    known.ok_or_else(|| Error::argument(format!("`{name}` is no heuristic mode")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let all = Options {
            deterministic: true,
            tf32: false,
            workspace_limit: Some(64 << 20),
            heuristics: &[Heuristics::B, Heuristics::Instant],
            engines: &[4, 7],
            deny_engines: &[0],
            require: &[Note::CudaGraphNative],
            deny: &[Note::TensorCore, Note::CublasLt],
            engine: Some("eng4_k24=2"),
            sm_count: Some(64),
            autotune: false,
            dynamic_shapes: true,
        };
        for options in [all, Options::DEFAULT, Options { tf32: false, ..Options::DEFAULT }] {
            assert_eq!(options.to_string().parse::<Options>().unwrap(), options, "{options}");
        }
        for text in ["tf33 = true", "engines = 4", "deny = [x]", "workspace_limit = many", "heuristics = [C]", "]["] {
            assert!(text.parse::<Options>().is_err(), "{text}");
        }
    }
}
