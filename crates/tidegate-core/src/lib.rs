//! Pure decision functions of Tidegate.
//!
//! Every decision is a function of its arguments: it gets rows and returns changes. There is no
//! I/O, no clock, no randomness, and no iteration order that differs between program runs. A store
//! reads the rows that a decision needs under lock, calls the decision, and writes the returned
//! changes, in one transaction.

pub mod access;
pub mod action;
pub mod audit;
pub mod catalog;
pub mod command;
pub mod definition;
pub mod delivery;
pub mod doctor;
pub mod draft;
pub mod event;
pub mod expected;
pub mod explain;
pub mod expr;
pub mod flow;
pub mod id;
pub mod idempotency_key;
pub mod json;
#[cfg(feature = "schemars")]
mod json_schema;
pub mod key;
pub mod list;
pub mod observe;
mod one_or_many;
pub mod overrides;
pub mod pool;
pub mod reaction;
pub mod reads;
pub mod request;
pub mod retention;
pub mod row;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod session;
pub mod stream;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod turn;
pub mod version;
