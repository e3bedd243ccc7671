//! Tests of transactional steps: the writes of a step to the store's database and the record of the
//! step are committed together or not at all, on both databases.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stdout, reason = "the parent process reads the output")]

mod ground;
mod killed;
mod postgres;
mod sqlite;
mod stories;
