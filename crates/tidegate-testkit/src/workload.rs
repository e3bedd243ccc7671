//! Seeded workload of all commands, which can be played on any store.
//!
//! A [`Move`] describes an operation without naming rows: it selects a run or a lease by its index
//! among the known ones. A [`Player`] turns moves into commands, with the answers that its own
//! store gave so far. So the same moves can be played on stores that number their rows differently.

mod limits;
mod player;

use std::ops::Range;

pub use limits::Limits;
pub use player::Player;

use serde_json::{Value, json};

/// `SplitMix64`, a short random generator that is the same on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Returns a random element of a list.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("less than a length")]
    }
}

/// Returns the seeds to play: the one in `TIDEGATE_SEED`, the first `FULL` with
/// `TIDEGATE_TEST_FULL`, or else the first `some`.
pub fn seeds(some: u64) -> Range<u64> {
    if let Ok(seed) = std::env::var("TIDEGATE_SEED") {
        let seed: u64 = seed.parse().expect("TIDEGATE_SEED is a number");
        return seed..seed + 1;
    }
    0..if std::env::var("TIDEGATE_TEST_FULL").is_ok() { FULL } else { some }
}

/// Number of seeds in a full run.
const FULL: u64 = 2000;

/// One operation. A number selects a run or a lease by its index among those that the player knows.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say what the fields are")]
pub enum Move {
    /// Posts events in one request; the second event may have the `dedupeId` of the first.
    Post(Vec<Sent>),
    /// Calls an action.
    Call { action: &'static str, session: Option<&'static str>, key: u64 },
    /// Sends a message together with a call of the action that replies.
    Say { respond: &'static str, session: Option<&'static str>, key: u64 },
    /// Starts an occurrence of a schedule.
    Occur { workflow: &'static str },
    /// Leases ready runs.
    Lease { limit: u32 },
    /// Sends a report as a worker.
    Report { run: u64, then: Goes },
    /// Sends a report as a worker, with the fence of an ended lease.
    Late { run: u64 },
    /// Reports as a worker that a cancelled run has stopped.
    Stopped { run: u64 },
    /// Cancels, pauses, resumes or signals a run, as an operator.
    Control { run: u64, how: &'static str },
    /// Registers a definition, which is released if its version is higher than all before.
    Register { workflow: &'static str, version: u32 },
    /// Releases a version.
    Release { workflow: &'static str, version: u32 },
    /// Performs an operation on streams.
    Stream(Streams),
    /// Changes limits as an operator.
    Limits(Limits),
    /// Advances the time and sweeps.
    Pass { ms: u64 },
    /// Marks the engine dead and reaps its runs.
    Lose,
}

impl Move {
    /// Whether the move is a single command, which can share a transaction with others.
    pub fn is_command(&self) -> bool {
        !matches!(self, Self::Pass { .. } | Self::Lose)
    }
}

/// An event to be posted.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The name of the event.
    pub name: &'static str,
    /// The value of its key fields.
    pub key: u64,
    /// The `dedupeId` of the event.
    pub dedupe: Option<u64>,
    /// The delay of its delivery, in milliseconds.
    pub delay: Option<u64>,
}

/// What a leased run does next.
#[derive(Clone, Copy, Debug)]
pub enum Goes {
    /// Completes.
    Completes,
    /// Fails.
    Fails,
    /// Records a step, sends an event and continues.
    Steps,
    /// Sleeps.
    Sleeps(u64),
    /// Waits for an event, with or without a match on a field.
    WaitsForEvent(Option<u64>),
    /// Waits for a signal.
    WaitsForSignal,
    /// Calls another workflow.
    Invokes(&'static str),
    /// Retries a step later.
    Retries(u64),
    /// Is handed over, because its engine shuts down.
    Yields,
    /// Asks for a place of a step in a pool.
    Asks {
        /// The pool.
        pool: &'static str,
        /// The key, and the value of `fair`.
        key: u64,
    },
    /// Waits for a place of a step in a pool.
    Parks {
        /// The pool.
        pool: &'static str,
        /// The key, and the value of `fair`.
        key: u64,
    },
    /// Ends the place of its last step without a record.
    Leaves,
    /// Meets an overload of the service, and retries a step later.
    Overloads(u64),
    /// Closes a gate, because the service has refused its call, and retries a step later.
    Closes {
        /// The gate.
        gate: Closed,
        /// The time until which it is closed, and after which the step is retried.
        ms: u64,
    },
    /// Corrects what it has reserved at the throttle of a pool.
    Settles(u32),
}

/// A gate that a run closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The throttle of its workflow.
    Throttle,
    /// The limit of its workflow.
    Limit,
    /// A pool.
    Pool(&'static str),
}

/// Operations on streams and reactions.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say what the fields are")]
pub enum Streams {
    /// Commits events, with an expected version or without.
    Commit { stream: &'static str, events: u64, expected: Option<i64> },
    /// Leases streams with new events.
    Claim,
    /// Acknowledges all events of a lease.
    Ack { lease: u64 },
    /// Renews a lease.
    Renew { lease: u64 },
    /// Reports a failure of the handler.
    Fail { lease: u64, retryable: bool },
    /// Blocks or defers the stream of a lease.
    Hold { lease: u64, block: bool },
    /// Unblocks or resets blocked streams.
    Repair { reset: bool },
    /// Closes, truncates or restarts a stream.
    End { stream: &'static str, how: u64 },
}

/// Returns the workflows and actions that are defined on every store: each control alone, and
/// several together.
pub fn definitions(version: u32) -> Vec<Value> {
    let more = u64::from(version) - 1;
    let mut all = vec![
        json!({ "name": "plain" }),
        json!({ "name": "limit", "concurrency": [
            { "limit": 2 + more }, { "limit": 1, "key": "a" }, { "limit": 3, "span": "run" },
        ], "waitsFor": { "event": "plain", "match": { "a": "a" } } }),
        json!({ "name": "cost", "concurrency": { "limit": 4, "cost": "cost", "key": "a" },
            "rateLimit": [
                { "limit": 30, "perMs": 100, "cost": "cost" }, { "limit": 9, "perMs": 50, "key": "a" },
            ],
            "throttle": [
                { "limit": 3, "perMs": 20 + more, "burst": 3, "cost": "cost", "key": "a" },
                { "limit": 2, "perMs": 10 + more, "burst": 3 },
            ] }),
        json!({ "name": "throttle", "throttle": { "limit": 3, "perMs": 100 + 10 * more, "burst": 2, "key": "a" } }),
        json!({ "name": "rate", "rateLimit": { "limit": 3 + more, "perMs": 100, "key": "a" } }),
        json!({ "name": "quiet", "debounce": { "periodMs": 40, "maxWaitMs": 90 + more, "key": "a" } }),
        json!({ "name": "pile", "batch": { "maxSize": 3 + more, "timeoutMs": 50, "key": "a" },
            "singleton": { "key": "a", "mode": "skip" } }),
        json!({ "name": "single", "singleton": { "key": "a" }, "priority": { "shiftMs": 30 + more },
            "idempotency": { "key": "b", "periodMs": 60 } }),
        json!({ "name": "hand", "handoff": { "type": "keyed", "keyField": "a",
            "onNewVersion": if version == 2 { "supersede" } else { "drain" } } }),
        json!({ "name": "soon", "startWithinMs": 40 + more, "concurrency": { "limit": 1 },
            "idempotency": { "key": "b", "periodMs": 90 } }),
        json!({ "name": "fresh", "singleton": { "key": "a", "mode": "latest" },
            "throttle": { "limit": 1, "perMs": 20 + more },
            "cancelOn": { "event": "none", "match": { "a": "a" }, "withinMs": 90 } }),
        json!({ "flow": "chat", "name": "say", "concurrency": "allow",
            "idempotency": { "key": "input.b", "periodMs": 60 } }),
        json!({ "flow": "chat", "name": "queue", "concurrency": [
            { "policy": "queue", "maxWaitMs": 70 + more }, { "limit": 2 },
        ], "cancelOn": { "event": "none", "match": { "a": "input.a" } } }),
        json!({ "flow": "chat", "name": "reject", "concurrency": "reject" }),
        json!({ "flow": "chat", "name": "restart", "concurrency": "restart" }),
        json!({ "flow": "chat", "name": "newest", "concurrency": "latest" }),
        json!({ "flow": "chat", "name": "last", "concurrency": { "policy": "debounce", "periodMs": 30 + more } }),
    ];
    all.extend(limits::definitions(more));
    for (n, definition) in all.iter_mut().enumerate() {
        definition["version"] = json!(version);
        if definition.get("flow").is_none() {
            definition["triggers"] = json!(["all", definition["name"]]);
        }
        if let Some(triggers) =
            definition["triggers"].as_array_mut().filter(|_| n < SCHEDULED.len())
        {
            let word = ["skip", "queue", "restart", "allow"][(n + version as usize) % 4];
            triggers.push(json!({ "cron": SCHEDULE, "onOverlap": word }));
        }
    }
    all
}

/// The schedule of the scheduled workflows. The overlap policy differs by workflow and by version.
const SCHEDULE: &str = "@daily";

/// The scheduled workflows, which are the first two definitions.
const SCHEDULED: [&str; 2] = ["plain", "limit"];

const WORKFLOWS: [&str; 16] = [
    "plain", "limit", "cost", "throttle", "rate", "quiet", "pile", "single", "hand", "soon",
    "fresh", "turns", "pooled", "asking", "bounded", "adapts",
];

const ACTIONS: [&str; 6] = ["queue", "reject", "restart", "newest", "last", "full"];

/// Maximum number of commands in one transaction.
const TOGETHER: u64 = 6;

const STREAMS: [&str; 3] = ["order-1", "order-2", "cart-1"];

impl Chance {
    /// Draws the next move.
    pub fn next_move(&mut self) -> Move {
        match self.below(100) {
            0..24 => Move::Post((0..=self.below(2)).map(|_| self.sent()).collect()),
            24..28 => Move::Say {
                respond: self.one(&ACTIONS),
                session: self.one(&[None, Some("s"), Some("t")]),
                key: self.below(3),
            },
            28..32 => Move::Call {
                action: self.one(&ACTIONS),
                session: self.one(&[None, Some("s"), Some("t")]),
                key: self.below(3),
            },
            32..34 => Move::Occur { workflow: self.one(&SCHEDULED) },
            34..48 => Move::Lease { limit: u32::try_from(1 + self.below(4)).expect("small") },
            48..66 => Move::Report { run: self.draw(), then: self.goes() },
            66..67 => Move::Late { run: self.draw() },
            67..71 => Move::Stopped { run: self.draw() },
            71..77 => Move::Control {
                run: self.draw(),
                how: self.one(&["cancel", "cancel", "pause", "resume", "signal"]),
            },
            77..78 => {
                Move::Register { workflow: self.one(&WORKFLOWS), version: self.one(&[1, 2, 3]) }
            }
            78..79 => {
                Move::Release { workflow: self.one(&WORKFLOWS), version: self.one(&[1, 2, 4]) }
            }
            79..84 => Move::Stream(self.streams()),
            84..88 => Move::Limits(self.limits()),
            88..99 => Move::Pass { ms: self.below(60) },
            _ => Move::Lose,
        }
    }

    /// Draws commands that share a transaction, or one move that is not a command.
    pub fn group(&mut self) -> Vec<Move> {
        let mut moves = vec![self.next_move()];
        let most = 1 + self.below(TOGETHER);
        while moves.iter().all(Move::is_command) && (moves.len() as u64) < most {
            let next = self.next_move();
            if next.is_command() {
                moves.push(next);
            }
        }
        moves
    }

    fn sent(&mut self) -> Sent {
        let name = self.one(&["all", "plain", "limit", "throttle", "rate", "quiet", "pile"]);
        let name = if self.below(4) == 0 {
            let more = ["single", "hand", "soon", "fresh", "cost", "none"];
            let limited = ["turns", "adapts", "pooled", "asking", "bounded"];
            if self.below(2) == 0 { self.one(&more) } else { self.one(&limited) }
        } else {
            name
        };
        let dedupe = (self.below(10) == 0).then(|| self.below(5));
        let key = self.below(5);
        let delay = (self.below(8) == 0).then(|| self.below(60));
        Sent { name, key, dedupe, delay }
    }

    fn goes(&mut self) -> Goes {
        match self.below(24) {
            20..22 => Goes::Overloads(1 + self.below(30)),
            22 => {
                let gates =
                    [Closed::Throttle, Closed::Limit, Closed::Pool("gpu"), Closed::Pool("api")];
                Goes::Closes { gate: self.one(&gates), ms: 1 + self.below(30) }
            }
            23 => Goes::Settles(u32::try_from(self.below(5)).expect("small")),
            16..18 => Goes::Asks { pool: self.one(&limits::POOLS), key: self.below(3) },
            18 => Goes::Parks { pool: self.one(&limits::POOLS), key: self.below(3) },
            19 => Goes::Leaves,
            0..6 => Goes::Completes,
            6 => Goes::Fails,
            7 => Goes::Steps,
            8..10 => Goes::Sleeps(1 + self.below(50)),
            10 => Goes::WaitsForEvent((self.below(2) == 0).then(|| self.below(3))),
            11 => Goes::WaitsForSignal,
            12..14 => {
                Goes::Invokes(self.one(&["plain", "limit", "single", "soon", "fresh", "nowhere"]))
            }
            14 => Goes::Retries(1 + self.below(30)),
            _ => Goes::Yields,
        }
    }

    fn streams(&mut self) -> Streams {
        let stream = self.one(&STREAMS);
        match self.below(12) {
            0..4 => Streams::Commit {
                stream,
                events: 1 + self.below(3),
                expected: self.one(&[None, None, Some(-1), Some(0), Some(3)]),
            },
            4..6 => Streams::Claim,
            6..8 => Streams::Ack { lease: self.draw() },
            8 => Streams::Renew { lease: self.draw() },
            9 => Streams::Fail { lease: self.draw(), retryable: self.below(2) == 0 },
            10 => match self.below(2) {
                0 => Streams::Hold { lease: self.draw(), block: self.below(2) == 0 },
                _ => Streams::Repair { reset: self.below(2) == 0 },
            },
            _ => Streams::End { stream, how: self.below(3) },
        }
    }
}
