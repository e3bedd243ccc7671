//! Where Tidegate keeps its rows.
//!
//! One narrow trait, [`Store`], and its implementations. No store knows a control by name.

mod store;

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

mod catalogs;
mod clock;
pub mod codec;
mod commit;
pub mod migrate;
mod settle;

pub use clock::{Clock, ManualClock, SystemClock};
pub use commit::{Answered, Salted, Seen, commit, commit_apart, commit_once, dry_run, why};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{Options as PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::{Decide, Decision, MAX_ROUNDS, Store, StoreError};
