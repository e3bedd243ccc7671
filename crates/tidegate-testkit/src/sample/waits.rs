//! Waits of runs, and listeners for events.

use tidegate_core::{
    id::Seq,
    row::{Listener, ListenerEffect, Wait, WaitFilter, WaitOn},
};

use super::{FREE_TEXT, FUTURE, NAME, run_id};

pub(super) fn listeners() -> Vec<Listener> {
    let keep = ListenerEffect::Keep { kept: u32::MAX, dropped: u32::MAX, last: Seq(i64::MAX) };
    let listener = |effect, first| Listener {
        name: NAME.to_owned(),
        path: "a\u{1}b".to_owned(),
        value: vec![0, 255],
        since: Seq(i64::MIN),
        filter: Some(WaitFilter { expr: FREE_TEXT.to_owned(), lenient: true }),
        until: Some(FUTURE),
        effect,
        first,
    };
    vec![listener(ListenerEffect::Cancel, true), listener(keep, false)]
}

pub(super) fn waits() -> Vec<Wait> {
    let on = [
        WaitOn::Time,
        WaitOn::Retry,
        WaitOn::Event {
            name: NAME.to_owned(),
            matches: vec![("a.b".to_owned(), vec![0, 255])],
            filter: Some(WaitFilter { expr: FREE_TEXT.to_owned(), lenient: true }),
            whole: true,
        },
        WaitOn::Named { name: FREE_TEXT.to_owned() },
        WaitOn::Signal { name: FREE_TEXT.to_owned() },
        WaitOn::Child { run: run_id(i64::MAX) },
        WaitOn::Before { run: run_id(1) },
    ];
    let wait = |(n, on): (usize, WaitOn)| {
        let within_ms = (n % 2 == 0).then_some(60_000);
        let (step, pool) = (NAME.to_owned(), (n == 1).then(|| NAME.to_owned()));
        Wait { step, on, until: Some(FUTURE), within_ms, pool, since: Seq(i64::MAX) }
    };
    on.into_iter().enumerate().map(wait).collect()
}
