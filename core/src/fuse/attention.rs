//! Which attentions a rule speaks of.

use super::rules::AttentionCase;
use crate::ir::{Graph, Node, Op, SdpaAttrs, SdpaOperand as O, SdpaPart};

/// Whether an attention is of a kind.
pub(super) fn is(graph: &Graph, node: &Node, attrs: &SdpaAttrs, case: AttentionCase) -> bool {
    let dims = |at: usize| graph.value(node.inputs[at]).dims;
    let (queries, keys) = (dims(0)[2], dims(1)[2]);
    let more_queries = queries > keys && !attrs.has(O::SeqLenQ);
    match case {
        AttentionCase::Any => true,
        AttentionCase::StatisticsOnly => {
            let whole = Op::Sdpa(SdpaAttrs { part: SdpaPart::Output, ..*attrs });
            let output = |n: &Node| n.op == whole && n.inputs == node.inputs && is_read(graph, n);
            !graph.nodes().any(|(_, n)| output(n))
        }
        AttentionCase::Width(multiple) => dims(0)[3] % multiple != 0 || dims(2)[3] % multiple != 0,
        AttentionCase::AlibiNotCausal => attrs.has(O::AlibiSlopes) && attrs.right != Some(0),
        AttentionCase::BottomRightBias => {
            attrs.bottom_right && attrs.is_banded() && (attrs.has(O::Bias) || attrs.has(O::AlibiSlopes))
        }
        AttentionCase::BottomRightMoreQueries => attrs.bottom_right && attrs.right.is_some() && more_queries,
        AttentionCase::LeftMoreQueries => attrs.left.is_some() && more_queries,
        AttentionCase::LeftOnlyKeys(most) => attrs.left.is_some() && attrs.right.is_none() && keys > most,
        AttentionCase::DecodeBand => {
            let band = attrs.left.is_some() || (attrs.right.is_some() && !attrs.bottom_right);
            queries == 1 && attrs.has(O::SeqLenQ) && band && dims(0)[1] != dims(1)[1]
        }
        AttentionCase::DecodeSink => queries == 1 && attrs.has(O::Sink),
    }
}

fn is_read(graph: &Graph, node: &Node) -> bool {
    graph.outputs().contains(&node.output) || graph.users(node.output).next().is_some()
}
