//! Contract of the console queries: lists with the newest first, lookups by event and key, counts.

use std::sync::Arc;

use tidegate_core::{
    id::{EventId, Seq},
    reads::{Count, Counted, ReadSet, Scan},
    row::{
        Audit, Ended, Event, Gate, GateKey, Item, Kind, Phase, Place, Rank, Receipt, Row, Run,
        Source,
    },
    time::Timestamp,
    turn::Turn,
};
use tidegate_store::Store;

use super::{insert, scans::check, seen};
use crate::sample;

fn rows<R: Into<Row>>(rows: impl IntoIterator<Item = R>) -> Vec<Row> {
    rows.into_iter().map(Into::into).collect()
}

/// The list has only posted events of this workspace: no requests, occurrences or calls.
pub async fn posted_events_are_listed_newest_first(store: &Arc<dyn Store>) {
    let events = [40, 9, 5].map(|seq| sample::event(seq, "1"));
    let others = [
        Event { ws: "main2".into(), ..sample::event(6, "1") },
        Event { kind: Kind::Request, ..sample::event(7, "1") },
        Event { kind: Kind::Cron, ..sample::event(8, "1") },
    ];
    insert(store, events.iter().rev().cloned().chain(others)).await;
    let scan = |below| Scan::EventsBelow("main".into(), Seq(below));
    check(store, scan(i64::MAX), rows(events.clone())).await;
    check(store, scan(40), rows(events[1..].to_vec())).await;
    check(store, scan(5), Vec::new()).await;
}

/// The audit log of a workspace is listed newest first, whole and for one subject.
pub async fn the_audit_log_is_listed_newest_first(store: &Arc<dyn Store>) {
    let audit = |seq: i64, ws: &str, subject: &str| {
        let (ws, subject) = (ws.into(), subject.to_owned());
        Audit { ws, subject, ..sample::audit(seq) }
    };
    let [a, b, c] = [(40, "one"), (9, "two"), (5, "one")].map(|(n, of)| audit(n, "main", of));
    let others = [audit(6, "main2", "one"), audit(7, "main0", "one")];
    insert(store, [&c, &b, &a].into_iter().cloned().chain(others)).await;
    let below = |below| Scan::AuditBelow("main".into(), Seq(below));
    check(store, below(i64::MAX), rows([a.clone(), b.clone(), c.clone()])).await;
    check(store, below(40), rows([b, c.clone()])).await;
    let of = |below| Scan::AuditOf("main".into(), "one".to_owned(), Seq(below));
    check(store, of(i64::MAX), rows([a, c.clone()])).await;
    check(store, of(40), rows([c])).await;
    check(store, of(5), Vec::new()).await;
}

/// The list has only receipts of this workspace.
pub async fn receipts_are_listed_newest_first(store: &Arc<dyn Store>) {
    let receipt = |seq: i64, ws: &str| Receipt {
        seq: Seq(seq),
        ws: ws.into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        key: String::new(),
        event: Seq(1),
        at: Timestamp::from_ms(1),
        verdict: serde_json::json!("drop"),
    };
    let receipts = [receipt(40, "main"), receipt(9, "main"), receipt(5, "main")];
    insert(store, receipts.iter().rev().cloned().chain([receipt(6, "main2")])).await;
    let scan = |below| Scan::ReceiptsBelow("main".into(), Seq(below));
    check(store, scan(i64::MAX), rows(receipts.clone())).await;
    check(store, scan(40), rows(receipts[1..].to_vec())).await;
    check(store, scan(5), Vec::new()).await;
}

/// The range includes its first key and excludes its last.
pub async fn gates_are_read_from_a_key_to_another(store: &Arc<dyn Store>) {
    let mut gates = ["a", "b", "c", "d"].map(|key| sample::gate("main", key, 1));
    gates.sort_by_key(|gate| gate.key.clone());
    insert(store, gates.iter().rev().cloned()).await;
    let scan = |from: &Gate, to: &Gate| {
        let bytes = |key: &GateKey| key.as_bytes().to_vec();
        Scan::GatesBetween(bytes(&from.key), bytes(&to.key))
    };
    check(store, scan(&gates[1], &gates[3]), rows(gates[1..3].to_vec())).await;
    check(store, scan(&gates[1], &gates[1]), Vec::new()).await;
}

/// Runs are found by their event, whether or not their numbers are near its number, and for many
/// events at once.
pub async fn runs_are_found_by_their_event(store: &Arc<dyn Store>) {
    let id = |seq| EventId { seq: Seq(seq), salt: 1 };
    let run = |seq, event| Run { source: Source::Event(id(event)), ..sample::run(seq) };
    let ended = |seq, event| Ended { source: Source::Event(id(event)), ..sample::ended_run(seq) };
    let runs = [run(8_190, 8_200), run(8_201, 8_200), run(900_000, 8_200)];
    let over = [ended(8_202, 8_200), ended(12_290, 8_200), ended(900_001, 8_200)];
    let items = [(3, 8_200), (900_002, 8_200), (3, 8_205)].into_iter().enumerate();
    let items: Vec<_> = items
        .map(|(n, (run, event))| Item {
            run: Seq(run),
            n: u32::try_from(n).unwrap_or_default(),
            event: id(event),
        })
        .collect();
    insert(store, runs.iter().rev().cloned().chain([run(8_203, 8_201)])).await;
    insert(store, over.iter().rev().cloned().chain([ended(8_204, 8_201)])).await;
    insert(store, items.clone()).await;
    check(store, Scan::RunsOf(Seq(8_200)), rows(runs)).await;
    check(store, Scan::EndedOf(Seq(8_200)), rows(over)).await;
    check(store, Scan::ItemsOf(Seq(8_200)), rows(items[..2].to_vec())).await;
}

/// Runs are counted by definition and by phase, up to a limit.
pub async fn runs_are_counted(store: &Arc<dyn Store>) {
    let (key, other) = (sample::gate_key("main", "a"), sample::gate_key("main", "none"));
    insert(store, [sample::gate("main", "a", 70)]).await;
    let standing = Phase::Queued {
        gate: Seq(70),
        place: Place { tier: 0, rank: Rank { at: Timestamp::from_ms(1), seq: Seq(1) } },
    };
    let phases = [
        (standing, 4),
        (Phase::Ready, 1),
        (Phase::Driven, 2),
        (Phase::Stopping, 1),
        (Phase::Waiting, 3),
        (Phase::Paused, 2),
    ];
    let each = phases.iter().flat_map(|(phase, count)| std::iter::repeat_n(*phase, *count));
    let run = |(seq, phase): (i64, Phase)| {
        let owner = matches!(phase, Phase::Driven | Phase::Stopping).then_some(7);
        Run { phase, owner, ..sample::run(seq) }
    };
    let others = [Run { lane: Seq(2), phase: Phase::Paused, ..sample::run(99) }];
    insert(store, (1..).zip(each).map(run).chain(others)).await;
    let lane = Seq(1);
    let (ws, turn) = (|| sample::run(1).ws, Turn { workflow: lane, lane });
    for (count, expected) in [
        (Count::Live(lane), 13),
        (Count::Driven(lane), 3),
        (Count::Waiting(lane), 3),
        (Count::Paused(lane), 2),
        (Count::Ready(ws(), turn), 1),
        (Count::Ready(ws(), Turn { lane: Seq(2), ..turn }), 0),
        (Count::Ready("other".into(), turn), 0),
        (Count::Queue(key), 4),
        (Count::Queue(other), 0),
        (Count::Live(Seq(99)), 0),
    ] {
        for limit in [1000, expected, 1] {
            let reads = ReadSet::default().count(count.clone(), limit);
            let expected = Counted { limit, count: expected.min(limit) };
            for snapshot in [seen(store, reads.clone()).await, store.read(reads).await.unwrap()] {
                assert_eq!(snapshot.counts[&count], expected, "{count:?}");
            }
        }
    }
}
