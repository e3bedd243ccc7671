//! Runs of functions in an app, which behaves as the SDKs of Inngest do.

mod app;
mod bad;
mod groups;
mod state;
mod steps;
mod waits;
