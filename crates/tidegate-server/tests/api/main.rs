//! End-to-end tests of the HTTP API and the command line: the real binary on loopback.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "a server runs in real time")]

mod arbitration;
mod bulk;
mod burst;
mod callers;
mod calls;
mod chat;
mod codes;
mod commands;
mod contention;
mod deferred;
mod demo;
mod described;
mod drain;
mod events;
mod failures;
mod fifo;
mod fleet;
mod flow_input;
mod flows;
mod frozen;
mod guard;
mod idle;
mod mcp;
mod metrics;
mod observe;
mod odd;
mod operate;
mod outage;
mod overrides;
mod poolers;
mod pools;
mod postgres;
mod reactions;
mod refusals;
mod reload;
mod repeats;
mod restarts;
mod runs;
mod schedules;
mod server;
mod sessions;
mod silence;
mod stalls;
mod starving;
mod streams;
mod target;
mod two;
mod ways;
mod webhooks;
mod wire;
mod workflows;
