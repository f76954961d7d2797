//! What functions were called with, written down so that plans can be made elsewhere.
//!
//! `FUSED_GRAPH_RECORD=file` adds a block for every signature that a process meets, on any device:
//!
//! ```text
//! call "linear"
//! options tf32 = false
//! alignments [256, 256]
//! graph "linear" {
//!   …
//! }
//! ```

use crate::backend::Options;
use crate::error::{Error, Result};
use crate::ir::Graph;
use crate::site::key_text;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A signature of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The function.
    pub function: String,
    /// Its options.
    pub options: Options,
    /// For each tensor the alignment of its address on a GPU.
    pub alignments: Vec<u32>,
    /// The traced graph.
    pub graph: Arc<Graph>,
}

impl RecordedCall {
    /// What its plan is stored under, besides device and library.
    pub fn key_text(&self) -> String {
        key_text(&self.options, &self.alignments, &self.graph)
    }

    fn block(&self) -> String {
        let RecordedCall { function, options, alignments, graph } = self;
        // On a line of its own, whatever a writer that was killed left in front of it.
        format!("\ncall {function:?}\noptions {options}\nalignments {alignments:?}\n{graph}\n")
    }

    fn read(block: &str) -> Result<RecordedCall> {
        let wrong = |what: &str| Error::argument(format!("a recorded call without {what}"));
        let (head, graph) = block.split_once("\ngraph ").ok_or_else(|| wrong("a graph"))?;
        let line = |name: &str| head.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let function = line("call ").ok_or_else(|| wrong("a function"))?.trim_matches('"').to_owned();
        let options = line("options").ok_or_else(|| wrong("options"))?.parse()?;
        let alignments = line("alignments").ok_or_else(|| wrong("alignments"))?.trim_matches(['[', ']']);
        let alignments = alignments.split(',').map(str::trim).filter(|n| !n.is_empty());
        let alignments = alignments.map(|n| n.parse().map_err(|_| wrong("alignments that are numbers")));
        let alignments: Vec<u32> = alignments.collect::<Result<_>>()?;
        let graph: Graph = format!("graph {graph}").parse()?;
        if alignments.len() != graph.inputs().count() {
            return Err(wrong("an alignment for each tensor"));
        }
        Ok(RecordedCall { function, options, alignments, graph: Arc::new(graph) })
    }
}

/// The calls of a record, each once, and what was wrong with the rest of it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The calls, in the order in which they were met.
    pub calls: Vec<RecordedCall>,
    /// Blocks that cannot be read: the end of a process that was killed, or another version's.
    pub problems: Vec<String>,
}

impl Record {
    /// Reads a text.
    pub fn parse(text: &str) -> Record {
        let mut record = Record::default();
        let mut seen = HashSet::new();
        let starts: Vec<usize> = text.match_indices("call \"").map(|(at, _)| at).collect();
        let starts = starts.into_iter().filter(|&at| at == 0 || text.as_bytes()[at - 1] == b'\n');
        let starts: Vec<usize> = starts.chain([text.len()]).collect();
        for pair in starts.windows(2) {
            let line = text[..pair[0]].lines().count() + 1;
            match RecordedCall::read(&text[pair[0]..pair[1]]) {
                Ok(call) => {
                    if seen.insert((call.function.clone(), call.key_text())) {
                        record.calls.push(call);
                    }
                }
                Err(e) => record.problems.push(format!("line {line}: {}", e.message())),
            }
        }
        record
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Record> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| Error::cache(format!("the record {} cannot be read: {e}", path.display())))?;
        Ok(Self::parse(&text))
    }
}

/// Where calls are written down.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    seen: Mutex<HashSet<String>>,
}

impl Recorder {
    /// Adds to a file, which other processes may add to at the same time.
    pub fn open(path: &Path) -> Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|e| Error::cache(format!("calls cannot be recorded in {}: {e}", path.display())))?;
        Ok(Recorder { file: Mutex::new(file), seen: Mutex::default() })
    }

    /// Writes a call down unless this recorder has done so before: a block in one write, so that those of several processes do not mix.
    pub fn add(&self, call: &RecordedCall) {
        let block = call.block();
        if !self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(block.clone()) {
            return;
        }
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(block.as_bytes());
        if let Err(error) = written {
            tracing::warn!(%error, "FUSED_GRAPH_RECORD");
        }
    }

    /// The one that `FUSED_GRAPH_RECORD` asks for.
    pub(crate) fn of_environment() -> Option<&'static Recorder> {
        static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
        let open = || {
            let path = std::env::var_os("FUSED_GRAPH_RECORD").filter(|p| !p.is_empty())?;
            Recorder::open(Path::new(&path)).inspect_err(|error| tracing::warn!(%error, "FUSED_GRAPH_RECORD")).ok()
        };
        RECORDER.get_or_init(open).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str, rows: i64, options: Options) -> RecordedCall {
        let text = format!("graph \"g\" {{\n  x = input f32 [{rows}, 4]\n  y = relu x\n  return y\n}}");
        RecordedCall {
            function: function.to_owned(),
            options,
            alignments: vec![256],
            graph: Arc::new(text.parse().unwrap()),
        }
    }

    #[test]
    fn there_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let exact = Options { tf32: false, ..Options::DEFAULT };
        let calls = [call("f", 1, Options::DEFAULT), call("f", 2, Options::DEFAULT), call("g", 1, exact)];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let recorder = Recorder::open(&path).unwrap();
                    for _ in 0..10 {
                        calls.iter().for_each(|c| recorder.add(c));
                    }
                });
            }
        });
        let record = Record::read(&path).unwrap();
        assert_eq!(record.problems, [""; 0]);
        assert_eq!(record.calls.len(), 3, "each once");
        assert!(calls.iter().all(|c| record.calls.contains(c)));
        // A writer that was killed leaves half a block; what follows is read again.
        let text = std::fs::read_to_string(&path).unwrap();
        let damaged = format!("{}{}{}", calls[0].block(), &calls[1].block()[..60], calls[2].block());
        let record = Record::parse(&damaged);
        assert_eq!((record.calls.len(), record.problems.len()), (2, 1), "{:?}", record.problems);
        for end in 0..text.len() {
            let _ = Record::parse(&text[..end]);
        }
        assert!(Record::read(&dir.path().join("none")).is_err());
        assert!(Recorder::open(dir.path()).is_err());
    }
}
