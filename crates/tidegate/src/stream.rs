//! Streams in Rust.

pub mod event;
