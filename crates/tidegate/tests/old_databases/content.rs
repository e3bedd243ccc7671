//! Describes the rows of a store in words that do not depend on the names in the code.

use std::collections::BTreeMap;

use tidegate_core::{
    row::{Delivery, DeliveryEnd, Ending, Event, GateState, Phase, Row, Wait, WaitOn},
    time::Timestamp,
};
use tidegate_store::codec::Table;

/// The step of the row of a run's first listener.
const FIRST_LISTENER: &str = "\u{1}listener 0";

/// Returns the rows of a store as text: one line for each run, gate, subscription, stream,
/// schedule, session, API key and reply, and the number of rows of each table. Ids are left out,
/// because each store assigns other numbers, and so are the rows of the first listeners of runs,
/// which only builds before the migration 21 write.
pub(crate) fn describe(rows: &[Row]) -> String {
    let mut lines: Vec<String> = rows.iter().filter_map(line).collect();
    lines.sort();
    let mut tables: BTreeMap<&str, usize> = BTreeMap::new();
    let first = |row: &Row| matches!(row, Row::Wait(wait) if wait.step == FIRST_LISTENER);
    for row in rows.iter().filter(|row| !first(row)) {
        *tables.entry(Table::of(row.kind()).name).or_default() += 1;
    }
    lines.extend(tables.iter().map(|(table, count)| format!("rows in {table}: {count}")));
    lines.join("\n") + "\n"
}

fn line(row: &Row) -> Option<String> {
    Some(match row {
        Row::Run(run) => {
            let (ws, workflow, version) = (&run.ws, &run.workflow, run.version);
            let waits: String = run.waits.iter().map(awaited).collect();
            format!("run {ws} {workflow} v{version} {}{waits}", state(run.phase))
        }
        Row::Ended(run) => {
            let (ws, workflow, version) = (&run.ws, &run.workflow, run.version);
            format!("run {ws} {workflow} v{version} {}", ending(&run.ending))
        }
        Row::Event(Event { ws, name, delivery: Some(Delivery { end, .. }), .. }) => {
            let end = match end {
                None => "to be delivered",
                Some(DeliveryEnd::Delivered { .. }) => "delivered",
                Some(DeliveryEnd::Cancelled { .. }) => "cancelled",
            };
            format!("event {ws} {name} {end}")
        }
        Row::Gate(gate) => {
            let scope = gate.key.scope().expect("a gate's key can be read");
            let state = match &gate.state {
                GateState::Slots(slots) => format!("{} holders", slots.holders.len()),
                GateState::Meter(meters) => {
                    let meter = meters.at(0).expect("a stored meter");
                    format!("meter {} per {}", meter.limit, meter.per_ms)
                }
                GateState::Turns(turns) => format!("{} turns pending", turns.pending.len()),
                GateState::Fold(fold) => format!("{} events folded", fold.count),
                GateState::Claim(claim) => format!("claimed until {}", claim.until),
                GateState::Share(_) => "a turn".to_owned(),
            };
            let (ws, control, name) = (&scope.ws, scope.class.control(), &scope.name);
            format!("gate {ws} {control} {name} [{}] {state}", scope.key)
        }
        Row::Subscription(sub) => {
            let (ws, reaction, stream, blocked) =
                (&sub.ws, &sub.reaction, &sub.stream, sub.blocked.is_some());
            format!("place {ws} {reaction} {stream} {} of {} blocked={blocked}", sub.at, sub.want)
        }
        Row::Stream(stream) => {
            let (ws, name, closed) = (&stream.ws, &stream.name, stream.closed);
            format!("stream {ws} {name} head={} closed={closed}", stream.head)
        }
        Row::Schedule(it) => {
            let (ws, workflow, id, paused) = (&it.ws, &it.workflow, &it.id, it.paused_at.is_some());
            let last = it.last.map(Timestamp::micros);
            format!("schedule {ws} {workflow} {id} last={last:?} paused={paused}")
        }
        Row::Session(it) => {
            format!("session {} {} {} v{} {}", it.ws, it.flow, it.id, it.version, it.body.as_str())
        }
        Row::ApiKey(key) => {
            let flags = [key.used_at.is_some(), key.revoked_at.is_some()];
            format!("key {} {} read-only={} {flags:?}", key.id, key.name, key.read_only)
        }
        Row::Audit(it) => {
            let (before, after) = (it.before.is_some(), it.after.is_some());
            format!("audit {} {} before={before} after={after}", it.ws, it.operation)
        }
        Row::Reply(reply) => {
            let response = reply.response.as_ref().map_or("none", |response| response.as_str());
            format!("reply {} {} {response}", reply.ws, reply.id)
        }
        _ => return None,
    })
}

/// Describes what a run waits for, with the step that waits. A wait for the end of another run has
/// no step.
fn awaited(wait: &Wait) -> String {
    match &wait.on {
        WaitOn::Time => format!(" time:{}", wait.step),
        WaitOn::Retry => format!(" retry:{}", wait.step),
        WaitOn::Event { name, .. } => format!(" event:{}:{name}", wait.step),
        WaitOn::Signal { name } | WaitOn::Named { name } => {
            format!(" signal:{}:{name}", wait.step)
        }
        WaitOn::Child { .. } => format!(" child:{}", wait.step),
        WaitOn::Before { .. } => " run".to_owned(),
    }
}

fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued { .. } => "queued",
        Phase::Ready => "ready",
        Phase::Driven => "driven",
        Phase::Waiting => "waits",
        Phase::Paused => "paused",
        Phase::Stopping => "stopping",
    }
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Completed { output } => format!("completed {}", output.as_str()),
        Ending::Failed { error } => format!("failed {}: {}", error.code, error.message),
        Ending::Cancelled { .. } => "cancelled".to_owned(),
    }
}
