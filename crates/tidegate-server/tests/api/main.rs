//! The real binary on loopback, spoken to as any client would.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "a server runs in real time")]

mod bulk;
mod calls;
mod chat;
mod commands;
mod demo;
mod events;
mod flows;
mod guard;
mod mcp;
mod metrics;
mod observe;
mod operate;
mod outage;
mod postgres;
mod reactions;
mod reload;
mod repeats;
mod runs;
mod schedules;
mod server;
mod sessions;
mod streams;
mod target;
mod two;
mod webhooks;
mod workflows;
