//! The cuDNN backend of fused-graph.
