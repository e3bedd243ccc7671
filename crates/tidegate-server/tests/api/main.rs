//! The real binary on loopback, spoken to as any client would.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "a server runs in real time")]

mod calls;
mod commands;
mod events;
mod flows;
mod operate;
mod outage;
mod postgres;
mod runs;
mod server;
mod target;
mod two;
