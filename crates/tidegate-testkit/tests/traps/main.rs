//! One test for each known trap (mistake that is easy to make) of a store on PostgreSQL. Each test
//! has been seen to fail without the rule that it names.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod commands;
mod commits;
mod crashes;
mod definitions;
mod doubt;
mod gates;
mod latches;
mod listeners;
mod proxy;
mod rig;
mod steps;
mod stopped;
mod stress;
