//! Back end of a small product: an HTTP API, durable workflows, and one SQLite file.
//!
//! `cargo run -p tidegate-example-saas` serves it on port 3000, with its data in `saas.db`. Its
//! tests run the same code, with its limits, on a virtual clock.

pub mod outside;
pub mod routes;
pub mod workflows;
