//! Samples of the rows of streams and reactions.

use tidegate_core::{
    id::{EventId, Seq},
    row::{LogHead, Row, Stream, StreamEventRow, StreamSnapshot, Subscription},
};

use super::{FREE_TEXT, FUTURE, NAME, PAST, PAYLOADS, logged, payload, snapshot, sub};

pub(super) fn streams() -> Vec<Row> {
    let stream = |name: &str, head, closed| {
        Row::from(Stream { ws: "every".into(), name: name.to_owned(), id: Seq(5), head, closed })
    };
    let logged = StreamEventRow {
        id: EventId { seq: Seq(i64::MAX), salt: u64::MAX },
        name: NAME.to_owned(),
        at: PAST,
        data: payload(PAYLOADS[3]),
        meta: payload(PAYLOADS[9]),
        ..logged(i64::MAX, i64::MAX, i64::MAX)
    };
    let head = LogHead { ws: NAME.into(), pos: i64::MAX };
    let full = StreamSnapshot {
        version: i64::MAX,
        body: payload(PAYLOADS[9]),
        ..snapshot(i64::MAX, NAME)
    };
    let snapshots = [snapshot(0, "").into(), full.into()];
    let rows = [stream("", -1, false), stream(NAME, i64::MAX, true), logged.into(), head.into()];
    rows.into_iter().chain(snapshots).collect()
}

pub(super) fn subs() -> Vec<Row> {
    let idle = Subscription { want: -1, ..sub("every", "idle") };
    let full = Subscription {
        at: i64::MAX - 1,
        want: i64::MAX,
        owner: Some(u128::MAX),
        fence: i64::MAX,
        until: Some(PAST),
        due: Some(FUTURE),
        since: PAST,
        failures: u32::MAX,
        claims: u32::MAX,
        ..sub(NAME, NAME)
    };
    let text = || Some(FREE_TEXT.to_owned());
    let blocked = Subscription { blocked: text(), error: text(), ..sub("every", "blocked") };
    let silent = Subscription { blocked: Some(String::new()), ..sub("every", "silent") };
    [idle, full, blocked, silent].into_iter().map(Row::from).collect()
}
