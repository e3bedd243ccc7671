//! Real processes on one PostgreSQL, killed at random, and a judge who was not there.
//!
//! A [`worker`] admits, leases, drives and sweeps as an engine does, and writes down what it does
//! in a [`journal`] of its own. The [`rig`] starts workers, kills them and puts others in their
//! places. Two look at it from outside the engine: [`drives`] reads the journals, [`rows`] reads
//! the tables with plain SQL. Neither asks the engine, so that neither shares its mistakes.
//!
//! Times in journals are the machine's clock in microseconds: all processes live on one machine.

pub mod drives;
pub mod journal;
pub mod lease;
pub mod rig;
pub mod rows;
pub mod script;
pub mod worker;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::row::EngineId;
use tidegate_store::{Clock, PostgresOptions, SystemClock};

/// The one workspace.
pub const WORKSPACE: &str = "default";

/// The one workflow, and the name of the event that starts it.
pub const WORKFLOW: &str = "torture";

/// How many keys the runs compete for.
pub const KEYS: u64 = 10;

/// How many runs of one key may be driven at once.
pub const LIMIT: usize = 3;

/// How long a lease lasts without renewal.
pub const TTL: Duration = Duration::from_millis(LEASE_MS as u64);

/// The same in milliseconds.
pub const LEASE_MS: u32 = 1200;

/// An engine that could not renew stops this long before its lease ends.
pub const MARGIN: Duration = Duration::from_millis(200);

/// What a worker needs to know. It travels as JSON in the environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The database.
    pub url: String,
    /// The schema that all workers share.
    pub schema: String,
    /// The worker's engine, in hexadecimal: fresh for every process.
    pub engine: String,
    /// Where it writes its journal.
    pub journal: String,
    /// Where its random numbers begin.
    pub seed: u64,
    /// What a predecessor posted without hearing an answer: id and key, to be posted again.
    pub unanswered: Vec<(String, String)>,
}

impl Orders {
    /// The variable that orders travel in.
    pub const VARIABLE: &str = "TIDEGATE_TORTURE_ORDERS";

    /// The orders of this process, if it is a worker.
    pub fn of_this_process() -> Option<Self> {
        let text = std::env::var(Self::VARIABLE).ok()?;
        Some(serde_json::from_str(&text).expect("the rig writes them"))
    }

    /// The engine's id.
    pub fn engine_id(&self) -> EngineId {
        EngineId::from_str_radix(&self.engine, 16).expect("the rig writes it")
    }

    /// How the worker opens its store: every time-out is a quarter of the lease.
    pub fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.schema.clone(),
            lock_timeout: TTL / 4,
            statement_timeout: TTL / 4,
            idle_timeout: TTL / 4,
            beat_timeout: TTL / 4,
            ..PostgresOptions::default()
        }
    }
}

/// The machine's clock in microseconds.
pub fn micros() -> i64 {
    SystemClock.now().micros()
}

/// Waits in real time: what is waited for are real processes.
#[expect(clippy::disallowed_methods, reason = "a process does not live on the engine's clock")]
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Random numbers that a seed repeats.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (`SplitMix64`).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A time of so many milliseconds at the most.
    pub fn up_to_ms(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.below(ms * 1000 + 1))
    }
}
