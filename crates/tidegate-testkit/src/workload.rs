//! One seeded workload of all commands, to be played on any store.
//!
//! A [`Move`] says what happens without naming rows: which of the known runs, which of the leases.
//! A [`Player`] turns moves into commands with what its own store has answered so far, so that the
//! same moves can be played on stores that number their rows differently.

mod player;

use std::ops::Range;

pub use player::Player;

use serde_json::{Value, json};

/// `SplitMix64`: short, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The chance of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// One of a list.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("less than a length")]
    }
}

/// The seeds to play: those asked for by `TIDEGATE_SEED` or `TIDEGATE_TEST_FULL`, else the first.
pub fn seeds(some: u64) -> Range<u64> {
    if let Ok(seed) = std::env::var("TIDEGATE_SEED") {
        let seed: u64 = seed.parse().expect("TIDEGATE_SEED is a number");
        return seed..seed + 1;
    }
    0..if std::env::var("TIDEGATE_TEST_FULL").is_ok() { FULL } else { some }
}

/// How many seeds a full run plays.
const FULL: u64 = 2000;

/// Something that happens. Numbers pick one of what the player knows.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Move {
    /// Events, in one request; the second may repeat the first's `dedupeId`.
    Post(Vec<Sent>),
    /// A call of an action.
    Call { action: &'static str, session: Option<&'static str>, key: u64 },
    /// A message, and the action that answers it.
    Say { respond: &'static str, session: Option<&'static str>, key: u64 },
    /// An occurrence of a schedule.
    Occur { workflow: &'static str },
    /// Ready runs are leased.
    Lease { limit: u32 },
    /// A worker reports.
    Report { run: u64, then: Goes },
    /// A worker reports with the fence of a lease that is over.
    Late { run: u64 },
    /// A worker confirms that it stopped.
    Stopped { run: u64 },
    /// People act on a run.
    Control { run: u64, how: &'static str },
    /// A definition is registered; a higher version is released.
    Register { workflow: &'static str, version: u32 },
    /// A version is released.
    Release { workflow: &'static str, version: u32 },
    /// Something about streams.
    Stream(Streams),
    /// Time passes, and all that is due is done.
    Pass { ms: u64 },
    /// The engine dies and its runs are taken from it.
    Lose,
}

impl Move {
    /// Whether it is one command, which may share a transaction with others.
    pub fn is_command(&self) -> bool {
        !matches!(self, Self::Pass { .. } | Self::Lose)
    }
}

/// An event to be posted.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its name.
    pub name: &'static str,
    /// What its key fields hold.
    pub key: u64,
    /// Its `dedupeId`.
    pub dedupe: Option<u64>,
}

/// How a leased run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Goes {
    /// It completes.
    Completes,
    /// It fails.
    Fails,
    /// It records a step, sends an event and goes on.
    Steps,
    /// It sleeps.
    Sleeps(u64),
    /// It waits for an event, with or without a match on a field.
    WaitsForEvent(Option<u64>),
    /// It waits for a signal.
    WaitsForSignal,
    /// It calls another workflow.
    Invokes(&'static str),
    /// It tries a step again later.
    Retries(u64),
    /// Its engine shuts down.
    Yields,
}

/// What happens to streams and reactions.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Streams {
    /// Events are committed, expecting nothing or a version.
    Commit { stream: &'static str, events: u64, expected: Option<i64> },
    /// Streams with work are leased.
    Claim,
    /// A lease's work is done, as far as it was seen.
    Ack { lease: u64 },
    /// A lease is kept for longer.
    Renew { lease: u64 },
    /// The handler failed.
    Fail { lease: u64, retryable: bool },
    /// The holder blocks or puts off its stream.
    Hold { lease: u64, block: bool },
    /// Blocked streams are released, or begin again.
    Repair { reset: bool },
    /// A stream is closed, emptied or begun anew.
    End { stream: &'static str, how: u64 },
}

/// The workflows and actions that every play begins with: each control alone, and several
/// together.
pub fn definitions(version: u32) -> Vec<Value> {
    let more = u64::from(version) - 1;
    let mut all = vec![
        json!({ "name": "plain" }),
        json!({ "name": "limit", "concurrency": [
            { "limit": 2 + more }, { "limit": 1, "key": "a" }, { "limit": 3, "span": "run" },
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
        json!({ "flow": "chat", "name": "say", "concurrency": "allow",
            "idempotency": { "key": "input.b", "periodMs": 60 } }),
        json!({ "flow": "chat", "name": "queue", "concurrency": [
            { "policy": "queue", "maxWaitMs": 70 + more }, { "limit": 2 },
        ] }),
        json!({ "flow": "chat", "name": "reject", "concurrency": "reject" }),
        json!({ "flow": "chat", "name": "restart", "concurrency": "restart" }),
        json!({ "flow": "chat", "name": "last", "concurrency": { "policy": "debounce", "periodMs": 30 + more } }),
    ];
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

/// The schedule of those that have one. What it does about overlapping occurrences is another thing
/// in each of them and in each version.
const SCHEDULE: &str = "@daily";

/// The first definitions: those that have a schedule.
const SCHEDULED: [&str; 2] = ["plain", "limit"];

const WORKFLOWS: [&str; 8] =
    ["plain", "limit", "throttle", "rate", "quiet", "pile", "single", "hand"];
/// The most commands in one transaction.
const TOGETHER: u64 = 6;

const STREAMS: [&str; 3] = ["order-1", "order-2", "cart-1"];

impl Chance {
    /// The next move.
    pub fn next_move(&mut self) -> Move {
        match self.below(100) {
            0..24 => Move::Post((0..=self.below(2)).map(|_| self.sent()).collect()),
            24..28 => Move::Say {
                respond: self.one(&["queue", "reject", "restart", "last"]),
                session: self.one(&[None, Some("s"), Some("t")]),
                key: self.below(3),
            },
            28..32 => Move::Call {
                action: self.one(&["queue", "reject", "restart", "last"]),
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
            79..88 => Move::Stream(self.streams()),
            88..99 => Move::Pass { ms: self.below(60) },
            _ => Move::Lose,
        }
    }

    /// Commands that share a transaction, or one thing that is no command.
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
        let name = if self.below(4) == 0 { self.one(&["single", "hand", "none"]) } else { name };
        let dedupe = (self.below(10) == 0).then(|| self.below(5));
        Sent { name, key: self.below(5), dedupe }
    }

    fn goes(&mut self) -> Goes {
        match self.below(16) {
            0..6 => Goes::Completes,
            6 => Goes::Fails,
            7 => Goes::Steps,
            8..10 => Goes::Sleeps(1 + self.below(50)),
            10 => Goes::WaitsForEvent((self.below(2) == 0).then(|| self.below(3))),
            11 => Goes::WaitsForSignal,
            12..14 => Goes::Invokes(self.one(&["plain", "limit", "single", "nowhere"])),
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
