//! Typed streams: actions decide on folded state, and every conflicting commit is detected.

mod races;
mod reads;
mod runs;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tidegate::{ActError, Acted, Engine, State, Stream, events, testing::TestHarness};
use tidegate_core::{
    command::{Answer, Command, StreamAnswer, StreamCommand},
    json::Payload,
    row::{Row, Workspace},
    stream::{Close, Commit, Expected, Restart, Truncated},
};
use tidegate_store::commit;

pub(crate) use self::{races::*, reads::*, runs::*};
use crate::faults::{Failure, Faults};

const SECOND: Duration = Duration::from_secs(1);

/// An account that cannot be overdrawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: u64,
    pub(crate) moves: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Moved {
    Deposited { amount: u64 },
    Withdrawn { amount: u64 },
    Looked,
}

impl State for Account {
    type Event = Moved;
    const SNAPSHOT_EVERY: Option<u32> = Some(4);

    fn apply(&mut self, event: &Moved) {
        self.moves += 1;
        match event {
            Moved::Deposited { amount } => self.balance += amount,
            Moved::Withdrawn { amount } => self.balance -= amount,
            Moved::Looked => {}
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the balance is only {0}")]
pub(crate) struct TooLittle(pub(crate) u64);

pub(crate) type Decided = Result<Vec<Moved>, TooLittle>;

pub(crate) fn deposit(amount: u64) -> impl FnMut(&Account) -> Decided + Send {
    move |_| Ok(vec![Moved::Deposited { amount }])
}

pub(crate) fn withdraw(amount: u64) -> impl FnMut(&Account) -> Decided + Send {
    move |account| match account.balance {
        balance if balance >= amount => Ok(vec![Moved::Withdrawn { amount }]),
        balance => Err(TooLittle(balance)),
    }
}

/// Returns the versions of a stream's events in the store.
async fn versions(engine: &Engine, stream: &str) -> Vec<i64> {
    let query = tidegate::Query::stream(stream).limit(100_000);
    let page = engine.streams().read(&query).await.unwrap();
    assert!(!page.more);
    page.events.iter().map(|event| event.version).collect()
}

/// Executes a stream command that the engine does not offer as a method.
async fn operate(harness: &TestHarness, command: StreamCommand) -> StreamAnswer {
    let command = Command::Stream { ws: Workspace::from("default"), command };
    let answers = commit(&**harness.store(), vec![(command, 7)]).await.unwrap();
    match answers.into_iter().next().unwrap() {
        Ok(Answer::Stream(answer)) => answer,
        other => panic!("unexpected answer {other:?}"),
    }
}

async fn close(harness: &TestHarness, stream: &str) {
    let (ws, stream) = (Workspace::from("default"), stream.to_owned());
    let close = Close { ws, stream, expected: None, meta: Payload::null() };
    operate(harness, StreamCommand::Close(close)).await;
}

async fn truncate(harness: &TestHarness, stream: &str) {
    let command = || StreamCommand::Truncate { stream: stream.to_owned(), limit: 3 };
    while let StreamAnswer::Truncated(Truncated::Partly(_)) = operate(harness, command()).await {}
}

/// spec B183, B191: an action gets the state of the stream. Its events are committed right after
/// the version that it has seen, and its caller gets their versions.
pub(crate) async fn an_action_decides_on_the_state_and_commits_on_its_version(
    harness: &TestHarness,
) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    let before = account.load().await.unwrap();
    assert_eq!((before.state, before.version), (Account::default(), -1));
    let acted = account.act(deposit(10)).await.unwrap();
    assert_eq!((acted.state.balance, acted.version, acted.attempts), (10, 0, 1));
    let acted = account
        .act(|account: &Account| {
            let half = account.balance / 2;
            let withdrawn = Moved::Withdrawn { amount: half };
            Ok::<_, Infallible>(vec![withdrawn, Moved::Looked])
        })
        .await
        .unwrap();
    assert_eq!((acted.state.balance, acted.version), (5, 2));
    let [first, second] = &acted.events[..] else { panic!("expected two events: {acted:?}") };
    assert_eq!((first.version, first.position, &*first.name), (1, 2, "Withdrawn"));
    assert_eq!((second.version, second.position, second.data.as_str()), (2, 3, "null"));
    assert_eq!(first.read::<Moved>().unwrap(), Moved::Withdrawn { amount: 5 });
    assert_eq!(
        first.correlation, second.correlation,
        "all events of an action must have the same correlation id"
    );
    assert_eq!(engine.stream::<Account>("account-1").load().await.unwrap().state, acted.state);
    assert_eq!(engine.stream::<Account>("account-2").load().await.unwrap().version, -1);
    let elsewhere = engine.in_workspace("b").stream::<Account>("account-1");
    assert_eq!(elsewhere.load().await.unwrap().version, -1);
}

/// spec B191: an action that returns an error or no events writes nothing.
pub(crate) async fn a_refusal_is_the_callers_own_and_writes_nothing(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    account.act(deposit(3)).await.unwrap();
    let rows = harness.store().dump().await.unwrap();
    match account.act(withdraw(4)).await {
        Err(ActError::Refused(refused)) => assert_eq!(refused, TooLittle(3)),
        other => panic!("expected a refusal: {other:?}"),
    }
    let nothing = account.act(|_: &Account| Ok::<_, TooLittle>(Vec::new())).await.unwrap();
    assert_eq!((nothing.version, nothing.state.balance, nothing.events.len()), (0, 3, 0));
    assert_eq!(harness.store().dump().await.unwrap(), rows);
}

/// spec B185, B191: an action that expects a version fails at once if the stream has another
/// version, before or after the action has decided. The error names the actual version.
pub(crate) async fn a_pinned_version_fails_at_once(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    let first = account.clone().expecting(-1).act(deposit(10)).await.unwrap();
    assert_eq!(first.version, 0);
    for pinned in [-1, 1] {
        let mut asked = 0;
        let counted = |_: &Account| {
            asked += 1;
            Ok::<_, TooLittle>(vec![Moved::Looked])
        };
        match account.clone().expecting(pinned).act(counted).await {
            Err(ActError::Conflict { stream, expected, actual }) => {
                assert_eq!((&*stream, expected, actual), ("account-1", Expected::after(pinned), 0));
            }
            other => panic!("expected a conflict: {other:?}"),
        }
        assert_eq!(asked, 0);
    }
    let again = account.clone().expecting(0).act(withdraw(4)).await.unwrap();
    assert_eq!((again.state.balance, again.version), (6, 1));
    let refused = account.clone().expecting(1).act(withdraw(40)).await;
    assert!(matches!(refused, Err(ActError::Refused(TooLittle(6)))), "{refused:?}");
}

/// spec B186, B188: when actions of several engines conflict, the loser decides again on the
/// current state. No action is lost, no account is overdrawn, and versions have no gap.
pub(crate) async fn whoever_loses_a_race_decides_again(harness: &TestHarness) {
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(harness.engine().start().await.unwrap());
    }
    engines[0].stream::<Account>("account-1").act(deposit(20)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..30 {
        let account = engines[n % 3].stream::<Account>("account-1").retries(1000);
        tasks.spawn(async move { account.act(withdraw(1)).await });
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(acted) = tasks.join_next().await {
        match acted.unwrap() {
            Ok(acted) => {
                done += 1;
                assert_eq!(
                    acted.state.balance + acted.state.moves,
                    21,
                    "an action must get a committed state"
                );
                assert_eq!(acted.version + 1, i64::try_from(acted.state.moves).unwrap());
            }
            Err(ActError::Refused(TooLittle(left))) => {
                refused += 1;
                assert_eq!(left, 0, "an action must be refused only on a committed state");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!((done, refused), (20, 10));
    let loaded = engines[1].stream::<Account>("account-1").load().await.unwrap();
    assert_eq!((loaded.state.balance, loaded.version), (0, 20));
    assert_eq!(versions(&engines[2], "account-1").await, (0..=20).collect::<Vec<_>>());
}

/// Returns a commit of another writer, without an expected version.
pub(crate) fn append(stream: &str, event: &Moved) -> Command {
    let (ws, stream) = (Workspace::from("default"), stream.to_owned());
    let events = vec![events::of(event).unwrap()];
    let commit = Commit { ws: ws.clone(), stream, events, expected: None };
    Command::Stream { ws, command: StreamCommand::Commit(commit) }
}

/// spec B185, B191, streams: if another commit comes between the read and the commit of an action,
/// the action decides again. An action without retries left, or with an expected version, gets a
/// conflict, with the same text as if its version had been outdated from the start.
pub(crate) async fn an_overtaken_action_decides_again(harness: &TestHarness, faults: &Faults) {
    // Without a cache: reloading an outdated cached state would not count as a retry.
    let engine = harness.engine().stream_state_cache(0).start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    harness.settle().await;
    let overtaken = async |account: Stream<Account>, times: usize| {
        let mut seen = Vec::new();
        let outcome = account
            .act(|account: &Account| {
                seen.push(account.balance);
                if seen.len() <= times {
                    faults.overtake(append("account-1", &Moved::Deposited { amount: 1 }));
                }
                withdraw(0)(account)
            })
            .await;
        (outcome, seen)
    };
    let (acted, seen) = overtaken(account.clone().retries(2), 2).await;
    let acted = acted.unwrap();
    assert_eq!((acted.version, acted.attempts, acted.state.balance), (2, 3, 2));
    assert_eq!(seen, [0, 1, 2], "each attempt must decide on the current state");

    let answer = |outcome: Result<Acted<Account>, ActError<TooLittle>>| match outcome {
        Err(error @ ActError::Conflict { .. }) => error.to_string(),
        other => panic!("expected a conflict: {other:?}"),
    };
    let (outcome, seen) = overtaken(account.clone().retries(1), 9).await;
    assert_eq!(seen, [2, 3]);
    assert_eq!(answer(outcome), "stream `account-1`: expected version 3, got version 4");
    let (outcome, seen) = overtaken(account.clone().expecting(4), 9).await;
    assert_eq!(seen, [4], "an action with an expected version must not be retried");
    let late = "stream `account-1`: expected version 4, got version 5";
    assert_eq!(answer(outcome), late);
    let (outcome, seen) = overtaken(account.clone().expecting(4), 9).await;
    assert_eq!(seen, [0; 0]);
    assert_eq!(answer(outcome), late, "the version check must give the same error");
    assert_eq!(versions(&engine, "account-1").await, [0, 1, 2, 3, 4, 5]);
}

/// spec streams: the result of an action that was decided on an uncommitted state is returned only
/// after that state is committed. If that commit fails, the actions queued behind it decide again,
/// on the current state.
pub(crate) async fn nobody_is_told_of_a_state_that_never_was(
    harness: &TestHarness,
    faults: &Faults,
) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    for failure in [Some(Failure::Unavailable), Some(Failure::BeforeCommit), None] {
        let left = account.load().await.unwrap().state.balance;
        account.act(deposit(5 - left)).await.unwrap();
        harness.settle().await;
        let go = faults.hold();
        let (first, _) = spend(&account, 4);
        faults.holds().await;
        let (second, third) = (spend(&account, 2), spend(&account, 1));
        while second.1.load(Ordering::SeqCst) + third.1.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert!(
            !second.0.is_finished() && !third.0.is_finished(),
            "an action returned before its state was committed"
        );
        if let Some(failure) = failure {
            faults.fail(0, failure);
        }
        go.send(()).unwrap();
        let (first, second, third) = tokio::join!(first, second.0, third.0);
        let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
        if failure.is_some() {
            let error = first.unwrap_err();
            assert!(matches!(error, ActError::Failed(tidegate::Error::Store(_))), "{error:?}");
            let left = [second.unwrap().state.balance, third.unwrap().state.balance];
            assert!(
                [[3, 2], [2, 4]].contains(&left),
                "unexpected balances after the two actions: {left:?}"
            );
        } else {
            assert_eq!(first.unwrap().state.balance, 1);
            assert!(matches!(second, Err(ActError::Refused(TooLittle(1)))), "{second:?}");
            assert_eq!(third.unwrap().state.balance, 0);
        }
    }
}

/// Result of an action that runs in a task of its own.
type Spent = tokio::task::JoinHandle<Result<Acted<Account>, ActError<TooLittle>>>;

/// Starts an action that spends an amount, in a task of its own, and counts how often it is
/// decided.
fn spend(account: &Stream<Account>, amount: u64) -> (Spent, Arc<AtomicU32>) {
    let (account, asked) = (account.clone(), Arc::new(AtomicU32::new(0)));
    let (counted, mut spend) = (asked.clone(), withdraw(amount));
    let counting = move |account: &Account| {
        counted.fetch_add(1, Ordering::SeqCst);
        spend(account)
    };
    (tokio::spawn(async move { account.act(counting).await }), asked)
}

/// spec streams: actions that share a commit fail together, and write nothing.
pub(crate) async fn a_commit_that_fails_leaves_nothing(harness: &TestHarness, faults: &Faults) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    account.act(deposit(9)).await.unwrap();
    harness.settle().await;
    let go = faults.hold();
    let (first, _) = spend(&account, 1);
    faults.holds().await;
    let (second, third) = (spend(&account, 2), spend(&account, 3));
    while second.1.load(Ordering::SeqCst) + third.1.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    faults.fail(1, Failure::BeforeCommit);
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().state.balance, 8);
    for spent in [second.0, third.0] {
        let error = spent.await.unwrap().unwrap_err();
        assert!(matches!(error, ActError::Failed(tidegate::Error::Store(_))), "{error:?}");
    }
    assert_eq!(account.load().await.unwrap().state.balance, 8);
    assert_eq!(account.act(withdraw(8)).await.unwrap().version, 2);
}

/// If the caller of an action stops waiting, an action that was already decided is still committed,
/// and other actions are not blocked.
pub(crate) async fn whoever_stops_waiting_holds_nobody_up(harness: &TestHarness, faults: &Faults) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    harness.settle().await;
    let go = faults.hold();
    let first = tokio::spawn({
        let account = account.clone();
        async move { account.act(deposit(1)).await }
    });
    faults.holds().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    go.send(()).unwrap();
    let second = account.act(deposit(2)).await.unwrap();
    assert_eq!((second.state.balance, second.version), (3, 1));
}

/// Actions of one engine are queued and do not conflict: many concurrent actions take few commits,
/// and each sees the earlier ones.
pub(crate) async fn writers_of_one_engine_do_not_collide(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1").retries(0);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 1..=40 {
        let account = account.clone();
        tasks.spawn(async move { account.act(deposit(n)).await });
    }
    let mut positions = Vec::new();
    while let Some(acted) = tasks.join_next().await {
        let acted = acted.unwrap().unwrap();
        assert_eq!(acted.attempts, 1);
        assert_eq!(acted.version, acted.events[0].version);
        positions.push((acted.events[0].position, acted.events[0].id));
    }
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(positions.len(), 40);
    assert_eq!(versions(&engine, "account-1").await, (0..40).collect::<Vec<_>>());
}

/// spec B219: a closed stream refuses actions, with an error that says so. Its earlier states can
/// be loaded until it is truncated.
pub(crate) async fn a_closed_stream_takes_no_action(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    for _ in 0..5 {
        account.act(deposit(2)).await.unwrap();
    }
    harness.settle().await;
    close(harness, "account-1").await;
    for account in [account.clone(), account.clone().expecting(5)] {
        match account.act(deposit(1)).await {
            Err(ActError::Closed { stream, guard }) => {
                assert_eq!((&*stream, guard), ("account-1", 5));
            }
            other => panic!("expected a closed stream: {other:?}"),
        }
    }
    assert_eq!(account.load().await.unwrap().state.balance, 10);
    assert!(engine.streams().head("account-1").await.unwrap().unwrap().closed);
    truncate(harness, "account-1").await;
    let gone = account.load().await.unwrap_err().to_string();
    assert!(gone.contains("closed at version 5"), "{gone}");
    let rows = harness.store().dump().await.unwrap();
    assert!(
        !rows.iter().any(|row| matches!(row, Row::StreamSnapshot(_))),
        "the snapshot must be deleted with the events"
    );
}

/// spec N74: a restarted stream starts with the state of its snapshot.
pub(crate) async fn a_restarted_stream_goes_on_from_its_snapshot(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    for _ in 0..5 {
        account.act(deposit(2)).await.unwrap();
    }
    harness.settle().await;
    let state = account.load().await.unwrap().state;
    close(harness, "account-1").await;
    truncate(harness, "account-1").await;
    let snapshot = Payload::from_value(&serde_json::to_value(&state).unwrap());
    let (ws, stream, meta) = ("default".into(), "account-1".to_owned(), Payload::null());
    operate(harness, StreamCommand::Restart(Restart { ws, stream, snapshot, meta })).await;
    let loaded = account.load().await.unwrap();
    assert_eq!((loaded.state, loaded.version), (state, 0));
    for n in 1..=5i64 {
        let acted = account.act(withdraw(2)).await.unwrap();
        assert_eq!((acted.version, acted.state.balance), (n, 10 - 2 * n.unsigned_abs()));
    }
    assert_eq!(account.load().await.unwrap().state.balance, 0);
}
