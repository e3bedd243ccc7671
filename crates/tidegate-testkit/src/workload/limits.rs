//! Pools, overrides and steps in pools in the workload.

use serde_json::{Value, json};
use tidegate_core::{
    audit::Author,
    command::Command,
    flow::step_pool::{PoolAsk, key_of},
    overrides::{OverrideChange, Target},
    pool::{Pool, PoolCommand},
    row::Workspace,
    time::Timestamp,
};

use super::Chance;

/// A change of limits by an operator.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    /// Declares a pool with other numbers and weights.
    Pool {
        /// The pool.
        pool: &'static str,
        /// The form of the declaration.
        form: u64,
    },
    /// Puts an override of a target in force.
    Set {
        /// The target.
        target: u64,
        /// The fields.
        fields: u64,
        /// The time after which the override ends, in milliseconds.
        ends: Option<u64>,
    },
    /// Removes the override of a target.
    Remove {
        /// The target.
        target: u64,
    },
    /// Undoes the latest change of a target.
    Undo {
        /// The target.
        target: u64,
    },
    /// Cancels what waits at a target.
    Purge {
        /// The target.
        target: u64,
    },
}

/// The pools of the workload.
pub(super) const POOLS: [&str; 2] = ["gpu", "api"];

/// Returns the declaration of a pool: with and without turns, and with other numbers.
pub(super) fn pool(name: &str, form: u64) -> Value {
    let fair = json!({ "by": "a", "weights": { "1": 1 + form }, "defaultWeight": 2 });
    let mut concurrency = json!({ "limit": 2 + form });
    let mut throttle = json!({ "limit": 3, "perMs": 20 + form, "burst": 3 });
    if form < 2 {
        concurrency["fair"] = fair.clone();
        throttle["fair"] = fair;
    }
    let rate = json!({ "limit": 9, "perMs": 60 });
    match name {
        "gpu" => json!({ "name": name, "concurrency": concurrency }),
        _ => json!({ "name": name, "concurrency": { "limit": 4, "key": "a",
                "adaptive": { "min": 1, "max": 4 + form } },
            "throttle": throttle, "rateLimit": rate }),
    }
}

/// Returns the workflows and actions with these limits.
pub(super) fn definitions(more: u64) -> Vec<Value> {
    let fair = json!({ "by": "a", "weights": { "1": 3 }, "defaultWeight": 1 + more });
    vec![
        json!({ "name": "turns",
            "concurrency": { "limit": 1, "fair": fair, "cost": 1 },
            "throttle": { "limit": 2, "perMs": 15, "burst": 2, "fair": fair } }),
        json!({ "name": "pooled", "concurrency": [{ "pool": "gpu", "cost": 1 + more % 2 }],
            "throttle": { "pool": "api" } }),
        json!({ "name": "asking", "concurrency": { "limit": 3 } }),
        json!({ "name": "adapts", "concurrency": [
            { "limit": 3, "adaptive": { "min": 1, "max": 4 + more, "cooldownMs": 20 } },
            { "limit": 2, "key": "a", "span": "run", "adaptive": { "min": 1, "max": 3 } },
        ] }),
        json!({ "name": "bounded", "concurrency": { "limit": 1, "span": "run", "key": "b",
            "queue": { "maxWaiting": 1 + more, "onOverflow": "dropOldest" } } }),
        json!({ "flow": "chat", "name": "full", "concurrency": [
            { "policy": "queue", "queue": { "maxWaiting": 1 } }, { "pool": "gpu" },
        ] }),
    ]
}

/// Returns the target with this number.
fn target(number: u64) -> Target {
    let of = |workflow: &str, more: Value| {
        let mut target = json!({ "app": "default", "workflow": workflow });
        let more = more.as_object().expect("an object").clone();
        target.as_object_mut().expect("an object").extend(more);
        target
    };
    let target = match number % 13 {
        0 => of("turns", json!({ "control": "concurrency" })),
        1 => of("turns", json!({ "control": "throttle" })),
        2 => of("turns", json!({})),
        3 => of("limit", json!({ "control": "concurrency", "path": "a" })),
        4 => of("limit", json!({ "control": "concurrency", "path": "a", "key": 1 })),
        5 => of("limit", json!({ "path": "a", "key": true })),
        6 => of("throttle", json!({ "control": "throttle", "path": "a", "keyPrefix": "1" })),
        7 => of("rate", json!({ "control": "rateLimit", "path": "a" })),
        8 => of("bounded", json!({ "control": "concurrency", "span": "run", "path": "b" })),
        9 => json!({ "pool": "gpu", "control": "concurrency" }),
        10 => json!({ "pool": "gpu" }),
        11 => of("adapts", json!({ "control": "concurrency" })),
        _ => json!({ "pool": "api", "control": "throttle" }),
    };
    serde_json::from_value(target).expect("a target")
}

impl Limits {
    /// Returns the command.
    pub(super) fn command(self, ws: Workspace, now: Timestamp) -> Command {
        let by = Author { name: Some("ops".to_owned()), address: None };
        let change = |change| {
            let (ws, by, if_epoch) = (ws.clone(), by.clone(), None);
            Command::Override { ws, change: Box::new(change), by, if_epoch }
        };
        match self {
            Self::Pool { pool: name, form } => {
                let pool = Pool::parse(&pool(name, form)).expect("a good pool").value;
                Command::Pool { ws, command: PoolCommand::Put(Box::new(pool)) }
            }
            Self::Set { target: number, fields, ends } => {
                // Fields that do not belong to the target are refused, on every store.
                let closed = now.plus_ms(25).rfc3339();
                let fields = match fields {
                    0 => json!({ "limit": 1 }),
                    1 => json!({ "limit": 4 }),
                    2 => json!({ "burst": 2 }),
                    3 | 4 => json!({ "paused": true }),
                    _ => json!({ "closedUntil": closed }),
                };
                let fields = serde_json::from_value(fields).expect("fields");
                let (reason, expires_at) = (None, ends.map(|ms| now.plus_ms(ms)));
                change(OverrideChange::Set { target: target(number), fields, reason, expires_at })
            }
            Self::Remove { target: number } => change(OverrideChange::Remove(target(number))),
            Self::Undo { target: number } => change(OverrideChange::Undo(target(number))),
            Self::Purge { target: number } => {
                let (target, reason) = (target(number), "by hand".to_owned());
                Command::Purge { ws, target: Box::new(target), reason, if_epoch: None }
            }
        }
    }
}

/// Returns what a step asks for.
pub(super) fn asks(pool: &str, key: u64) -> Vec<PoolAsk> {
    let (pool, cost) = (pool.to_owned(), u32::from(key == 2) + 1);
    let key = json!(key % 2);
    let fair_by = key_of(&key);
    vec![PoolAsk { pool, key: key_of(&key), cost, fair_by }]
}

impl Chance {
    /// Draws a change of limits.
    pub(super) fn limits(&mut self) -> Limits {
        let target = self.below(13);
        match self.below(10) {
            0 => Limits::Pool { pool: self.one(&POOLS), form: self.below(4) },
            1..6 => {
                let ends = self.one(&[None, Some(30), Some(90)]);
                Limits::Set { target, fields: self.below(6), ends }
            }
            6..8 => Limits::Remove { target },
            8 => Limits::Undo { target },
            _ => Limits::Purge { target },
        }
    }
}
