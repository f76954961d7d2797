//! What needs a GPU, in one program, so that a bundle for a GPU machine stays small. `cargo xtask bundle` packs it.
#![cfg(feature = "cuda")]
#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod bind;
mod capture;
mod cases;
mod matrix;
mod slices;
mod store;
mod streams;
mod tune;
