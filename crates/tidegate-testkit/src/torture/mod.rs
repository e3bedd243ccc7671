//! Real processes on one PostgreSQL that are killed at random, and checks from outside.
//!
//! A [`worker`] admits, leases, drives and sweeps as an engine does, and records its actions in its
//! own [`journal`]. The [`rig`] starts workers, kills them and replaces them. Two checks are
//! independent of the engine: [`drives`] reads the journals, [`rows`] reads the tables with plain
//! SQL. Neither calls the engine, so that an error of the engine cannot hide itself.
//!
//! Times in journals are the machine's clock in microseconds: all processes run on one machine.

pub mod drives;
pub mod journal;
pub mod lease;
pub mod limits;
pub mod rig;
pub mod rows;
pub mod script;
pub mod worker;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_core::{
    id::RunId,
    row::{Class, EngineId},
};
use tidegate_store::{Clock, PostgresOptions, SystemClock};

/// The only workspace.
pub const WORKSPACE: &str = "default";

/// The workflows, and the names of the events that start them. Without a pool there is only the
/// first.
pub const WORKFLOWS: [&str; 3] = ["torture", "torture.other", STEPS];

/// The workflow whose steps pass the pool, each with the key and the units of [`step_of`].
pub const STEPS: &str = "torture.steps";

/// The key of a run without a gate in journals.
pub const NO_KEY: &str = "-";

/// Number of keys that the runs compete for.
pub const KEYS: u64 = 10;

/// The limit that the runs compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contest {
    /// One workflow: at most 3 runs of a key at once.
    Keys,
    /// Two workflows and the steps of a third one that share a pool: at most 7 units of a key at
    /// once, 1 to 5 for a run or a step.
    Pool,
}

impl Contest {
    /// Returns the limit of each key.
    pub fn limit(self) -> usize {
        match self {
            Self::Keys => 3,
            Self::Pool => 7,
        }
    }

    /// Returns the greatest limit of each key at any time: overrides change that of the pool.
    pub fn most(self) -> usize {
        match self {
            Self::Keys => 3,
            Self::Pool => 9,
        }
    }

    /// Returns the class of the gates.
    pub fn class(self) -> Class {
        match self {
            Self::Keys => Class::Keyed,
            Self::Pool => Class::PoolLimit,
        }
    }

    /// Returns the declaration of the pool, if there is one.
    pub fn pool(self) -> Option<Value> {
        let limit = json!({ "limit": self.limit(), "key": "k" });
        (self == Self::Pool).then(|| json!({ "name": "shared", "concurrency": limit }))
    }

    /// Returns the definitions of the workflows.
    pub fn workflows(self) -> Vec<Value> {
        let all = match self {
            Self::Keys => vec![json!({ "limit": self.limit(), "key": "k" })],
            // The first workflow names the key, the second uses that of the pool.
            Self::Pool => vec![
                json!({ "pool": "shared", "key": "k", "cost": "c" }),
                json!({ "pool": "shared", "cost": "c" }),
            ],
        };
        let each = WORKFLOWS.iter().zip(all);
        let each = each.map(|(name, limit)| json!({ "name": name, "concurrency": limit }));
        let steps = (self == Self::Pool).then(|| json!({ "name": STEPS }));
        each.chain(steps).collect()
    }

    /// Returns the workflow and the units of the run of an event, which follow from its id.
    pub fn run_of(self, id: &str) -> (&'static str, usize) {
        let sum = id.bytes().fold(7_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 10_007);
        match self {
            Self::Keys => (WORKFLOWS[0], 1),
            Self::Pool => (WORKFLOWS[sum % 3], sum / 3 % 5 + 1),
        }
    }
}

/// Returns the key and the units of the steps of a run, which follow from its id.
pub fn step_of(run: RunId) -> (String, u32) {
    let mut dice = Dice::new(run.salt ^ 2);
    let key = format!("k{}", dice.below(KEYS));
    (key, u32::try_from(dice.below(5)).expect("few") + 1)
}

/// Returns the name of a step's place in journals, where it counts like a run.
pub fn place_of(run: RunId, step: &str) -> String {
    format!("{run}/{step}")
}

/// Length of a lease without renewal.
pub const TTL: Duration = Duration::from_millis(LEASE_MS as u64);

/// Length of a lease in milliseconds.
pub const LEASE_MS: u32 = 1200;

/// How long before the end of its lease an engine stops if it could not renew it.
pub const MARGIN: Duration = Duration::from_millis(200);

/// Configuration of a worker. It is passed as JSON in the environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// URL of the database.
    pub url: String,
    /// The schema that all workers share.
    pub schema: String,
    /// The engine id of the worker, in hexadecimal; new for every process.
    pub engine: String,
    /// Path of the worker's journal.
    pub journal: String,
    /// The limit that the runs compete for.
    pub contest: Contest,
    /// Seed of the worker's random numbers.
    pub seed: u64,
    /// Posts of killed workers that got no answer, to be posted again: id and key.
    pub unanswered: Vec<(String, String)>,
}

impl Orders {
    /// Name of the environment variable with the configuration.
    pub const VARIABLE: &str = "TIDEGATE_TORTURE_ORDERS";

    /// Returns the configuration of this process, if it is a worker.
    pub fn of_this_process() -> Option<Self> {
        let text = std::env::var(Self::VARIABLE).ok()?;
        Some(serde_json::from_str(&text).expect("the rig writes valid JSON"))
    }

    /// Returns the engine's id.
    pub fn engine_id(&self) -> EngineId {
        EngineId::from_str_radix(&self.engine, 16).expect("the rig writes it")
    }

    /// Returns the store options of the worker: every timeout is a quarter of the lease.
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

/// Returns the machine's clock in microseconds.
pub fn micros() -> i64 {
    SystemClock.now().micros()
}

/// Waits in real time, because the workers are real processes.
#[expect(clippy::disallowed_methods, reason = "real processes do not use the engine's clock")]
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Random numbers from a seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number (`SplitMix64`).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// Returns `true` with a probability of one in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a random duration of up to `ms` milliseconds.
    pub fn up_to_ms(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.below(ms * 1000 + 1))
    }
}
