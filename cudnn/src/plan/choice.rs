//! Engine and knobs.

use cudnn_sys::KnobType;
use fused_graph_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An engine and the values of its knobs, by cuDNN's numbers. Written as cudnn-frontend writes it: `eng4_k24=2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// The engine's number among those of its kind of graph.
    pub engine: i64,
    /// Kind and value of each knob.
    pub knobs: Vec<(i32, i64)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("eng{}", self.engine);
        self.knobs.iter().for_each(|(knob, value)| text += &format!("_k{knob}={value}"));
        f.pad(&text)
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Choice> {
        let wrong = || Error::argument(format!("{text:?} is no engine with knobs; write it as in `eng4_k24=2`"));
        let mut parts = text.trim().split('_');
        let engine = parts.next().and_then(|p| p.strip_prefix("eng")).and_then(|n| n.parse().ok());
        let knob = |part: &str| {
            let (knob, value) = part.strip_prefix('k')?.split_once('=')?;
            Some((knob.parse().ok()?, value.parse().ok()?))
        };
        let knobs = parts.map(knob).collect::<Option<Vec<(i32, i64)>>>().ok_or_else(wrong)?;
        Ok(Choice { engine: engine.ok_or_else(wrong)?, knobs })
    }
}

impl Choice {
    /// With the names of the knobs: `eng4_k24=2 (kernel_cfg 2)`.
    pub fn words(&self) -> String {
        let name = |knob: i32| {
            let name = KnobType(knob).name().map(|n| n.trim_start_matches("CUDNN_KNOB_TYPE_").to_lowercase());
            name.unwrap_or_else(|| format!("knob {knob}"))
        };
        let knobs: Vec<String> = self.knobs.iter().map(|&(knob, value)| format!("{} {value}", name(knob))).collect();
        if knobs.is_empty() { self.to_string() } else { format!("{self} ({})", knobs.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::Choice;

    #[test]
    fn texts() {
        for text in ["eng0", "eng4_k24=2", "eng41_k2=4_k13=0_k27=-1"] {
            assert_eq!(text.parse::<Choice>().map(|c| c.to_string()).ok().as_deref(), Some(text));
        }
        for text in ["", "eng", "4", "eng4_", "eng4_k=1", "eng4_k1", "eng4_k1=x", "eng4 k1=2"] {
            assert!(text.parse::<Choice>().is_err(), "{text:?}");
        }
        let choice = Choice { engine: 4, knobs: vec![(24, 2), (9999, 1)] };
        assert_eq!(choice.words(), "eng4_k24=2_k9999=1 (kernel_cfg 2, knob 9999 1)");
    }
}
