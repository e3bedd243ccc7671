//! Transactional steps: a step's writes to the store's own database and its record are committed
//! together or not at all, on both databases.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a process that is killed says how far it has come")]

mod ground;
mod killed;
mod postgres;
mod sqlite;
mod stories;
