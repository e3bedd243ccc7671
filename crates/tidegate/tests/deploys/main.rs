//! Deploys of changed code: runs that are on their way meet the code of today.
//!
//! `table.rs` lists changes, each with what must become of a run that sleeps meanwhile; an effect
//! counter proves that nothing ran that must not. `random.rs` plays random programs that do not
//! change, with crashes, and holds that none of them is taken for changed.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story names what matters to it")]

mod check;
mod copies;
mod program;
mod random;
mod table;
