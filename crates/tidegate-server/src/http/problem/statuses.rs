//! Checks the HTTP status and the code of every refusal of the engine and every store error against
//! a file.

use expect_test::expect_file;
use tidegate::{Error, StepError};
use tidegate_core::{
    access::AccessRefusal,
    command::Refusal,
    flow::Verdict,
    id::{EventId, RunId, Seq},
    json::PayloadError,
    overrides::OverrideRefusal,
    pool::PoolRefusal,
    reaction::ReactionRefusal,
    schema::Mismatch,
    session::SessionError,
    stream::{Expected, StreamRefusal},
    time::Timestamp,
};
use tidegate_store::StoreError;

use super::Problem;

fn text() -> String {
    String::new()
}

fn refusals() -> Vec<Refusal> {
    let (run, seq, app, name) = (RunId { seq: Seq(1), salt: 1 }, Seq(1), text(), text());
    let (step, first, version) = (text(), text(), 1);
    vec![
        Refusal::NoRun(run),
        Refusal::Ended { run, state: "" },
        Refusal::NotEnded(run),
        Refusal::NoStep { run, step: text(), hint: text() },
        Refusal::Undone { run, step: text(), first },
        Refusal::InputGone(run),
        Refusal::InputFixed(run),
        Refusal::Fenced { run: seq, fence: 1 },
        Refusal::EngineDead(1),
        Refusal::NoEngine(1),
        Refusal::NoWorkflow { app: text(), name: text() },
        Refusal::BadInput { name: text(), mismatch: Mismatch { path: text(), rule: text() } },
        Refusal::NoVersion { app: text(), name: text(), version },
        Refusal::NoSchedule(text()),
        Refusal::VersionChanged { app, name, version },
        Refusal::ChunkTooLarge { step, n: 1, bytes: 1 },
        Refusal::TooManyChunks(run),
        Refusal::NoReaction(text()),
        Refusal::NoEvent(EventId { seq, salt: 1 }),
        Refusal::DeliveryEnded { event: EventId { seq, salt: 1 }, end: "" },
        Refusal::Deferred { run, at: Timestamp::MIN },
        Refusal::TooFarAhead { at: Timestamp::MIN, now: Timestamp::MIN },
        Refusal::KeyReused,
        Refusal::InProgress,
        Refusal::Unreadable(text()),
        AccessRefusal::NoKey(text()).into(),
        AccessRefusal::Taken(text()).into(),
        AccessRefusal::TooManyKeys.into(),
        PoolRefusal::NoPool { name: text(), hint: text() }.into(),
        PoolRefusal::InUse { name: text(), what: "", users: Vec::new() }.into(),
        PoolRefusal::TooMany.into(),
        OverrideRefusal::BadTarget(text()).into(),
        OverrideRefusal::BadField(text()).into(),
        OverrideRefusal::NoOverride.into(),
        OverrideRefusal::NothingToUndo.into(),
        OverrideRefusal::Expired.into(),
        OverrideRefusal::TooMany.into(),
        OverrideRefusal::EpochChanged { expected: 1, now: 2 }.into(),
    ]
}

fn of_streams() -> Vec<Refusal> {
    let (stream, reaction) = (text, text);
    let mut all: Vec<Refusal> = vec![
        ReactionRefusal::Beyond { reaction: reaction(), stream: stream(), upto: 1, want: 1 }.into(),
        ReactionRefusal::Lost { reaction: reaction(), stream: stream() }.into(),
        ReactionRefusal::NeedsAll { reaction: reaction() }.into(),
    ];
    let streams = [
        StreamRefusal::Conflict { stream: stream(), expected: Expected::NoStream, actual: 1 },
        StreamRefusal::StreamClosed { stream: stream(), guard: 1 },
        StreamRefusal::BadName { what: "", name: text(), rule: text() },
        StreamRefusal::Count { stream: stream(), count: 1 },
        StreamRefusal::TooLarge { stream: stream(), what: "", limit: 1, size: 1 },
        StreamRefusal::NotClosed { stream: stream() },
        StreamRefusal::NotTruncated { stream: stream(), phase: "" },
    ];
    all.extend(streams.map(Refusal::from));
    all
}

fn of_sessions() -> [Refusal; 9] {
    let path = text;
    [
        SessionError::TypeMismatch { verb: "", path: path(), reason: text() },
        SessionError::Number { path: path() },
        SessionError::TooLarge { size: 1 },
        SessionError::TooDeep { depth: 1 },
        SessionError::TooMuchStaged,
        SessionError::BadName { name: text(), rule: text() },
        SessionError::StepMismatch { step: text(), done: text() },
        SessionError::Changed { expected: 1, actual: 1 },
        SessionError::Conflict { path: path(), read: text(), now: text() },
    ]
    .map(Refusal::from)
}

/// Returns one error of every kind that is not a refusal.
fn others() -> Vec<Error> {
    let stores = [
        StoreError::Unavailable(text().into()),
        StoreError::Busy(text().into()),
        StoreError::Full(text().into()),
        StoreError::ReadOnly(text().into()),
        StoreError::FileGone(text()),
        StoreError::Data(text().into()),
        StoreError::Corrupt(text().into()),
        StoreError::Unknown(text().into()),
        StoreError::InUse { path: text(), holder: text() },
        StoreError::Schema(text()),
        StoreError::Config(text().into()),
        StoreError::TooManyRounds,
    ];
    let payloads = [
        PayloadError::TooLarge { size: 1, limit: 1 },
        PayloadError::NotUtf8 { offset: 1 },
        PayloadError::Syntax { offset: 1, reason: text() },
        PayloadError::TooDeep { depth: 1 },
    ];
    let verdict = Verdict::Rejected { control: "debounce", reason: text() };
    let (run, error) = (RunId { seq: Seq(1), salt: 1 }, StepError::new(text()));
    let engine = [
        Error::Definition(Vec::new()),
        Error::Value(text()),
        Error::NotStarted { workflow: text(), verdict: Box::new(verdict) },
        Error::RunFailed { run, error },
        Error::RunCancelled { run, reason: text() },
        Error::ShutDown,
        Error::ReadOnly,
    ];
    let stores = stores.into_iter().map(Error::from);
    stores.chain(payloads.into_iter().map(Error::from)).chain(engine).collect()
}

#[test]
fn codes_and_statuses_are_the_agreed_ones() {
    let refused = refusals().into_iter().chain(of_streams()).chain(of_sessions());
    let lines = refused.map(Error::from).chain(others()).map(|error| {
        let problem = Problem::from(error);
        format!("{} {}\n", problem.error, problem.status.as_u16())
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.dedup();
    expect_file!["../../../tests/contract/statuses.txt"].assert_eq(&lines.concat());
}
