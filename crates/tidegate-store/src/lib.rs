//! Where Tidegate keeps its rows.
//!
//! One narrow trait, [`Store`], and its implementations. No store knows a control by name.

pub mod codec;
mod store;

pub use store::{Decide, Decision, MAX_ROUNDS, Store, StoreError};
