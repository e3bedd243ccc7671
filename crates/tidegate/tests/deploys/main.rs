//! Deploys of changed code: runs that are on their way meet the code of today.
//!
//! `table.rs` lists changes, each with what must become of a run that sleeps meanwhile; an effect
//! counter proves that nothing ran that must not. `random.rs` plays random programs that do not
//! change, with crashes, and holds that none of them is taken for changed. `copies.rs` has retries
//! from a step, `late.rs` answers that come while a run is loaded, `values.rs` values and ids.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story names what matters to it")]

mod check;
mod copies;
mod late;
mod program;
mod random;
mod table;
mod values;
