//! Annotated Rust functions as fused, cached cuDNN graphs.
