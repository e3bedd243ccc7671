//! Test kit: the store contract, the behaviours that users are promised, and the code that runs
//! both on every store. Never a dependency of shipped code.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the one answer that it wants and prints any other"
)]

pub mod behaviour;
pub mod contract;
pub mod fault;
pub mod pgbouncer;
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
pub mod reference;
pub mod sample;
pub mod server;
pub mod sim;
pub mod torture;
pub mod worker;
pub mod workload;
pub mod world;
