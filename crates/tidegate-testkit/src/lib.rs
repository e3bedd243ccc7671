//! Contract suites, samples and rigs that test Tidegate's stores. Shipped code never needs it.

pub mod contract;
pub mod postgres;
pub mod sample;
