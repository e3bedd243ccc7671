//! Events that concern single runs: they cancel them (spec L29), enter their inboxes (spec L35), or
//! end their waits.

use serde_json::Value;

use super::{
    Ordinal, Reference, State, Time,
    fields::{entries, key_of, ms, text},
};

/// An event with a value, from a run's admission on.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    event: Wanted,
    /// The last time at which the event counts.
    until: Option<Time>,
    /// Whether the event cancels the run. It enters the inbox otherwise.
    cancels: bool,
}

/// An event, by its name and one value.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name.
    pub name: String,
    /// The path in the event, and the value that the event must have there, as the text of a key.
    pub value: Option<(String, String)>,
}

impl Wanted {
    /// Creates the description of an event whose data must have the value that `like` has.
    pub fn new(name: &str, path: &str, like: &Value) -> Self {
        let value = key_of(like, path).map(|value| (path.to_owned(), value));
        Self { name: name.to_owned(), value }
    }

    fn matches(&self, name: &str, data: &Value) -> bool {
        let value = self.value.as_ref();
        self.name == name && value.is_none_or(|(at, it)| key_of(data, at).as_ref() == Some(it))
    }

    fn path(&self) -> String {
        self.value.as_ref().map(|(path, _)| path.clone()).unwrap_or_default()
    }
}

/// What an event does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Cancels,
    Keeps,
    Wakes,
}

/// Returns the events that concern a run of this data which is admitted now.
pub(super) fn listeners(def: &Value, data: &Value, now: Time) -> Vec<Listener> {
    let read = |entry: &Value, cancels: bool| {
        let (theirs, own) = entry["match"].as_object()?.iter().next()?;
        let value = Some((theirs.clone(), key_of(data, own.as_str()?)?));
        let event = Wanted { name: text(entry, "event")?, value };
        Some(Listener { event, until: ms(entry, "withinMs").map(|ms| now + ms), cancels })
    };
    let cancelling = entries(def, "cancelOn").into_iter().filter_map(|it| read(it, true));
    let kept = entries(def, "waitsFor").into_iter().filter_map(|it| read(it, false));
    cancelling.chain(kept).collect()
}

impl Reference {
    /// Applies an event to the runs that it concerns, in the order of the paths of their values,
    /// then of their admissions.
    pub(super) fn reach(&mut self, name: &str, data: &Value) {
        let mut effects = Vec::new();
        for run in (0..self.runs.len()).filter(|run| self.alive(*run)) {
            let it = &self.runs[run];
            let in_time = |it: &&Listener| it.until.is_none_or(|until| self.now <= until);
            let heard =
                it.listeners.iter().filter(in_time).filter(|it| it.event.matches(name, data));
            let awaited = it.awaits.as_ref().map(|(_, event)| event);
            let awaited = awaited.filter(|event| event.matches(name, data));
            // An event that ends a wait does not enter the inbox.
            for listener in heard.filter(|it| it.cancels || awaited.is_none()) {
                let effect = if listener.cancels { Effect::Cancels } else { Effect::Keeps };
                effects.push((listener.event.path(), run, effect));
            }
            effects.extend(awaited.map(|event| (event.path(), run, Effect::Wakes)));
        }
        effects.sort();
        for (_, run, effect) in effects {
            match effect {
                _ if !self.alive(run) => {}
                Effect::Cancels => self.cut(run),
                Effect::Keeps => self.runs[run].inbox.push((name.to_owned(), data.clone())),
                Effect::Wakes => self.wake(run, data),
            }
            self.settle();
        }
    }

    /// Lets a step of a driven run wait for an event. One that is in the inbox ends the wait at
    /// once.
    pub fn wait(&mut self, run: Ordinal, step: &str, event: Wanted, time: Option<Time>) {
        let kept = self.runs[run].inbox.iter().position(|(name, data)| event.matches(name, data));
        self.runs[run].awaits = Some((step.to_owned(), event));
        match kept {
            Some(at) => {
                let (_, data) = self.runs[run].inbox.remove(at);
                self.wake(run, &data);
            }
            None => self.rest(run, time.map(|time| self.now + time)),
        }
        self.settle();
    }

    /// Ends the wait of a run, if it has one, and queues the run again.
    pub(super) fn wake(&mut self, run: Ordinal, answer: &Value) {
        let it = &mut self.runs[run];
        it.answers.extend(it.awaits.take().map(|(step, _)| (step, answer.clone())));
        self.requeue(run);
    }

    /// Lets a run rest until a time, or until an event wakes it.
    pub(super) fn rest(&mut self, run: Ordinal, until: Option<Time>) {
        self.requeue(run);
        self.aside.clear();
        self.runs[run].state = State::Waiting(until);
    }

    /// Returns the answers of the waits of a run, by step.
    pub fn answers(&self, run: Ordinal) -> Vec<(String, Value)> {
        self.runs[run].answers.clone()
    }

    /// Returns the events in the inbox of a run, in the order of their arrival.
    pub fn inbox(&self, run: Ordinal) -> Vec<Value> {
        self.runs[run].inbox.iter().map(|(_, data)| data.clone()).collect()
    }
}
