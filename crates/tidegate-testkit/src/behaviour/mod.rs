//! Behaviours that users are promised, each a story that runs on every store.
//!
//! A case is one function of a [`World`](crate::world::World) and one line in `list.rs`, or in
//! `flow_list.rs` if it is about flow control; [`behaviours!`](crate::behaviours) makes a `#[test]` of each for one store. The doc comment of a
//! case cites the rules that it tests (spec B60, G4, …).

#![allow(clippy::unwrap_used, reason = "a behaviour is a test: it stops where a promise breaks")]

pub mod adaptive;
pub mod admission;
pub mod arbitration;
pub mod batch;
pub mod begun;
pub mod cancel_on;
pub mod children;
pub mod chores;
pub mod clock;
pub mod closing;
pub mod compensation;
pub mod concurrency;
pub mod control;
pub mod conversations;
pub mod cost;
pub mod debounce;
pub mod deferred;
pub mod deploys;
pub mod edges;
pub mod explain;
pub mod fair;
pub mod fair_steps;
mod flow_list;
pub mod from_data;
pub mod holds;
pub mod idempotency;
pub mod key_sources;
pub mod keys;
pub mod latest;
pub mod leases;
pub mod life;
mod list;
pub mod lists;
pub mod observe;
pub mod output;
pub mod overlap;
pub mod overrides;
pub mod policies;
pub mod pool_overrides;
pub mod pools;
pub mod priority;
pub mod promises;
pub mod purge;
pub mod queues;
pub mod rate_limit;
pub mod reacting;
pub mod reactions;
pub mod receipts;
pub mod releases;
pub mod repairs;
pub mod repeats;
pub mod replays;
pub mod retention;
pub mod retired;
pub mod schedules;
pub mod serving;
pub mod sessions;
pub mod settle;
pub mod singleton;
pub mod staged;
pub mod start_within;
pub mod step_pools;
pub mod step_queues;
pub mod streams;
pub mod throttle;
pub mod timeouts;
pub mod versions;
pub mod waits;
pub mod waits_for;
pub mod windows;
