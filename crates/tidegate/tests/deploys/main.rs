//! Deploys of changed code under runs in progress.
//!
//! `table.rs` lists changes, each with the expected end of a run that sleeps meanwhile; an effect
//! counter proves that no forbidden effect ran. `random.rs` plays random unchanged programs, with
//! crashes, and checks that none is reported as changed. `copies.rs` has retries from a step,
//! `late.rs` answers that arrive while a run is loaded, `values.rs` values and ids, `check.rs` the
//! replay check.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story names the variants it is about")]

mod check;
mod copies;
mod late;
mod program;
mod random;
mod table;
mod values;
