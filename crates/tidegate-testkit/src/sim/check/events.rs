//! Checks of events and signals that concern single runs.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    json::Payload,
    row::{
        Ending, Event, Listener, ListenerEffect, Phase, Purpose, Row, RowKey, Run, Signal, Step,
        StepKind, Wait, WaitFilter, WaitOn,
    },
    run::{
        listen::MAX_INBOX,
        record::{NewWait, NewWaitOn, Record, Then},
        wait::encoded,
    },
};

use super::{Checked, Look, deliveries, history::History};
use crate::{
    sim::{
        controls::{Controls, Policy},
        script::When,
        task::{BY_NAME, SIGNAL},
    },
    world::payload,
};

/// Returns the data of the signals to single runs.
pub(super) fn signal() -> Payload {
    payload(&json!("signal"))
}

/// What a wait for an event requires.
type Wanted<'a> = (&'a str, &'a [(String, Vec<u8>)], Option<&'a WaitFilter>);

fn wanted(on: &WaitOn) -> Option<Wanted<'_>> {
    match on {
        WaitOn::Event { name, matches, filter, .. } => Some((name, matches, filter.as_ref())),
        _ => None,
    }
}

/// Returns the event that a step waits for, if its wait was there before the commit or begins in
/// it.
fn wanted_by<'a>(look: &Look<'a>, step: &Step) -> Option<Wanted<'a>> {
    let known = look.before(step.run).into_iter().flat_map(|run| &run.waits);
    let known = known.filter(|wait| wait.step == step.id).find_map(|wait| wanted(&wait.on));
    known.or_else(|| {
        let mut new = new_waits(look).filter(|(run, it)| *run == step.run && it.step == step.id);
        new.find_map(|(_, new)| match &new.on {
            NewWaitOn::Event { name, matches, filter, .. } => {
                Some((name.as_str(), matches.as_slice(), filter.as_ref()))
            }
            _ => None,
        })
    })
}

/// Returns the waits that the reports of the commit begin, with their runs.
fn new_waits<'a>(look: &Look<'a>) -> impl Iterator<Item = (tidegate_core::id::Seq, &'a NewWait)> {
    let reports = look.answered().filter_map(|(command, answer)| match command {
        Command::Record { report, .. } if answer.is_ok() => Some(report),
        _ => None,
    });
    reports.flat_map(|report: &Record| {
        let last = match &report.then {
            Then::Suspend(waits) => waits.as_slice(),
            _ => &[],
        };
        report.waits.iter().chain(last).map(|new| (report.run, new))
    })
}

/// Whether an event of this name and data ends a wait.
fn ends(wanted: Wanted<'_>, name: &str, data: &Payload) -> bool {
    let (wanted_name, matches, filter) = wanted;
    let all = |(path, value): &(String, Vec<u8>)| encoded(data, path).as_ref() == Some(value);
    wanted_name == name
        && matches.iter().all(all)
        && filter.is_none_or(|filter| {
            let when = When::ALL.into_iter().find(|it| it.of_wait() == *filter);
            let when = when.expect("a condition of the simulator");
            when.holds(&parsed(data), &json!(when.constant()))
        })
}

fn parsed(data: &Payload) -> Value {
    serde_json::from_str(data.as_str()).expect("data is JSON")
}

/// A run does not miss an event that is posted after its wait began, and gets no earlier one and no
/// other one than it waits for.
pub(super) fn i33(look: &Look<'_>, _: &History) -> Checked {
    let new = |delta: &'_ &super::super::state::Delta| delta.before.is_none();
    let added = look.deltas.iter().filter(new).filter_map(|delta| delta.after.as_ref());
    let events: Vec<&Event> = deliveries::admitted(look).collect();
    for event in &events {
        for run in look.state.runs().filter(|run| run.ws == event.ws) {
            let Some(old) = look.before(run.id.seq) else { continue };
            for wait in run.waits.iter().filter(|wait| old.waits.contains(wait)) {
                if wanted(&wait.on).is_some_and(|it| ends(it, &event.name, &event.data)) {
                    return Err(format!("the event {event:?} did not wake the run {run:?}"));
                }
            }
        }
    }
    for row in added {
        let Row::Step(step) = row else { continue };
        // A retry from a step starts with the recorded events of the first run.
        if step.kind == StepKind::Event && look.before(step.run).is_some() {
            let wanted = wanted_by(look, step);
            let is_answer = |name: &str, data: &Payload| {
                let ended = wanted.is_none_or(|wanted| ends(wanted, name, data));
                step.result.as_ref() == Ok(data) && ended
            };
            brought(
                look,
                step,
                events.iter().any(|event| is_answer(&event.name, &event.data))
                    || taken(look, step).any(|kept| is_answer(event_of(kept), &kept.data)),
            )?;
        }
    }
    Ok(())
}

/// Returns the events that this commit has taken out of the inbox of a step's run.
fn taken<'a>(look: &Look<'a>, step: &Step) -> impl Iterator<Item = &'a Signal> {
    look.deltas.iter().filter_map(move |delta| match (&delta.before, &delta.after) {
        (Some(Row::Signal(kept)), None) if kept.run == step.run => Some(kept),
        _ => None,
    })
}

/// Returns the name of an event in an inbox.
fn event_of(kept: &Signal) -> &str {
    kept.name.strip_prefix("\u{1}event ").unwrap_or_default()
}

/// Returns the posted events of this commit.
fn posted<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Event> {
    let events = deliveries::admitted(look);
    // While a chore wakes runs for the name, its later events wait.
    events.filter(|event| {
        let behind = |row: &Row| {
            matches!(row, Row::Chore(chore) if chore.topic.as_ref() == Some(&event.name))
        };
        !look.state.rows().any(behind)
    })
}

/// Rule of a definition about the events that cancel a run, or enter its inbox, with the values of
/// the run's input at its admission.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    event: &'static str,
    cancels: bool,
    /// The value of `k`, if it must be that of the event.
    own: Option<Value>,
    when: Option<(When, Value)>,
}

impl Rule {
    fn all(controls: &Controls, data: &Value) -> Vec<Self> {
        let value = |path: &str| path.split('.').try_fold(data, |at, name| at.get(name)).cloned();
        let mut rules = Vec::new();
        if let Some((event, path)) = controls.cancel_on {
            let beside = |when: When| path.replace('k', when.field());
            let when = controls.cancel_if.map(|it| (it, value(&beside(it)).unwrap_or_default()));
            let alone = controls.cancel_if == Some(When::Alike);
            let own = value(path).filter(|_| !alone);
            if own.is_some() || alone {
                rules.push(Self { event, cancels: true, own, when });
            }
        }
        if let Some((event, path)) = controls.waits_for
            && let Some(own) = value(path)
        {
            rules.push(Self { event, cancels: false, own: Some(own), when: None });
        }
        rules
    }

    fn is_for(&self, event: &Event) -> bool {
        let data = parsed(&event.data);
        let same = |own: &Value| data.get("k") == Some(own);
        self.event == event.name
            && self.own.as_ref().is_none_or(same)
            && self.when.as_ref().is_none_or(|(when, own)| when.holds(&data, own))
    }
}

/// Returns the rules of a run that is admitted in this commit; none if it is not known by which
/// definition, or of which input.
pub(super) fn rules(look: &Look<'_>, run: &Run) -> Option<Vec<Rule>> {
    if run.purpose != Purpose::Ordinary {
        return Some(Vec::new());
    }
    // A retry from a step keeps its version, and listens by the released one.
    let current = look.state.current(&run.ws, &run.workflow)?.version;
    if run.replay_of.is_some() && run.version != current {
        return None;
    }
    let controls = &look.plan.spec(&run.workflow)?.version(run.version).0;
    // A later request may have joined a debounced one.
    let joined = matches!(controls.policy, Some(Policy::Debounce(_)));
    let Some(Row::Event(input)) = look.state.row(&RowKey::Event(run.source.first().seq)) else {
        return None;
    };
    (!look.redefines() && !joined).then(|| Rule::all(controls, &parsed(&input.data)))
}

/// Whether a listener was there when the event arrived.
fn is_current(listener: &Listener, event: &Event) -> bool {
    listener.since <= event.number()
        && listener.until.is_none_or(|until| event.admitted_at() <= until)
}

/// Returns the listeners of a run, with the rules that they apply.
fn listeners<'a>(
    run: &'a Run,
    history: &'a History,
) -> impl Iterator<Item = (&'a Listener, &'a Rule)> {
    let rules = history.rules.get(&run.id.seq).into_iter().flatten();
    run.listeners.iter().zip(rules)
}

/// An event cancels every run with its values that was admitted before it. A run is cancelled by an
/// event only if it has such a rule.
pub(super) fn i60(look: &Look<'_>, history: &History) -> Checked {
    for run in look.runs().filter_map(|(_, after)| after) {
        let rules = history.rules.get(&run.id.seq).filter(|_| run.phase != Phase::Stopping);
        let cancels = |it: &Listener| it.effect == ListenerEffect::Cancel;
        let listens: Vec<bool> = run.listeners.iter().map(cancels).collect();
        if let Some(rules) = rules
            && rules.iter().map(|rule| rule.cancels).ne(listens.iter().copied())
        {
            return Err(format!("the run {run:?} does not listen by its rules {rules:?}"));
        }
    }
    for event in posted(look) {
        let runs = look.state.runs().filter(|run| run.ws == event.ws);
        for run in runs.filter(|run| run.phase != Phase::Stopping) {
            let mut all = listeners(run, history);
            if all.any(|(it, rule)| rule.cancels && is_current(it, event) && rule.is_for(event)) {
                return Err(format!("the event {event:?} did not cancel the run {run:?}"));
            }
        }
    }
    for delta in look.deltas {
        let Some(Row::Ended(ended)) = &delta.after else { continue };
        let Ending::Cancelled { reason, .. } = &ended.ending else { continue };
        let by = posted(look).find(|it| *reason == format!("event `{}` ({})", it.name, it.id));
        let Some(by) = by else { continue };
        // The run may have been admitted in this commit: then its rules are not known.
        let rules = history.rules.get(&ended.id.seq);
        if rules.is_some_and(|rules| !rules.iter().any(|it| it.cancels && it.is_for(by))) {
            return Err(format!("run {} was cancelled by {by:?}, without reason", ended.id));
        }
    }
    Ok(())
}

/// An event of `waitsFor` reaches every run with its values that was admitted before it, once. A wait
/// takes the first event that it matches. The number of events in an inbox is that of its rows, at
/// most the maximum.
pub(super) fn i61(look: &Look<'_>, history: &History) -> Checked {
    for event in posted(look) {
        let runs = look.state.runs().filter(|run| run.ws == event.ws);
        for run in runs.filter(|run| run.phase != Phase::Stopping) {
            let missed = listeners(run, history).any(|(it, rule)| match it.effect {
                ListenerEffect::Keep { last, .. } => {
                    is_current(it, event) && rule.is_for(event) && last < event.number()
                }
                ListenerEffect::Cancel => false,
            });
            if missed {
                return Err(format!("the event {event:?} did not reach the run {run:?}"));
            }
        }
    }
    let steps = look.deltas.iter().filter_map(|delta| match &delta.after {
        Some(Row::Step(step)) if step.kind == StepKind::Event => Some(step),
        _ => None,
    });
    for step in steps {
        let Some(wanted) = wanted_by(look, step) else { continue };
        let mut taken = taken(look, step).filter(|kept| step.result.as_ref() == Ok(&kept.data));
        let Some(taken) = taken.next() else { continue };
        let earlier = look.state.rows().find(|row| {
            matches!(row, Row::Signal(kept)
                if kept.run == step.run && kept.name == taken.name && kept.seq < taken.seq
                    && ends(wanted, event_of(kept), &kept.data))
        });
        if let Some(earlier) = earlier {
            return Err(format!("{step:?} was answered by {taken:?}, and not by {earlier:?}"));
        }
    }
    for run in look.runs().filter_map(|(_, after)| after) {
        let kept = run.listeners.iter().map(|it| match it.effect {
            ListenerEffect::Keep { kept, .. } => kept,
            ListenerEffect::Cancel => 0,
        });
        let rows = look.state.rows().filter(
            |row| matches!(row, Row::Signal(it) if it.run == run.id.seq && it.name != SIGNAL),
        );
        let (kept, rows) = (kept.sum::<u32>() as usize, rows.count());
        let ends = run.phase == Phase::Stopping;
        if !ends && (kept != rows || kept > MAX_INBOX as usize * run.listeners.len()) {
            return Err(format!("run {} has {kept} events in its inbox, and {rows} rows", run.id));
        }
    }
    Ok(())
}

/// Checks that a wait for an event got an event of this commit, or timed out.
fn brought(look: &Look<'_>, step: &Step, by_event: bool) -> Checked {
    let wait = wait_of(look, step);
    if by_event || is_timed_out(look, step, wait) {
        return Ok(());
    }
    Err(format!("no event and no timeout for the result {step:?} of the wait {wait:?}"))
}

/// Returns the wait of a step before the commit.
fn wait_of<'a>(look: &Look<'a>, step: &Step) -> Option<&'a Wait> {
    look.before(step.run)?.waits.iter().find(|wait| wait.step == step.id)
}

fn is_timed_out(look: &Look<'_>, step: &Step, wait: Option<&Wait>) -> bool {
    let over = wait.and_then(|wait| wait.until).is_some_and(|until| until <= look.at);
    over && is_null(step)
}

fn is_null(step: &Step) -> bool {
    step.result.as_ref().is_ok_and(|data| data.as_str() == "null")
}

/// A signal that is sent by its name ends the wait for it. Nothing else does, but its timeout and a
/// wait of another step that replaces it. That no two waits are for one name is checked by `doctor`.
pub(super) fn i97(look: &Look<'_>, _: &History) -> Checked {
    if look.rows_only {
        return Ok(());
    }
    let sent = payload(&json!(BY_NAME));
    let by_name = look.answered().filter_map(|(command, answer)| match (command, answer) {
        (Command::SignalByName { ws, name, .. }, Ok(Answer::Signalled(run))) => {
            Some((ws, name, *run))
        }
        _ => None,
    });
    let mut by_name: Vec<_> = by_name.collect();
    for delta in look.deltas.iter().filter(|delta| delta.before.is_none()) {
        let Some(Row::Step(step)) = &delta.after else { continue };
        let wait = wait_of(look, step);
        let Some(WaitOn::Named { name }) = wait.map(|wait| &wait.on) else { continue };
        let run = look.before(step.run).expect("it has a wait");
        if step.result.as_ref() == Ok(&sent) {
            let at = by_name.iter().position(|it| *it == (&run.ws, name, Some(run.id)));
            let Some(at) = at else { return Err(format!("no signal for {step:?}")) };
            by_name.remove(at);
            continue;
        }
        let replaced = new_waits(look).any(|(_, new)| {
            matches!(&new.on, NewWaitOn::Named { name: it, replace: true } if it == name)
        });
        if !(is_timed_out(look, step, wait) || is_null(step) && replaced) {
            return Err(format!("the wait {wait:?} ended with {step:?}, without reason"));
        }
    }
    let waits = |run: &Run, name: &str| {
        run.waits.iter().any(|wait| matches!(&wait.on, WaitOn::Named { name: it } if it == name))
    };
    for (ws, name, run) in by_name {
        let waiting = |run: &&Run| {
            let before = look.before(run.id.seq).is_some_and(|before| waits(before, name));
            run.ws == *ws && before && waits(run, name)
        };
        if let (None, Some(missed)) = (run, look.state.runs().find(waiting)) {
            return Err(format!("the signal `{name}` did not reach the run {missed:?}"));
        }
        // The wait may have begun in this commit. Otherwise its step has the signal.
        let begun = new_waits(look).any(|(of, _)| run.is_some_and(|run| run.seq == of));
        if run.is_some() && !begun {
            return Err(format!("the signal `{name}` ended no wait of the run {run:?}"));
        }
    }
    Ok(())
}
