//! Runs a seeded workload of random reads and changes on every store. Each must give the same
//! answers as the memory store.
//!
//! The store contract tests known cases; this test finds differences in cases that it does not
//! have.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex},
};

use tidegate_core::{
    id::Seq,
    reads::{Change, Count, Counted, ReadSet, Scan, Snapshot},
    row::{
        Chore, Class, Ended, Engine, EngineId, Epoch, Gate, GateKey, Item, Phase, Place, Rank, Row,
        RowKey, Run, Schedule, Session, Signal, Stream, Subscription, WaitPath, WaitRow,
    },
    time::Timestamp,
    turn::{self, Claim, Turn},
};
use tidegate_store::{
    Decide, Decision, ManualClock, MemoryStore, PostgresOptions, PostgresStore, SqliteStore, Store,
    StoreError,
};
use tidegate_testkit::{postgres, sample};

const SEEDS: u64 = 20;
const STEPS: i64 = 200;

/// Number of seeds on PostgreSQL: fewer, because every transaction takes two round trips and a
/// flush.
const POSTGRES_SEEDS: u64 = 5;

#[tokio::test]
async fn sqlite_says_what_memory_says() {
    for seed in seeds(SEEDS) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let sqlite = SqliteStore::in_memory(clock.clone()).await.expect("a store in memory opens");
        // The clock advances slowly, so that the due times of the workload are reached one by one.
        let tick = |step| clock.set(Timestamp::from_micros(step / 12));
        compare(seed, tick, &memory, &(Arc::new(sqlite) as Arc<dyn Store>)).await;
    }
}

#[tokio::test]
async fn postgres_says_what_memory_says() {
    let Some(url) = postgres::url() else { return };
    for seed in seeds(POSTGRES_SEEDS) {
        // PostgreSQL uses the server's clock here. Both clocks are far beyond all times of the
        // workload, so that they give the same results.
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(i64::MAX / 2)));
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
        let schema = postgres::fresh_schema("differential");
        let options = PostgresOptions { schema, ..PostgresOptions::default() };
        let other = PostgresStore::open(url, options).await.expect("a new schema opens");
        compare(seed, |_| (), &memory, &(Arc::new(other) as Arc<dyn Store>)).await;
    }
}

fn seeds(count: u64) -> Range<u64> {
    match std::env::var("TIDEGATE_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("TIDEGATE_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count,
    }
}

/// Runs the workload of a seed on two stores. A difference prints the command that repeats the
/// test.
async fn compare(
    seed: u64,
    tick: impl Fn(i64),
    reference: &Arc<dyn Store>,
    other: &Arc<dyn Store>,
) {
    let again = format!("TIDEGATE_SEED={seed} cargo test -p tidegate-testkit --test stores_agree");
    let mut chance = Chance(seed);
    for step in 0..STEPS {
        tick(step);
        let (reads, changes) = (chance.reads(), chance.changes());
        let expected = ask(reference, &reads, &changes).await;
        let got = ask(other, &reads, &changes).await;
        let differ = "the answers differ at step";
        assert_eq!(got, expected, "{differ} {step}; repeat: {again}\n{reads:#?}\n{changes:#?}");
    }
    let (expected, got) = (reference.dump().await, other.dump().await);
    assert_eq!(got.ok(), expected.ok(), "the rows differ at the end; repeat: {again}");
}

/// A store's answer to one transaction: rows, scans, counts and outcome, without error texts, which
/// differ between stores.
type Answer = (
    BTreeMap<RowKey, Option<Row>>,
    Vec<(Scan, u32, Vec<RowKey>)>,
    BTreeMap<Count, Counted>,
    &'static str,
);

async fn ask(store: &Arc<dyn Store>, reads: &ReadSet, changes: &[Change]) -> Answer {
    let seen = Arc::new(Mutex::new(Snapshot::default()));
    let (slot, changes) = (seen.clone(), changes.to_vec());
    let decide: Decide = Box::new(move |snapshot| {
        *slot.lock().expect("no thread panicked") = snapshot;
        Decision::Apply(changes.clone())
    });
    let outcome = match store.transact(reads.clone(), decide).await {
        Ok(()) => "done",
        Err(StoreError::Data(_)) => "refused",
        Err(other) => panic!("a store failed: {other}"),
    };
    let mut snapshot = std::mem::take(&mut *seen.lock().expect("no thread panicked"));
    // A store may read more rows than requested, to lock the rows that it will change. They are not
    // compared.
    let found = snapshot.scans.iter().flat_map(|(scan, found)| {
        found.keys.iter().filter(|key| scan.is_locked() || !key.is_locked())
    });
    let found: BTreeSet<_> = found.collect();
    snapshot.rows.retain(|key, _| reads.rows.contains(key) || found.contains(key));
    let scans = snapshot.scans.into_iter().map(|(scan, found)| (scan, found.limit, found.keys));
    (snapshot.rows, scans.collect(), snapshot.counts, outcome)
}

/// Random numbers and names from small ranges, so that the same rows are drawn often.
struct Chance(u64);

impl Chance {
    /// Returns the next number of the generator `SplitMix64`, which is the same on every machine.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % end.unsigned_abs()).expect("the number is small")
    }

    fn name(&mut self) -> String {
        ["", "a", "B", "é", "a\u{1}"][usize::try_from(self.below(5)).expect("small")].to_owned()
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_micros(self.below(20) - 3)
    }

    fn maybe_time(&mut self) -> Option<Timestamp> {
        (self.below(2) == 0).then(|| self.time())
    }

    fn engine(&mut self) -> Option<EngineId> {
        [None, Some(0), Some(u128::MAX)][usize::try_from(self.below(3)).expect("small")]
    }

    fn gate_key(&mut self) -> GateKey {
        let ws = self.below(2);
        let scope = sample::gate_key(if ws == 0 { "main" } else { "main2" }, &self.name()).scope();
        let mut scope = scope.expect("the gate key is valid");
        scope.class = if self.below(2) == 0 { Class::Keyed } else { Class::Throttle };
        GateKey::new(&scope)
    }

    fn rank(&mut self) -> Rank {
        Rank { at: Timestamp::from_micros(self.below(2)), seq: Seq(self.below(2)) }
    }

    fn run(&mut self) -> Run {
        let place = Place { tier: self.below(2), rank: self.rank() };
        let gate = Seq(self.below(3));
        let phases = [Phase::Ready, Phase::Queued { gate, place }, Phase::Driven, Phase::Waiting];
        Run {
            lane: Seq(self.below(3)),
            turn: (self.below(2) == 0).then_some(Seq(self.below(3))),
            rank: self.rank(),
            phase: phases[usize::try_from(self.below(4)).expect("small")],
            owner: self.engine(),
            deadline: self.maybe_time(),
            ..sample::run(self.below(12))
        }
    }

    fn sub(&mut self) -> Subscription {
        Subscription {
            at: self.below(2),
            want: self.below(3),
            owner: self.engine(),
            until: self.maybe_time(),
            due: self.maybe_time(),
            since: self.time(),
            blocked: (self.below(4) == 0).then(|| self.name()),
            ..sample::sub(&self.name(), &self.name())
        }
    }

    fn session(&mut self) -> Session {
        let (app, version) = (self.name(), self.below(3));
        Session { app, version, ..sample::session(&self.name()) }
    }

    fn wait(&mut self) -> WaitRow {
        WaitRow {
            ws: "main".into(),
            name: self.name(),
            path: self.name(),
            value: self.name().into_bytes(),
            run: Seq(self.below(3)),
            step: self.name(),
        }
    }

    fn row(&mut self) -> Row {
        match self.below(12) {
            0 | 1 => Gate {
                key: self.gate_key(),
                due: self.maybe_time(),
                ..sample::gate("main", "", self.below(3))
            }
            .into(),
            2..=4 => self.run().into(),
            5 => Engine {
                dead: self.below(2) == 0,
                ..Engine::new(self.engine().unwrap_or(7), sample::LEASE_MS)
            }
            .into(),
            6 => self.sub().into(),
            7 => sample::step(self.below(3), &self.name()).into(),
            8 => self.wait().into(),
            9 => sample::logged(self.below(3), self.below(4), self.below(20)).into(),
            10 => Item { run: Seq(self.below(2)), n: 3, event: sample::event_id(1) }.into(),
            _ => self.rare_row(),
        }
    }

    fn rare_row(&mut self) -> Row {
        let version = u32::try_from(self.below(3)).expect("small");
        match self.below(14) {
            12 => sample::reply(&self.name(), self.below(9)).into(),
            13 => sample::api_key(&self.name()).into(),
            10 => sample::snapshot(self.below(3), &self.name()).into(),
            11 => Stream {
                ws: "main".into(),
                name: self.name(),
                id: Seq(self.below(3)),
                head: self.below(3),
                closed: false,
            }
            .into(),
            8 => sample::chunk(self.below(2), "", version, version).into(),
            7 => Schedule { next: self.maybe_time(), ..sample::schedule(&self.name()) }.into(),
            5 => Ended { lane: Seq(self.below(3)), ..sample::ended_run(self.below(12)) }.into(),
            6 => Chore {
                topic: (self.below(2) == 0).then(|| self.name()),
                due: self.maybe_time(),
                ..sample::chore(self.below(4))
            }
            .into(),
            0 => sample::def(self.below(4), &self.name(), version).into(),
            1 => Epoch { ws: self.name().into(), n: self.below(3) }.into(),
            2 => WaitPath { ws: "main".into(), name: self.name(), path: self.name() }.into(),
            3 => self.session().into(),
            4 => {
                let n = u32::try_from(self.below(3)).expect("small");
                sample::staged(self.below(3), n).into()
            }
            _ => Signal {
                run: Seq(self.below(2)),
                name: self.name(),
                seq: Seq(self.below(9)),
                data: sample::payload("1"),
            }
            .into(),
        }
    }

    /// Draws changes, mostly of different rows. An insert of an existing row, or an update of a
    /// missing one, is refused; the stores must agree on that, too.
    fn changes(&mut self) -> Vec<Change> {
        let count = (self.below(5) - 1).max(1);
        (0..count)
            .map(|_| match (self.below(6), self.row()) {
                (0, row) => Change::Delete(row.key()),
                (1, row) => Change::Update(row),
                (_, row) => Change::Insert(row),
            })
            .collect()
    }

    fn reads(&mut self) -> ReadSet {
        let mut reads = ReadSet::default().row(self.row().key()).row(self.row().key());
        for _ in 0..12 {
            let limit = u32::try_from(self.below(9)).expect("small");
            reads = reads.scan(self.scan(), limit).count(self.count(), limit);
        }
        reads
    }

    /// Draws ranges of turns that do not overlap. If they are in reverse order, as after a
    /// wrap-around, the first one begins at the first lane of a workflow.
    fn turns(&mut self) -> Vec<turn::Range> {
        let turn = |number: i64| Turn { workflow: Seq(number / 4), lane: Seq(number % 4 - 1) };
        let (first, second, round) = (self.below(12), self.below(12), self.below(2) == 0);
        let (low, high) = (first.min(second), first.max(second));
        let high = if round { high / 4 * 4 + 3 } else { high };
        let mut turns = vec![(turn(low), turn(high)), (turn(high + 1), Turn::LAST)];
        turns.truncate(usize::try_from(self.below(3)).expect("small"));
        if round {
            turns.reverse();
        }
        turns
    }

    fn count(&mut self) -> Count {
        let lane = Seq(self.below(3));
        match self.below(6) {
            5 => Count::Ready("main".into(), Turn { workflow: Seq(self.below(3)), lane }),
            0 => Count::Live(lane),
            1 => Count::Driven(lane),
            2 => Count::Waiting(lane),
            3 => Count::Paused(lane),
            _ => Count::Queue(self.gate_key()),
        }
    }

    fn scan(&mut self) -> Scan {
        let version = u32::try_from(self.below(3)).expect("small");
        let lanes = (0..self.below(4)).map(|_| Seq(self.below(3))).collect();
        match self.below(49) {
            43 => Scan::AuditAfter(Seq(self.below(9))),
            44 => Scan::AuditBelow("main".into(), Seq(self.below(12))),
            45 => Scan::AuditOf("main".into(), self.name(), Seq(self.below(12))),
            46 => Scan::QueueEnd(self.gate_key()),
            47 => Scan::QueueTier(self.gate_key(), self.below(2)),
            48 => Scan::ChoresBelow("main".into(), self.name(), Seq(self.below(12))),
            33 => Scan::EventsBelow("main".into(), Seq(self.below(12))),
            34 => Scan::ReceiptsBelow("main".into(), Seq(self.below(12))),
            35 => {
                let (from, to) = (self.gate_key(), self.gate_key());
                Scan::GatesBetween(from.as_bytes().to_vec(), to.as_bytes().to_vec())
            }
            36 => Scan::RunsOf(Seq(self.below(9))),
            37 => Scan::EndedOf(Seq(self.below(9))),
            38 => Scan::ItemsOf(Seq(self.below(9))),
            41 => Scan::Window(Seq(self.below(12))),
            39 => Scan::RepliesAfter(Seq(self.below(9))),
            40 => Scan::ApiKeys,
            32 => Scan::FeedBack("main".into(), self.below(20)),
            30 => Scan::StreamOf(Seq(self.below(3))),
            31 => Scan::Snapshots(Seq(self.below(3))),
            25 => Scan::Signals(Seq(self.below(2))),
            26 => Scan::LooseEvents(Seq(self.below(9)), Seq(self.below(9))),
            27 => Scan::LooseEnded(Seq(self.below(9)), Seq(self.below(9))),
            28 => Scan::ReceiptsAfter(Seq(self.below(9))),
            0 => Scan::Queue(self.gate_key()),
            1 => Scan::Ready(Claim { ws: "main".into(), turns: self.turns() }),
            2 => Scan::DueGates(self.time()),
            3 => Scan::DueRuns(self.time()),
            4 => Scan::Owned(self.engine().unwrap_or(7)),
            5 => Scan::Lane(Seq(self.below(3)), Seq(self.below(12))),
            6 => Scan::Engines,
            7 => Scan::Steps(Seq(self.below(3))),
            8 => Scan::Items(Seq(self.below(2))),
            9 => Scan::WaitPaths("main".into(), self.name()),
            10 => {
                let (name, path, value) = (self.name(), self.name(), self.name().into_bytes());
                let (run, step) = (Seq(self.below(3) - 1), self.name());
                Scan::Waits("main".into(), name, path, value, run, step)
            }
            20 => Scan::DueChores(self.time()),
            21 => Scan::Chores("main".into(), self.name()),
            11 => Scan::Inbox(Seq(self.below(2)), self.name()),
            12 => Scan::Receipts(Seq(1)),
            13 => {
                let key = self.gate_key();
                let length = self.next() % (key.as_bytes().len() as u64 + 1);
                Scan::Gates(key.as_bytes()[..usize::try_from(length).expect("small")].to_vec())
            }
            14 => Scan::Log(Seq(self.below(3)), self.below(4)),
            15 => Scan::Feed("main".into(), self.below(20)),
            16 => Scan::Work("main".into(), self.name()),
            17 => Scan::Buriable,
            23 => Scan::Chunks(Seq(self.below(2)), version),
            24 => Scan::Schedules,
            22 => Scan::SchedulesOf("main".into(), "shop".to_owned(), "order".to_owned()),
            18 => Scan::Live(lanes, Seq(self.below(12))),
            19 => {
                let states = ["completed", "failed", "cancelled"];
                let first = usize::try_from(self.below(4)).expect("small");
                Scan::Ended(lanes, states[first..].to_vec(), Seq(self.below(12)))
            }
            29 => Scan::Streams("main".into(), self.name()),
            _ => Scan::Subs("main".into(), self.name(), self.name()),
        }
    }
}
