//! Under construction.

pub mod postgres;
