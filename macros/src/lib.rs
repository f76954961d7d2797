//! The attribute macro of fused-graph.
