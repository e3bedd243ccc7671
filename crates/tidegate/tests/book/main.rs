//! Checks of the book's statements about controls against the engine: pictures, pairs, examples.
//!
//! An outdated statement fails a test here. `UPDATE_EXPECT=1` regenerates the statements; review
//! the difference.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the rows it shows")]

mod draw;
mod examples;
mod glance;
mod links;
mod pairs;
mod parts;
mod pictures;
mod play;
mod refused;
