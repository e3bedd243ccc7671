//! What the book says about controls, told by the engine: its pictures, its pairs, its examples.
//!
//! What is no longer true fails here; `UPDATE_EXPECT=1` draws and writes it anew, for a reader.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at the rows it shows")]

mod draw;
mod examples;
mod links;
mod pairs;
mod pictures;
mod play;
