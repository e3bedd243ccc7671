//! Tests of the judge: it finds no violation in a correct journal, and finds each kind of violation
//! in a changed one.

use crate::{
    journal::{Act, Answer, Call, CallEnd, Fault, Journal, Log, Request, Run},
    judge::{Kind, judge},
};

const SECOND: i64 = 1_000_000;

/// Returns a request that was answered 10 ms after it was sent.
fn request(n: u64, lane: &str, key: &str, sent: i64, outcome: &str) -> Request {
    let run = Some(format!("run_{n}"));
    let event = Some(format!("evt_{n}"));
    let outcome = outcome.to_owned();
    let answer = Answer { status: 202, outcome, run, event, ..Answer::default() };
    let (lane, key, answer) = (lane.to_owned(), key.to_owned(), Some(answer));
    Request { n, lane, key, sent, done: sent + 10_000, tries: 1, answer, again: None }
}

/// Returns a call of 50 ms by server `a1`, answered with 200.
fn call(id: u64, n: u64, lane: &str, key: &str, begin: i64) -> Call {
    let (run, effect) = (format!("run_{n}"), format!("run_{n}:call"));
    let (lane, key, version) = (lane.to_owned(), key.to_owned(), "1".to_owned());
    let (end, how) = (begin + 50_000, CallEnd::Answered(200));
    let (server, numbers, revision) = ("a1".to_owned(), vec![n], 1);
    Call { id, lane, revision, run, effect, version, server, numbers, key, begin, end, how }
}

fn run(n: u64, lane: &str, queued: i64, output: u64) -> Run {
    let (id, lane, state) = (format!("run_{n}"), lane.to_owned(), "completed".to_owned());
    let (started, output) = (Some(queued), Some(output));
    Run { id, lane, version: 1, state, queued, started, output, ..Run::default() }
}

/// Adds requests with their runs and calls, one per second.
fn add(journal: &mut Journal, lane: &str, key: &str, first: u64, count: u64) {
    for n in first..first + count {
        let at = i64::try_from(n).unwrap() * SECOND;
        journal.requests.push(request(n, lane, key, at, "started"));
        journal.calls.push(call(n, n, lane, key, at + 20_000));
        journal.world.runs.push(run(n, lane, at + 5000, n));
        journal.world.events.push(format!("evt_{n}"));
    }
}

/// Returns a journal with runs of many lanes, without faults and violations.
fn clean() -> Journal {
    let mut journal = Journal::default();
    for (lane, first) in
        [("sync", 10), ("line", 20), ("mail", 30), ("audit", 40), ("pay", 50), ("queue", 60)]
    {
        add(&mut journal, lane, "k0", first, 4);
    }
    // A payment that is reported four times and made once.
    for n in 51..54 {
        journal.world.runs.retain(|run| run.id != format!("run_{n}"));
        journal.calls.retain(|call| call.run != format!("run_{n}"));
        let request = journal.requests.iter_mut().find(|it| it.n == n).unwrap();
        let answer = request.answer.as_mut().unwrap();
        (answer.outcome, answer.run) = ("deduped".to_owned(), None);
    }
    // Two requests in one window, and two in one buffer.
    for (lane, first, word) in [("index", 70, "coalesced"), ("digest", 72, "buffered")] {
        add(&mut journal, lane, "k0", first, 2);
        let last = format!("run_{}", first + 1);
        for request in journal.requests.iter_mut().filter(|it| it.lane == lane) {
            let answer = request.answer.as_mut().unwrap();
            (answer.outcome, answer.run) = (word.to_owned(), Some(last.clone()));
        }
        journal.world.runs.retain(|run| run.lane != lane || run.id == last);
        journal.calls.retain(|call| call.lane != lane || call.run == last);
    }
    find_call(&mut journal, 73).numbers = vec![72, 73];
    // A refused call that is retried, a run that is cancelled, and two occurrences of the schedule.
    let mut refused = call(900, 12, "sync", "k0", 12 * SECOND + 10_000);
    (refused.how, refused.end) = (CallEnd::Answered(503), refused.begin + 5000);
    journal.calls.push(refused);
    journal.calls.push(call(901, 1000, "clock", "", 80 * SECOND));
    journal.calls.push(call(902, 1002, "clock", "", 82 * SECOND));
    converse(&mut journal);
    let entries = vec![(0, 90), (1, 91)];
    journal.world.logs.push(Log { lane: "ledger".to_owned(), key: "k0".to_owned(), entries });
    for (n, version) in [(90, 0), (91, 1)] {
        let mut commit = request(n, "ledger", "k0", 90 * SECOND, "committed");
        let answer = commit.answer.as_mut().unwrap();
        (answer.run, answer.event, answer.version) = (None, None, Some(version));
        journal.requests.push(commit);
    }
    journal
}

/// Adds three messages of one chat with their replies. The run that appends message `n` has the
/// number `n + 200`.
fn converse(journal: &mut Journal) {
    add(journal, "chat", "k0", 100, 3);
    for n in 100..103 {
        let at = i64::try_from(n).unwrap() * SECOND;
        let mut append = call(n + 200, n + 200, "chat/append", "k0", at + 7000);
        (append.numbers, append.end) = (vec![n], at + 12_000);
        journal.calls.push(append);
        journal.world.runs.push(run(n + 200, "chat", at + 5000, n + 200));
    }
}

fn find_call(journal: &mut Journal, n: u64) -> &mut Call {
    journal.calls.iter_mut().find(|call| call.run == format!("run_{n}") && call.id < 900).unwrap()
}

fn find_run(journal: &mut Journal, n: u64) -> &mut Run {
    journal.world.runs.iter_mut().find(|run| run.id == format!("run_{n}")).unwrap()
}

fn fault(journal: &mut Journal, kind: &str, server: &str, from: i64, to: i64) {
    let (kind, server) = (kind.to_owned(), server.to_owned());
    journal.faults.push(Fault { kind, server, from, to });
}

fn act(journal: &mut Journal, n: u64, what: &str, at: i64, state: &str) {
    let (run, what, state) = (format!("run_{n}"), what.to_owned(), Some(state.to_owned()));
    journal.acts.push(Act { run, what, sent: at, done: at + 10_000, state });
}

/// Adds two runs of lane `sync` and key k0 that are in progress together with run 10. That exceeds
/// the limit of two.
fn crowd(journal: &mut Journal) {
    add(journal, "sync", "k0", 14, 2);
    let begin = find_call(journal, 10).begin;
    for n in [14, 15] {
        let call = find_call(journal, n);
        (call.begin, call.end) = (begin + 1000, begin + 60_000);
    }
}

/// Adds a second call of run 10, by server `b1`, two seconds after the first.
fn repeat(journal: &mut Journal) {
    let mut second = call(910, 10, "sync", "k0", 12 * SECOND + 500_000);
    "b1".clone_into(&mut second.server);
    journal.calls.push(second);
}

type Doctor = fn(&mut Journal);

/// Changes to a journal, each with the kind of violation that the judge must find.
#[rustfmt::skip]
const PLANTED: [(&str, Kind, Doctor); 38] = [
    ("a repeat before its server has given the call up", Kind::Doubled, |it| {
        repeat(it);
        let first = find_call(it, 10);
        (first.how, first.end) = (CallEnd::Dropped, 12 * SECOND + 600_000);
        find_run(it, 10).output = Some(910);
    }),
    ("a run that is not listed", Kind::Lost, |it| {
        it.world.runs.retain(|run| run.id != "run_11");
    }),
    ("an event that does not exist", Kind::Lost, |it| it.world.events.retain(|id| id != "evt_11")),
    ("an answer that promises a run without its id", Kind::Lost, |it| {
        it.requests[0].answer.as_mut().unwrap().run = None;
    }),
    ("a completed run without its effect", Kind::Lost, |it| {
        it.calls.retain(|call| call.run != "run_11");
    }),
    ("an output of another call", Kind::Lost, |it| find_run(it, 11).output = Some(12)),
    ("a run that carries another request", Kind::Lost, |it| find_call(it, 11).numbers = vec![77]),
    ("a failure that nobody caused", Kind::Lost, |it| find_run(it, 11).state = "failed".into()),
    ("a run that nobody cancelled", Kind::Lost, |it| find_run(it, 11).state = "cancelled".into()),
    ("a window that fires with an older request", Kind::Lost, |it| {
        find_call(it, 71).numbers = vec![70];
    }),
    ("a buffer without one of its events", Kind::Lost, |it| find_call(it, 73).numbers = vec![73]),
    ("an occurrence that is left out", Kind::Lost, |it| {
        it.calls.push(call(903, 1006, "clock", "", 86 * SECOND));
    }),
    ("a commit that is not in its log", Kind::Lost, |it| it.world.logs[0].entries.truncate(1)),
    ("a commit at another version", Kind::Lost, |it| it.world.logs[0].entries.swap(0, 1)),
    ("a cancelled run that completes", Kind::Lost, |it| {
        act(it, 11, "cancel", 11 * SECOND + 200_000, "cancelled");
    }),
    ("two runs of one request", Kind::Doubled, |it| {
        let mut other = call(904, 11, "sync", "k0", 13 * SECOND + 500_000);
        (other.run, other.effect) = ("run_99".into(), "run_99:call".into());
        it.calls.push(other);
    }),
    ("two runs of one idempotency key", Kind::Doubled, |it| {
        it.calls.push(call(905, 51, "pay", "k0", 51 * SECOND));
    }),
    ("a call under another idempotency key", Kind::Doubled, |it| {
        find_call(it, 11).effect = "run_11:again".into();
    }),
    ("a call that no server has signed", Kind::Doubled, |it| find_call(it, 11).server.clear()),
    ("a call that is repeated without a fault", Kind::Doubled, repeat),
    ("a repeat after a fault of another server", Kind::Doubled, |it| {
        repeat(it);
        fault(it, "kill", "b1", 10 * SECOND + 30_000, 11 * SECOND);
    }),
    ("another answer to the same request", Kind::Doubled, |it| {
        let mut again = it.requests[0].answer.clone().unwrap();
        again.run = Some("run_98".into());
        it.requests[0].again = Some(again);
    }),
    ("a commit that is in its log twice", Kind::Doubled, |it| {
        it.world.logs[0].entries.push((2, 91));
    }),
    ("a commit that was answered `conflict` and took place", Kind::Doubled, |it| {
        let request = it.requests.iter_mut().find(|it| it.n == 91).unwrap();
        request.answer.as_mut().unwrap().outcome = "conflict".into();
    }),
    ("three calls at once where two may", Kind::OverLimit, crowd),
    ("starts that are too near", Kind::OverLimit, |it| {
        find_run(it, 31).started = Some(30 * SECOND + 5000 + 99_999);
    }),
    ("a call before its start", Kind::OverLimit, |it| {
        find_call(it, 31).begin = 31 * SECOND;
    }),
    ("more admissions than the rate allows", Kind::OverLimit, |it| {
        for n in 41..44 {
            find_run(it, n).queued = 40 * SECOND + 6000;
        }
    }),
    ("a queue that is overtaken", Kind::OutOfOrder, |it| {
        let later = find_call(it, 60);
        (later.begin, later.end) = (64 * SECOND, 64 * SECOND + 50_000);
    }),
    ("a call of a paused run", Kind::OutOfOrder, |it| {
        act(it, 21, "pause", 20 * SECOND + 20_000, "paused");
        act(it, 21, "resume", 22 * SECOND, "queued");
    }),
    ("a version that changes under a run", Kind::OutOfOrder, |it| {
        fault(it, "kill", "a1", 10 * SECOND + 30_000, 11 * SECOND);
        repeat(it);
        it.calls.last_mut().unwrap().version = "2".into();
    }),
    ("a version whose definition changes", Kind::OutOfOrder, |it| find_call(it, 11).revision = 2),
    ("a message without its reply, whose sender has left", Kind::Lost, |it| {
        it.requests.retain(|request| request.n != 101);
        it.calls.retain(|call| call.run != "run_101");
        it.world.runs.retain(|run| run.id != "run_101");
    }),
    ("a message that is answered twice", Kind::Doubled, |it| {
        let mut other = call(906, 101, "chat", "k0", 105 * SECOND);
        (other.run, other.effect) = ("run_97".into(), "run_97:call".into());
        it.calls.push(other);
    }),
    ("a reply before its message is in", Kind::OutOfOrder, |it| {
        find_call(it, 301).end = 101 * SECOND + 30_000;
    }),
    ("a reply to a message that did not get in", Kind::OutOfOrder, |it| {
        find_call(it, 301).how = CallEnd::Answered(400);
        find_run(it, 301).state = "failed".into();
    }),
    ("replies in another order than their messages", Kind::OutOfOrder, |it| {
        find_run(it, 302).queued = 100 * SECOND + 6000;
        it.requests.iter_mut().find(|it| it.n == 102).unwrap().sent = 100 * SECOND;
    }),
    ("an answer that nobody may get", Kind::Unexpected, |it| it.unexpected.push("404".into())),
];

#[test]
fn a_clean_journal_passes() {
    let found = judge(&clean());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_planted_violation_is_found_and_nothing_else() {
    for (name, kind, doctor) in PLANTED {
        let mut journal = clean();
        doctor(&mut journal);
        let found = judge(&journal);
        assert!(
            found.iter().any(|it| it.kind == kind),
            "{name}: the judge did not find the violation, only {found:#?}"
        );
        let others: Vec<_> = found.iter().filter(|it| it.kind != kind).collect();
        assert!(others.is_empty(), "{name}: the judge found other violations: {others:#?}");
    }
}

#[test]
fn what_the_look_at_the_end_shows_is_reported() {
    for (kind, list) in [
        (Kind::Stuck, (|it| &mut it.world.live) as fn(&mut Journal) -> &mut Vec<String>),
        (Kind::Leaked, |it| &mut it.world.leaks),
        (Kind::Unresolved, |it| &mut it.world.unresolved),
    ] {
        let mut journal = clean();
        list(&mut journal).push("run_10".to_owned());
        let found = judge(&journal);
        assert!(matches!(&found[..], [one] if one.kind == kind && !one.lines.is_empty()));
    }
}

/// Faults excuse exactly the violations that they cause. Without its fault, each of these changes
/// is a violation (see above).
#[test]
fn faults_excuse_what_they_cause() {
    let during = 10 * SECOND + 20_500;
    let excused: [(&str, Doctor); 7] = [
        ("a repeat of a call that its server had given up", |it| {
            repeat(it);
            find_call(it, 10).how = CallEnd::Dropped;
            find_run(it, 10).output = Some(910);
        }),
        ("a repeat after the server was killed", |it| {
            repeat(it);
            fault(it, "kill", "a1", 10 * SECOND + 30_000, 11 * SECOND);
        }),
        ("a repeat by a server that has just woken up", |it| {
            repeat(it);
            fault(it, "freeze", "b1", 9 * SECOND, 12 * SECOND + 400_000);
        }),
        ("a repeat after a crash of the database", |it| {
            repeat(it);
            fault(it, "crash", "", 9 * SECOND, 10 * SECOND);
        }),
        ("a call of a server that was killed meanwhile", |it| {
            crowd(it);
            fault(it, "kill", "a1", 10 * SECOND + 20_500, 11 * SECOND);
        }),
        ("a call of a server that was frozen meanwhile", |it| {
            crowd(it);
            for n in [14, 15] {
                find_call(it, n).server = "b1".to_owned();
            }
            fault(it, "freeze", "a1", 10 * SECOND + 20_500, 13 * SECOND);
        }),
        ("a connection whose end is noticed late", |it| {
            crowd(it);
            find_call(it, 10).how = CallEnd::Dropped;
            find_run(it, 10).output = Some(911);
            it.calls.push(call(911, 10, "sync", "k0", 10 * SECOND + 200_000));
            fault(it, "term", "a1", 10 * SECOND + 20_200, 10 * SECOND + 90_000);
        }),
    ];
    assert!(during > find_call(&mut clean(), 10).begin, "the faults must begin after the call");
    for (name, doctor) in excused {
        let mut journal = clean();
        doctor(&mut journal);
        let found = judge(&journal);
        assert!(found.is_empty(), "{name}: the judge must accept this, but found {found:#?}");
    }
}

#[test]
fn a_journal_is_read_as_it_was_written() {
    let mut journal = clean();
    crowd(&mut journal);
    journal.world.leaks.push("a gate".to_owned());
    let again = Journal::read(&journal.lines());
    assert_eq!(again.lines(), journal.lines());
    let count = |journal| judge(journal).len();
    assert_eq!((count(&again), count(&journal)), (2, 2));
}
