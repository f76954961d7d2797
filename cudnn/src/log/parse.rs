//! The structure of a message.
//!
//! Two forms carry reasons (cuDNN 9.19 to 9.28). Where a heuristic's offers were checked, there is a stack for each:
//!
//! ```text
//! Warning: No viable engine configs among (16) heuristics result(s).
//! === error stack (1/16) ===
//! engineConfig: type=json; val={"engineId":4,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_KERNEL_CFG":3}};
//! Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: !is_NHWC
//! Warning: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT; Reason: check_for_support()
//! ```
//!
//! Elsewhere the same lines come without the engine. The first line of a stack is the cause; the others are the calls that
//! passed it on. A text before ` at: ` explains the condition behind it.

use cudnn_sys::Status;

/// That an engine refused a graph, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The engine's number among those for the graph, where it is known.
    pub engine: Option<i64>,
    /// Its knobs, as in `CUDNN_KNOB_TYPE_KERNEL_CFG=3`.
    pub knobs: Vec<String>,
    /// The class of the reason.
    pub status: Status,
    /// The explanation, where cuDNN has one.
    pub explanation: Option<String>,
    /// The condition that was found to hold, in cuDNN's own source text.
    pub condition: Option<String>,
}

impl Refusal {
    /// The explanation, or else the condition.
    pub fn reason(&self) -> &str {
        self.explanation.as_deref().or(self.condition.as_deref()).unwrap_or("no reason is given")
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.engine {
            Some(engine) => write!(f, "engine {engine}: {} ({})", self.reason(), self.status),
            None => write!(f, "{} ({})", self.reason(), self.status),
        }
    }
}

/// The refusals that a message or [`cudnn_sys::Api::last_error`] tells of.
pub fn refusals(text: &str) -> Vec<Refusal> {
    let mut found = vec![];
    // The engine that the lines are about. A stack has one cause, so after it the rest is skipped.
    let mut engine: Option<Engine> = None;
    let mut in_stack = false;
    let mut cause_seen = false;
    for line in text.lines().map(str::trim) {
        if let Some(config) = Engine::parse(line) {
            (engine, in_stack, cause_seen) = (Some(config), true, false);
        } else if line.starts_with("=== error stack") {
            (engine, in_stack, cause_seen) = (None, true, false);
        } else if let Some((status, reason)) = reason(line) {
            let skip = if in_stack { cause_seen } else { passes_on(reason) };
            if !skip && !status.is_success() {
                let (explanation, condition) = split(reason);
                let Engine { id, knobs } = engine.take().unwrap_or_default();
                found.push(Refusal { engine: id, knobs, status, explanation, condition });
            }
            cause_seen = true;
        }
    }
    found
}

/// Refusals of the same engine for the same reason under other knobs once, with how often each occurred. In the order in
/// which they first occurred.
pub fn distinct(refusals: Vec<Refusal>) -> Vec<(Refusal, usize)> {
    let mut found: Vec<(Refusal, usize)> = vec![];
    for refusal in refusals {
        let same = |other: &Refusal| {
            (other.engine, other.status, other.reason()) == (refusal.engine, refusal.status, refusal.reason())
        };
        match found.iter_mut().find(|(other, _)| same(other)) {
            Some((_, count)) => *count += 1,
            None => found.push((refusal, 1)),
        }
    }
    found
}

#[derive(Default)]
struct Engine {
    id: Option<i64>,
    knobs: Vec<String>,
}

impl Engine {
    /// Reads `{"engineId":4,"smVersion":900,"knobChoices":{"A":3,"B":-1}}`, which may follow other words.
    fn parse(line: &str) -> Option<Self> {
        let (_, json) = line.split_once("{\"engineId\":")?;
        let number = json.split([',', '}']).next()?;
        let knobs = json.split_once("\"knobChoices\":{").and_then(|(_, knobs)| knobs.split_once('}'));
        let knobs = knobs.map_or("", |(knobs, _)| knobs).split(',').filter(|knob| !knob.is_empty());
        let knobs = knobs.map(|knob| knob.replace('"', "").replace(':', "=")).collect();
        // -1 is no engine but a heuristic's way to say that it has no offer.
        Some(Self { id: number.trim().parse().ok().filter(|id| *id >= 0), knobs })
    }
}

/// Of `Warning: CUDNN_STATUS_X; Reason: y`.
fn reason(line: &str) -> Option<(Status, &str)> {
    let line = line.strip_prefix("Warning: ").or_else(|| line.strip_prefix("Error: "))?;
    let (status, reason) = line.split_once("; Reason: ")?;
    Some((Status::from_name(status).unwrap_or(Status::NOT_SUPPORTED), reason.trim()))
}

fn split(reason: &str) -> (Option<String>, Option<String>) {
    match reason.split_once(" at: ") {
        // "at: true" is an unconditional refusal.
        Some((explanation, "true")) => (Some(explanation.to_owned()), None),
        Some((explanation, condition)) => (Some(explanation.to_owned()), Some(condition.to_owned())),
        None => (None, Some(reason.to_owned())),
    }
}

/// Whether the reason is a call whose failure was passed on: `check_for_support()`, `ptr->isSupported()`; or one of the
/// conditions by which statuses are passed on.
fn passes_on(reason: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_:.->".contains(c);
    let call = reason.split_once('(').is_some_and(|(function, rest)| {
        !function.is_empty() && function.chars().all(is_name) && rest.ends_with(')') && !rest.contains("==")
    });
    call || reason.contains("CUDNN_STATUS_NOT_INITIALIZED == status") || reason == "!isValidSetting(name, c)"
}
