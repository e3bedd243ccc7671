//! Forced races: PostgreSQL transactions that are made to overlap or are held open, and actions in
//! every order.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
};

use async_trait::async_trait;
use tidegate::{
    ActError, Acted, Engine, Query, State, Stream,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::{
    catalog::Catalog,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, RowKey, Workspace},
    stream::Expected,
};
use tidegate_store::{Decide, Decision, Store, StoreError};
use tokio::{sync::watch, task::block_in_place};

use super::{Account, Decided, Moved, TooLittle, deposit, withdraw};
use crate::stores::open_postgres_wide;

/// Callback of a test inside a transaction.
type Inside<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// Store wrapper that calls a test before and after the decision of each transaction, so that the
/// test can block it.
struct Stopped {
    store: Arc<dyn Store>,
    read: Inside<Snapshot>,
    decided: Inside<Decision>,
}

impl fmt::Debug for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopped")
    }
}

#[async_trait]
impl Store for Stopped {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let (read, decided) = (self.read.clone(), self.decided.clone());
        let decide = move |snapshot: Snapshot| {
            read(&snapshot);
            let decision = decide(snapshot);
            decided(&decision);
            decision
        };
        self.store.transact(reads, Box::new(decide)).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.store.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.store.heartbeat(engine, lease_ms).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.store.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.store.wakes()
    }

    fn wake(&self) {
        self.store.wake();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.store.dump().await
    }
}

async fn engines(store: &Arc<dyn Store>) -> (Engine, Engine) {
    let start = async || Engine::builder(store.clone()).start().await.unwrap();
    (start().await, start().await)
}

/// Returns two engines and a counter. The first transactions of both on a stream wait until each
/// has read that the stream does not exist. The counter counts these transactions.
async fn that_meet(stream: &'static str) -> Option<((Engine, Engine), Arc<AtomicU32>)> {
    let store = open_postgres_wide(Arc::new(VirtualClock::default())).await?;
    let (met, barrier) = (Arc::new(AtomicU32::new(0)), Barrier::new(2));
    let counted = met.clone();
    let read = move |snapshot: &Snapshot| {
        let key = RowKey::Stream("default".into(), stream.to_owned());
        if snapshot.rows.get(&key) == Some(&None) && counted.fetch_add(1, Ordering::SeqCst) < 2 {
            block_in_place(|| barrier.wait());
        }
    };
    let (read, decided): (_, Inside<Decision>) = (Arc::new(read), Arc::new(|_| {}));
    let store: Arc<dyn Store> = Arc::new(Stopped { store, read, decided });
    Some((engines(&store).await, met))
}

/// spec streams, B187: two transactions have both passed the version check. One of them fails at
/// the unique index, and returns the same error as the check would.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn losing_at_the_index_looks_like_losing_at_the_check() {
    let Some(((one, two), met)) = that_meet("account-1").await else { return };
    let first = |engine: &Engine| {
        let account = engine.stream::<Account>("account-1").expecting(-1);
        tokio::spawn(async move { account.act(deposit(1)).await })
    };
    let (one_did, two_did) = (first(&one), first(&two));
    let (one_did, two_did) = (one_did.await.unwrap(), two_did.await.unwrap());
    assert_eq!(met.load(Ordering::SeqCst), 2, "both transactions must pass the version check");
    assert!(
        one_did.is_ok() != two_did.is_ok(),
        "exactly one action must succeed: {one_did:?}, {two_did:?}"
    );
    let at_the_index = one_did.err().or(two_did.err()).unwrap();
    let at_the_check = one.stream::<Account>("account-1").expecting(-1).act(deposit(1)).await;
    let at_the_check = at_the_check.unwrap_err();
    for lost in [&at_the_index, &at_the_check] {
        let ActError::Conflict { stream, expected, actual } = lost else { panic!("{lost:?}") };
        assert_eq!((&**stream, *expected, *actual), ("account-1", Expected::NoStream, 0));
    }
    assert_eq!(at_the_index.to_string(), at_the_check.to_string());
}

/// spec streams, B188: without an expected version, the loser decides again, and both are
/// committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn losing_at_the_index_is_tried_again() {
    let Some(((one, two), met)) = that_meet("account-1").await else { return };
    let act = |engine: &Engine| {
        let account = engine.stream::<Account>("account-1");
        tokio::spawn(async move { account.act(deposit(1)).await })
    };
    let (one_did, two_did) = (act(&one), act(&two));
    let mut done = [one_did.await.unwrap().unwrap(), two_did.await.unwrap().unwrap()];
    assert_eq!(met.load(Ordering::SeqCst), 2, "both transactions must pass the version check");
    done.sort_by_key(|acted| acted.version);
    let answer = |acted: &Acted<Account>| (acted.version, acted.state.balance, acted.attempts);
    assert_eq!(done.each_ref().map(answer), [(0, 1, 1), (1, 2, 2)]);
}

/// spec streams, N73: while a commit is held open, no later commit is visible. Afterwards both are
/// visible, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_skips_no_commit_that_was_held_open() {
    let Some(store) = open_postgres_wide(Arc::new(VirtualClock::default())).await else { return };
    let (go, gone) = mpsc::channel::<()>();
    let (held, mut holds) = watch::channel(false);
    let gone = Mutex::new(gone);
    let decided = move |decision: &Decision| {
        let Decision::Apply(changes) = decision else { return };
        let holding = |change: &Change| matches!(change, Change::Insert(Row::StreamEventRow(event)) if event.name == "Withdrawn");
        if changes.iter().any(holding) {
            let _ = held.send(true);
            block_in_place(|| gone.lock().unwrap().recv().unwrap());
        }
    };
    let (read, decided): (Inside<Snapshot>, _) = (Arc::new(|_| {}), Arc::new(decided));
    let store: Arc<dyn Store> = Arc::new(Stopped { store, read, decided });
    let (one, two) = engines(&store).await;
    one.stream::<Account>("account-1").act(deposit(5)).await.unwrap();
    let seen = two.streams().read(&Query::all()).await.unwrap();
    assert_eq!(seen.events.len(), 1);

    let first = tokio::spawn({
        let account = one.stream::<Account>("account-1");
        async move { account.act(withdraw(5)).await.unwrap() }
    });
    holds.wait_for(|held| *held).await.unwrap();
    let second = tokio::spawn({
        let account = two.stream::<Account>("account-2");
        async move { account.act(deposit(1)).await.unwrap() }
    });
    let next = Query::all().from(seen.cursor);
    // Each read is a round trip. During these reads, the second commit would be visible if the
    // first one did not hold it back.
    for _ in 0..200 {
        let page = two.streams().read(&next).await.unwrap();
        assert_eq!((page.events.len(), page.cursor), (0, seen.cursor));
    }
    assert!(!second.is_finished());
    go.send(()).unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let page = two.streams().read(&next).await.unwrap();
    assert_eq!(page.events, [first.events, second.events].concat());
    assert_eq!(page.events.iter().map(|it| it.position).collect::<Vec<_>>(), [2, 3]);
}

/// A seeded random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// spec B183, B186–B188: actions of several engines in random order, with and without an expected
/// version, some of them refused. Versions have no gap, every caller gets the committed state, and
/// the state is the fold of all events.
pub(crate) async fn any_order_of_actions_gives_one_history(harness: &TestHarness) {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(harness.engine().start().await.unwrap());
    }
    for seed in 0..6 {
        let stream = format!("account-{seed}");
        let mut chance = Chance(seed);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..25 {
            let place = usize::try_from(chance.below(3)).unwrap();
            let account = all[place].stream::<Account>(&stream).retries(1000);
            let (pause, kind, amount) = (chance.below(12), chance.below(8), chance.below(9));
            tasks.spawn(async move {
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
                one_action(&account, kind, amount).await
            });
        }
        let mut answer = BTreeMap::new();
        while let Some(acted) = tasks.join_next().await {
            let Some(acted) = acted.unwrap() else { continue };
            let at = all[0].stream::<Account>(&stream).load_at(acted.version).await.unwrap();
            assert_eq!(
                at.state, acted.state,
                "seed {seed}: a caller got a wrong state at version {}",
                acted.version
            );
            for event in acted.events {
                let again = answer.insert(event.version, event);
                assert_eq!(again, None, "seed {seed}: two callers got the same version");
            }
        }
        let query = Query::stream(&stream).limit(1000);
        let log = all[1].streams().read(&query).await.unwrap().events;
        let versions: Vec<i64> = log.iter().map(|event| event.version).collect();
        assert_eq!(versions, (0..).take(log.len()).collect::<Vec<i64>>(), "seed {seed}");
        assert_eq!(answer.into_values().collect::<Vec<_>>(), log, "seed {seed}");
        let mut folded = Account::default();
        for event in &log {
            folded.apply(&event.read().unwrap());
        }
        let loaded = all[2].stream::<Account>(&stream).load().await.unwrap();
        assert_eq!(loaded.state, folded, "seed {seed}");
    }
}

/// Executes one action and returns its result; `None` if it was refused or its expected version was
/// outdated.
async fn one_action(account: &Stream<Account>, kind: u64, amount: u64) -> Option<Acted<Account>> {
    let several = move |account: &Account| -> Decided {
        let half = Moved::Withdrawn { amount: account.balance / 2 };
        Ok(vec![Moved::Deposited { amount }, half, Moved::Looked])
    };
    let acted = match kind {
        0..=2 => account.act(deposit(amount)).await,
        3 | 4 => account.act(withdraw(amount)).await,
        5 | 6 => account.act(several).await,
        _ => {
            let version = account.load().await.unwrap().version;
            account.clone().expecting(version).act(deposit(amount)).await
        }
    };
    match acted {
        Ok(acted) => Some(acted),
        Err(ActError::Refused(TooLittle(_))) => None,
        Err(ActError::Conflict { .. }) if kind == 7 => None,
        Err(error) => panic!("{error:?}"),
    }
}
