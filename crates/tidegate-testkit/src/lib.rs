//! What tests Tidegate: the contract of the stores, the behaviours that users are promised, and
//! the rigs that run both on every store. Never a dependency of shipped code.

pub mod behaviour;
pub mod contract;
pub mod fault;
pub mod postgres;
pub mod reference;
pub mod sample;
pub mod worker;
pub mod workload;
pub mod world;
