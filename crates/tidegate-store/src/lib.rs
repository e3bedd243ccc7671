//! Where Tidegate keeps its rows.
//!
//! One narrow trait, [`Store`], and its implementations. No store knows a control by name.

mod store;

mod memory;

mod catalogs;
mod clock;
pub mod codec;
pub mod migrate;
mod settle;

pub use clock::{Clock, ManualClock, SystemClock};
pub use memory::MemoryStore;
pub use store::{Decide, Decision, MAX_ROUNDS, Store, StoreError};
