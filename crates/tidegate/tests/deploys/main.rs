//! Deploys of changed code under runs in progress.
//!
//! `table.rs` lists code changes, each with the expected end of a run that sleeps during the
//! deploy; a counter of effects shows that no forbidden effect was executed. `random.rs` executes
//! random programs with crashes and without code changes, and checks that none is reported as
//! changed. `copies.rs` tests retries from a step, `late.rs` answers that arrive while a run is
//! loaded, `values.rs` values and ids, `check.rs` the replay check.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story names the variants it is about")]

mod check;
mod copies;
mod late;
mod program;
mod random;
mod table;
mod values;
