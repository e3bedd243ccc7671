//! The promises kept end to end: stories told to the real engine, on every store.
//!
//! A story is one function of a [`Lab`](tidegate::testing::Lab) and one line in the list;
//! [`stories!`](crate::stories) makes a `#[test]` of each for one store. The lines of the promise
//! that a story keeps are named in its doc comment. Time is moved, not waited for.

#![allow(clippy::unwrap_used, reason = "a story is a test: it stops where a promise breaks")]

mod list;
pub mod steps;
