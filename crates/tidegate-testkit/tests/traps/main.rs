//! One test for each known trap of a store on PostgreSQL. Each was seen to fail when the rule that
//! it names was left out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commands;
mod commits;
mod crashes;
mod definitions;
mod doubt;
mod gates;
mod latches;
mod proxy;
mod rig;
mod steps;
mod stopped;
mod stress;
