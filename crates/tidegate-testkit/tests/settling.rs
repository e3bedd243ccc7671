//! Reservations and settlements at random (spec L10), with replays, retries and failed
//! transactions, on the memory store.
//!
//! The test has a ledger of its own, in whole numbers: how many units are used at each limit of the
//! pool's throttle. After each operation it must equal the meters of the store, exactly. At the end
//! the bound of spec L10 is checked over every interval, from the times at which units were reserved and
//! settled.
//!
//! `TIDEGATE_TEST_FULL` settles one million uses, `TIDEGATE_TEST_SEED` repeats the random choices.

use std::{collections::BTreeMap, env, sync::Arc};

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    id::RunId,
    key::Key,
    row::{Class, Gate, GateKey, GateState, Meters, Row, RowKey, Run, Scope},
    run::record::{NewSend, Record, Sent, Then},
    time::Timestamp,
};
use tidegate_store::{ManualClock, MemoryStore, commit};
use tidegate_testkit::{
    fault::{Failure, FaultStore},
    torture::Dice,
    world::{World, step},
};

/// Number of uses.
const USES: usize = 2000;

/// Number of uses with `TIDEGATE_TEST_FULL`.
const FULL_USES: usize = 1_000_000;

/// Number of uses on one store. Ended runs make the memory store slow.
const PER_WORLD: usize = 20;

/// The greatest cost of a use.
const MOST: u64 = 15;

/// A limit of the pool's throttle: units, period in milliseconds, burst.
#[derive(Clone, Copy, Debug)]
struct Limit {
    units: i128,
    per_ms: i128,
    burst: i128,
}

const LIMITS: [Limit; 2] =
    [Limit { units: 7, per_ms: 1000, burst: 10 }, Limit { units: 60, per_ms: 10_000, burst: 20 }];

impl Limit {
    /// The period in microseconds: the parts of a unit in which the ledger counts. In a
    /// microsecond the limit refills `limit` parts.
    fn parts(self) -> i128 {
        self.per_ms * 1000
    }
}

/// Units in use at one limit.
#[derive(Clone, Debug)]
struct Ledger {
    limit: Limit,
    used: i128,
    at: i128,
}

impl Ledger {
    fn pass(&mut self, now: i128) {
        self.used = (self.used - (now - self.at) * self.limit.units).max(0);
        self.at = now;
    }

    fn add(&mut self, now: i128, units: i128) {
        self.pass(now);
        self.used = (self.used + units * self.limit.parts()).max(0);
    }
}

/// A run that has spent its reservation.
#[derive(Clone, Debug)]
struct Use {
    reserved: u64,
    settled: bool,
}

/// What happened at one instant: units reserved, the net of the corrections, and the sum of their
/// absolute values.
#[derive(Clone, Copy, Debug, Default)]
struct Instant {
    reserved: i128,
    corrected: i128,
    allowed: i128,
}

struct Book {
    ledgers: Vec<Ledger>,
    uses: BTreeMap<RunId, Use>,
    history: BTreeMap<i128, Instant>,
    settled: usize,
    /// Number of settlements by what happened: once, again, after a failure, after a lost lease,
    /// in a replay.
    kinds: [usize; 5],
}

impl Book {
    fn new(now: i128) -> Self {
        let ledger = |limit| Ledger { limit, used: 0, at: now };
        let ledgers = LIMITS.into_iter().map(ledger).collect();
        let (uses, history) = (BTreeMap::new(), BTreeMap::new());
        Self { ledgers, uses, history, settled: 0, kinds: [0; 5] }
    }

    /// Notes a run that was leased for the first time.
    fn started(&mut self, now: i128, run: &Run, reserved: u64) {
        let known = self.uses.insert(run.id, Use { reserved, settled: false });
        assert!(known.is_none(), "{} started twice", run.id);
        self.history.entry(now).or_default().reserved += i128::from(reserved);
        self.ledgers.iter_mut().for_each(|it| it.add(now, reserved.into()));
    }

    /// Notes a settlement. A second one of the same run has no effect.
    fn settled(&mut self, now: i128, run: RunId, actual: u32) {
        let it = self.uses.get_mut(&run).expect("it has started");
        if std::mem::replace(&mut it.settled, true) {
            self.kinds[1] += 1;
            return;
        }
        let change = i128::from(actual) - i128::from(it.reserved);
        let instant = self.history.entry(now).or_default();
        instant.corrected += change;
        instant.allowed += change.abs();
        self.ledgers.iter_mut().for_each(|it| it.add(now, change));
        self.settled += 1;
    }

    /// Checks over every interval that the units reserved in it, and the net of what was reserved
    /// and settled in it, exceed the limit by at most the sum of |actual − reserved|.
    fn judge(&self) {
        for limit in LIMITS {
            let most = limit.burst.max(MOST.into()) * limit.parts();
            for net in [false, true] {
                // The greatest sum of what exceeds the rate, of an interval that ends here.
                let (mut sum, mut last): (i128, Option<i128>) = (0, None);
                for (at, it) in &self.history {
                    let passed = last.map_or(0, |last| at - last);
                    let units = it.reserved + if net { it.corrected } else { 0 } - it.allowed;
                    sum = (sum - passed * limit.units).max(0) + units * limit.parts();
                    assert!(sum <= most, "{limit:?}: {sum} of {most} parts in an interval to {at}");
                    last = Some(*at);
                }
            }
        }
    }
}

/// One store with its book.
struct Table {
    world: World,
    book: Book,
    dice: Dice,
    flights: Vec<Run>,
    /// Number of runs that have not ended.
    live: usize,
    gate: GateKey,
}

impl Table {
    async fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)));
        let world = World::new(Arc::new(MemoryStore::new(clock.clone())), clock);
        let number = |it: i128| u64::try_from(it).expect("small");
        let throttle = LIMITS.map(|it| {
            let (limit, per_ms, burst) = (number(it.units), number(it.per_ms), number(it.burst));
            json!({ "limit": limit, "perMs": per_ms, "burst": burst })
        });
        world.put_pool(json!({ "name": "api", "throttle": throttle })).await;
        let uses = json!({ "pool": "api", "cost": "n" });
        world.define(json!({ "name": "ask", "throttle": uses })).await;
        let gate = GateKey::new(&Scope {
            ws: world.ws.clone(),
            class: Class::PoolThrottle,
            app: String::new(),
            name: "api".to_owned(),
            slot: String::new(),
            key: Key::Whole,
        });
        let book = Book::new(world.now().micros().into());
        Self { world, book, dice: Dice::new(seed), flights: Vec::new(), live: 0, gate }
    }

    fn now(&self) -> i128 {
        self.world.now().micros().into()
    }

    /// Leases what is ready. A first lease spends the reservation.
    async fn lease(&mut self) {
        for run in self.world.lease_all().await {
            if run.fence == 1 {
                let reserved = self.world.data_of(run.source.first()).await["n"].as_u64();
                self.book.started(self.now(), &run, reserved.expect("a number"));
            }
            self.flights.push(run);
        }
    }

    /// Compares the meters of the store with the ledger.
    async fn compare(&mut self, after: &str) {
        let now = self.now();
        let row = self.world.row(RowKey::Gate(self.gate.clone())).await;
        let meters = match row {
            Some(Row::Gate(Gate { state: GateState::Turns(turns), .. })) => turns.meters,
            None => Meters::default(),
            other => panic!("no throttle: {other:?}"),
        };
        for (n, ledger) in self.book.ledgers.iter_mut().enumerate() {
            ledger.pass(now);
            let parts = ledger.limit.parts();
            let used = meters.at(n).map_or(0, |meter| {
                let ahead = (i128::from(meter.tat) - now) * i128::from(meter.limit);
                (ahead + i128::from(meter.rest) + i128::from(meter.debt) * parts).max(0)
            });
            assert_eq!(used, ledger.used, "limit {n} after {after}, in 1/{parts} of a unit");
        }
    }

    fn settlement(run: &Run, actual: u32) -> Command {
        let what = Sent::Settle { pool: "api".to_owned(), actual };
        let sends = vec![NewSend { step: "settle:api".to_owned(), what }];
        let engine = run.owner.expect("it is leased");
        let report = Record { sends, ..Record::new(run.id.seq, engine, run.fence, Then::Continue) };
        Command::Record { known: Box::new(run.clone()), report }
    }

    /// Settles a run. The first transaction may fail, before or after its commit; the worker then
    /// repeats the report.
    async fn settle(&mut self, run: &Run) {
        let actual = u32::try_from(self.dice.below(3 * MOST)).expect("small");
        if self.dice.one_in(4) {
            let at = usize::try_from(self.dice.below(3)).expect("small");
            let faulty = FaultStore::new(self.world.store.clone(), Some((0, Failure::ALL[at])));
            let settlement = vec![self.world.salted(Self::settlement(run, actual))];
            assert!(commit(&faulty, settlement).await.is_err(), "the transaction fails");
            self.book.kinds[2] += 1;
        }
        let settled = self.world.run(Self::settlement(run, actual)).await;
        assert!(matches!(settled, Ok(Answer::Recorded(_))), "{settled:?}");
        self.book.settled(self.now(), run.id, actual);
        self.book.kinds[0] += 1;
    }

    /// Lets the worker of a run lose its lease, sometimes after a settlement of which it has had no
    /// answer. It can settle no more.
    async fn lose(&mut self, run: Run) {
        if self.dice.one_in(2) {
            self.settle(&run).await;
        }
        let engine = self.world.engine;
        self.world.lose(engine).await;
        self.world.engine += 1;
        let late = self.world.run(Self::settlement(&run, 0)).await;
        assert!(matches!(late, Err(Refusal::Fenced { .. })), "{late:?}");
        self.book.kinds[3] += 1;
        // The other runs of the engine are driven anew, too.
        self.flights.clear();
    }

    /// Fails a run and replays it from its last step: the replay reserves anew.
    async fn replay(&mut self, run: &Run) {
        let settled = self.world.report(run, vec![step("after", &json!(1))], Then::Continue).await;
        assert!(settled.is_ok(), "{settled:?}");
        self.world.fail(run).await;
        let (ws, from_step) = (self.world.ws.clone(), Some("after".to_owned()));
        let replay =
            Command::Replay { ws, run: run.id, input: None, from_step, function_key: None };
        self.world.run(replay).await.expect("it has ended");
        self.book.kinds[4] += 1;
    }

    async fn turn(&mut self) {
        let at = self.dice.below(self.flights.len().max(1) as u64);
        let at = usize::try_from(at).expect("few");
        let name = match self.dice.below(16) {
            0..4 if self.live < 12 => {
                self.live += 1;
                let n = 1 + self.dice.below(MOST);
                self.world.send("ask", json!({ "n": n })).await;
                "a reservation"
            }
            4..7 => {
                let ms = [1, 370, 2500, 9000][usize::try_from(self.dice.below(4)).expect("few")];
                self.world.tick(ms).await;
                "a while"
            }
            7..9 => {
                self.lease().await;
                "a lease"
            }
            _ if self.flights.is_empty() => return,
            9..12 => {
                let run = self.flights[at].clone();
                self.settle(&run).await;
                "a settlement"
            }
            12 => {
                let run = self.flights.swap_remove(at);
                self.lose(run).await;
                "a lost lease"
            }
            13 => {
                let run = self.flights.swap_remove(at);
                self.replay(&run).await;
                "a replay"
            }
            _ => {
                let run = self.flights.swap_remove(at);
                self.world.complete(&run).await;
                self.live -= 1;
                "an end"
            }
        };
        self.compare(name).await;
    }
}

/// spec L10: the meters are those of the ledger, to the part of a unit, and units exceed the limits
/// by at most what the settlements of the interval have corrected.
#[tokio::test]
async fn settlements_add_up_over_failures_and_replays() {
    let full = env::var_os("TIDEGATE_TEST_FULL").is_some();
    let wanted = if full { FULL_USES } else { USES };
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3);
    let (mut seeds, mut settled, mut uses, mut kinds) = (Dice::new(seed), 0, 0, [0; 5]);
    println!("TIDEGATE_TEST_SEED={seed}");
    while settled < wanted {
        let mut table = Table::new(seeds.roll()).await;
        while table.book.settled < PER_WORLD {
            table.turn().await;
        }
        table.book.judge();
        settled += table.book.settled;
        uses += table.book.uses.len();
        kinds.iter_mut().zip(table.book.kinds).for_each(|(sum, of)| *sum += of);
    }
    let [reports, again, failed, lost, replayed] = kinds;
    println!(
        "{uses} reservations, {settled} settled by {reports} reports ({again} of them again), \
         {failed} failed transactions, {lost} lost leases, {replayed} replays"
    );
    assert!(again > 0 && failed > 0 && lost > 0 && replayed > 0, "something never happened");
}
