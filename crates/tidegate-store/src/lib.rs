//! Storage for Tidegate's rows.
//!
//! One narrow trait, [`Store`], and its implementations: memory, SQLite and PostgreSQL. No store
//! knows a control by name.

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
mod doctor;
mod error;
pub mod lease;
mod list;
pub mod migrate;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod scans;
mod schema;
mod single_writer;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod sql;
mod transactional;

pub use clock::{Clock, ManualClock, SystemClock};
pub use commit::{
    Answered, CommitEffects, SeededCommand, commit, commit_apart, commit_once, commit_reading,
    dry_run, why,
};
pub use doctor::check_up;
pub use error::{Reason, StoreError};
pub use list::{list_runs, look};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{Options as PostgresOptions, PostgresStore, PostgresTransaction, SqlError};
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteLook, SqliteStore, SqliteTransaction};
pub use store::{Decide, Decision, MAX_ROUNDS, Store, Visit};
#[cfg(feature = "postgres")]
pub use tokio_postgres;
pub use transactional::{Database, StepRecord, TransactionError};
