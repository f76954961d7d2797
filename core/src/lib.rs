//! Graph, inference, fusion and the CPU backend of fused-graph; no CUDA in its tree.
