//! A durable workflow engine whose heart is flow control.
//!
//! This crate is what a program embeds. It brings together the pure decisions
//! ([`core`]) and the stores that keep their rows ([`store`]).

pub use tidegate_core as core;
pub use tidegate_store as store;

/// The README's program, so that it cannot rot.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod cron;
