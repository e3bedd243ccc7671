//! Back end of a small product: HTTP in front, durable workflows behind, one SQLite file below.
//!
//! `cargo run -p tidegate-example-saas` serves it on port 3000, with its data in `saas.db`. Its
//! tests run the same code, limits included, on a virtual clock.

pub mod outside;
pub mod routes;
pub mod workflows;
