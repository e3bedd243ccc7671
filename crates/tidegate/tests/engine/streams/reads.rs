//! Reads of streams: the current state, the state at a version or time, and events.

use serde_json::json;
use tidegate::{Engine, Query, State, StreamEvent, events, testing::TestHarness};
use tidegate_core::{row::Row, stream::NewLogged};

use super::{Account, SECOND, deposit, withdraw};

/// spec streams: the state of a stream can be loaded at a version and at a time.
pub(crate) async fn a_state_is_loaded_as_it_was(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    let mut moments = Vec::new();
    for n in 0..10 {
        account.act(deposit(1)).await.unwrap();
        moments.push(harness.now());
        harness.advance(SECOND).await;
        let at = account.load_at(n / 2).await.unwrap();
        assert_eq!((at.version, at.state.moves), (n / 2, (n / 2).unsigned_abs() + 1));
    }
    for (n, moment) in (0i64..).zip(moments) {
        let as_of = account.load_as_of(moment).await.unwrap();
        assert_eq!((as_of.version, as_of.state.moves), (n, n.unsigned_abs() + 1));
        let at = account.load_at(n).await.unwrap();
        assert_eq!(at, as_of);
    }
    let before = account.load_as_of(tidegate_core::time::Timestamp::from_ms(0)).await.unwrap();
    assert_eq!(before.version, -1);
    let beyond = account.load_at(10).await.unwrap_err().to_string();
    assert_eq!(beyond, "stream `account-1` has no version 10: it ends at version 9");
    let none = engine.stream::<Account>("account-2").load_at(0).await.unwrap_err().to_string();
    assert_eq!(none, "stream `account-2` has no version 0: it has no events");
}

/// spec streams: a snapshot is stored every few events. The loaded state is the same with and
/// without it.
pub(crate) async fn a_snapshot_changes_nothing_but_the_work(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    let kept = async || {
        harness.settle().await;
        let rows = harness.store().dump().await.unwrap();
        let version = |row: &Row| match row {
            Row::StreamSnapshot(row) => Some(row.version),
            _ => None,
        };
        rows.iter().filter_map(version).collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    for n in 0..10u64 {
        account.act(deposit(n)).await.unwrap();
        let loaded = account.load().await.unwrap();
        assert_eq!((loaded.state.moves, loaded.state.balance), (n + 1, n * (n + 1) / 2));
        seen.extend(kept().await.last().copied());
        seen.dedup();
    }
    assert_eq!(seen, [3, 7], "a snapshot must be stored every four events");
    assert_eq!(kept().await, [7], "only the latest snapshot must be kept");
    // The stream is read as another type: a snapshot of the first type is not used.
    let counted = engine.stream::<Counted>("account-1").load().await.unwrap();
    assert_eq!((counted.state.0, counted.version), (10, 9));
    let forged = forge(harness, "not an account").await;
    assert_eq!(forged, 1);
    assert_eq!(
        account.load().await.unwrap().state.moves,
        10,
        "an unreadable snapshot must be ignored"
    );
    forge(harness, r#"{"balance":1000,"moves":8}"#).await;
    assert_eq!(
        account.load().await.unwrap().state.balance,
        1017,
        "the fold must start from the snapshot"
    );
    assert_eq!(
        account.load_at(6).await.unwrap().state.balance,
        21,
        "a snapshot newer than the requested version must not be used"
    );
}

/// Number of events: another state type for the same stream.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Counted(u64);

impl State for Counted {
    type Event = super::Moved;
    const SNAPSHOT_EVERY: Option<u32> = Some(2);
    const SHAPE: u32 = 7;

    fn apply(&mut self, _: &super::Moved) {
        self.0 += 1;
    }
}

/// Replaces the body of every stored snapshot. Returns their number.
async fn forge(harness: &TestHarness, body: &str) -> usize {
    use tidegate_core::{
        json::Payload,
        reads::{Change, ReadSet},
    };
    use tidegate_store::Decision;
    let rows = harness.store().dump().await.unwrap();
    let body = match Payload::parse(body.as_bytes(), 100) {
        Ok(body) => body,
        Err(_) => Payload::from_value(&json!(body)),
    };
    let forged: Vec<Change> = rows
        .into_iter()
        .filter_map(|row| match row {
            Row::StreamSnapshot(mut row) => {
                row.body = body.clone();
                Some(Change::Update(row.into()))
            }
            _ => None,
        })
        .collect();
    let count = forged.len();
    let decide = Box::new(move |_| Decision::Apply(forged.clone()));
    harness.store().transact(ReadSet::default(), decide).await.unwrap();
    count
}

/// If the type has no variant for an event, the error names the event, its stream and its version.
pub(crate) async fn an_unknown_event_is_named(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let account = engine.stream::<Account>("account-1");
    account.act(deposit(1)).await.unwrap();
    commit(&engine, "account-1", &["Burnt"]).await;
    let error = account.load().await.unwrap_err().to_string();
    assert!(
        error.starts_with("stream `account-1`, version 1: event `Burnt` cannot be read as"),
        "{error}"
    );
    assert!(error.ends_with("only Deposited, Withdrawn, Looked"), "{error}");
    let acted = account.act(withdraw(1)).await.unwrap_err().to_string();
    assert_eq!(acted, error);
    assert_eq!(account.load_at(0).await.unwrap().state.balance, 1);
}

async fn commit(engine: &Engine, stream: &str, names: &[&str]) -> Vec<StreamEvent> {
    let events: Vec<NewLogged> =
        names.iter().map(|name| events::new(*name, json!({ "of": stream })).unwrap()).collect();
    engine.streams().commit(stream, events, None).await.unwrap()
}

fn told(events: &[StreamEvent]) -> Vec<String> {
    let one =
        |it: &StreamEvent| format!("{} {}.{} {}", it.position, it.stream, it.version, it.name);
    events.iter().map(one).collect()
}

/// spec streams: events can be read forwards and backwards; of one stream, of a family and of all
/// streams; by name, position, time and correlation id; page by page.
pub(crate) async fn events_are_read_both_ways_and_filtered(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    commit(&engine, "a-1", &["x", "y"]).await;
    harness.advance(SECOND).await;
    let second = harness.now();
    commit(&engine, "a-2", &["x"]).await;
    commit(&engine, "b", &["y", "x"]).await;
    harness.advance(SECOND).await;
    let of = engine.streams().correlated("order-7", "evt_1");
    let event = vec![events::new("z", 1).unwrap()];
    of.commit("a-1", event, None).await.unwrap();
    let all = ["1 a-1.0 x", "2 a-1.1 y", "3 a-2.0 x", "4 b.0 y", "5 b.1 x", "6 a-1.2 z"];
    let pick = |places: &[usize]| places.iter().map(|n| all[n - 1].to_owned()).collect::<Vec<_>>();
    let table = [
        (Query::all(), vec![1, 2, 3, 4, 5, 6]),
        (Query::stream("a-1"), vec![1, 2, 6]),
        (Query::stream("a"), vec![]),
        (Query::family("a-"), vec![1, 2, 3, 6]),
        (Query::all().named(["x", "z"]), vec![1, 3, 5, 6]),
        (Query::stream("a-1").named(["y"]), vec![2]),
        (Query::all().named::<&str>([]), vec![]),
        (Query::stream("a-1").named::<&str>([]), vec![]),
        (Query::all().positions(2..5), vec![2, 3, 4]),
        (Query::all().positions(2..=5).named(["x"]), vec![3, 5]),
        (Query::stream("a-1").positions(2..), vec![2, 6]),
        (Query::all().times(second..), vec![3, 4, 5, 6]),
        (Query::all().times(..second), vec![1, 2]),
        (Query::all().correlation("order-7"), vec![6]),
        (Query::family("b").correlation("order-7"), vec![]),
    ];
    for (query, mut places) in table {
        let events = engine.streams().read(&query).await.unwrap();
        assert_eq!(told(&events.events), pick(&places), "{query:?}");
        assert!(!events.more, "{query:?}");
        let backwards = query.clone().backwards();
        let events = engine.streams().read(&backwards).await.unwrap().events;
        places.reverse();
        assert_eq!(told(&events), pick(&places), "{backwards:?}");
        for query in [query, backwards] {
            paged(&engine, &query).await;
        }
    }
    let last = engine.streams().read(&Query::all().backwards().limit(1)).await.unwrap();
    assert_eq!(last.events[0].correlation.as_deref(), Some("order-7"));
    assert_eq!(last.events[0].causation.as_deref(), Some("evt_1"));
    assert_eq!((last.events[0].at, last.more), (harness.now(), true));
    assert_eq!(engine.streams().position().await.unwrap(), 6);
    let head = engine.streams().head("a-1").await.unwrap().unwrap();
    assert_eq!((head.version, head.closed), (2, false));
    assert_eq!(engine.streams().head("c").await.unwrap(), None);
    assert_eq!(engine.in_workspace("other").streams().position().await.unwrap(), 0);
}

/// Checks that pages of any size together contain all events once, in order.
async fn paged(engine: &Engine, query: &Query) {
    let whole = engine.streams().read(query).await.unwrap().events;
    for limit in 1..=3 {
        let (mut all, mut next) = (Vec::new(), query.clone().limit(limit));
        loop {
            let page = engine.streams().read(&next).await.unwrap();
            assert!(page.events.len() <= limit);
            all.extend(page.events);
            if !page.more {
                break;
            }
            next = next.from(page.cursor);
        }
        assert_eq!(all, whole, "pages of {limit} events do not add up to all events: {query:?}");
    }
}

/// spec streams: a reader of all events continues from its cursor, and gets every new event once.
pub(crate) async fn a_reader_goes_on_where_it_was(harness: &TestHarness) {
    let engine = harness.engine().start().await.unwrap();
    let follow = Query::family("a").named(["x"]);
    let mut next = follow.clone();
    let mut seen = Vec::new();
    for n in 0..5 {
        let page = engine.streams().read(&next).await.unwrap();
        seen.extend(page.events.iter().map(|event| event.position));
        let kept = serde_json::to_string(&page.cursor).unwrap();
        next = follow.clone().from(serde_json::from_str(&kept).unwrap());
        commit(&engine, "a-1", &["x"]).await;
        commit(&engine, &format!("b-{n}"), &["x"]).await;
        commit(&engine, "a-2", &["y", "x"]).await;
    }
    assert_eq!(seen, [1, 4, 5, 8, 9, 12, 13, 16]);
}
