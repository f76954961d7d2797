//! The cuDNN graph API, loaded at run time.
