//! A durable workflow engine whose heart is flow control.
//!
//! This crate is what a program embeds. It brings together the pure decisions
//! ([`core`]) and the stores that keep their rows ([`store`]).

pub use tidegate_core as core;
pub use tidegate_store as store;
pub use tidegate_store::lease;

/// The README's program, so that it cannot rot.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program of the page on leases, for the same reason.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/leases.md")]
struct LeasesPage;
