//! The pure decisions of Tidegate: what runs now, waits, merges, is replaced or dropped.
//!
//! This crate does no I/O, reads no clock, draws no random number and starts no thread. Time,
//! rows and chance are handed in; changes are handed back. It knows nothing of stores or HTTP.

pub mod action;
pub mod definition;
pub mod flow;
pub mod json;
pub mod key;
pub mod workflow;
