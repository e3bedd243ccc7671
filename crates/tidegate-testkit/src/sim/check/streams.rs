//! Model of streams and reactions: applies every command by its answer and reports broken rules.
//! After each commit, the changed rows must equal the model.

mod places;

use std::collections::BTreeMap;

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    id::Seq,
    reaction::{Effect, Effected, Reaction},
    row::{Row, RowKey, Stream, Subscription, Workspace},
    stream::{Closed, Committed, Expected, StreamRefusal, Truncated},
    time::Timestamp,
};

use self::places::Place;
use super::{Look, Violation};
use crate::sim::state::Delta;

/// Result of a rule: success, or the number of the invariant and the violation.
type Ruled = Result<(), (&'static str, String)>;

/// Key of a subscription: workspace, reaction and stream.
pub(super) type PlaceKey = (Workspace, String, String);

/// The state of a stream in the model.
#[derive(Clone, Debug, PartialEq)]
struct Log {
    id: Seq,
    head: i64,
    closed: bool,
    /// Whether only the guard is left.
    truncated: bool,
    /// The version of the oldest event that is left.
    first: i64,
}

/// Model of streams and reactions.
#[derive(Debug, Default)]
pub(super) struct StreamModel {
    logs: BTreeMap<(Workspace, String), Log>,
    /// The last position in each workspace.
    positions: BTreeMap<Workspace, i64>,
    reactions: BTreeMap<(Workspace, String), Reaction>,
    places: BTreeMap<PlaceKey, Place>,
    /// Whether the clock has stepped, so that times do not show which subscription has waited
    /// longest.
    stepped: bool,
}

/// Returns the number of an invariant and a text, unless the condition holds.
fn hold(holds: bool, number: &'static str, text: impl FnOnce() -> String) -> Ruled {
    if holds { Ok(()) } else { Err((number, text())) }
}

impl StreamModel {
    /// Applies a commit to the model, and compares the changed rows with it.
    pub(super) fn play(&mut self, look: &Look<'_>) -> Option<Violation> {
        if look.rows_only {
            return None;
        }
        let played = look.answered().try_for_each(|(command, answer)| match (command, answer) {
            (Command::Stream { ws, command }, Ok(Answer::Stream(answer))) => self
                .accepted(look.at, ws, command, answer)
                .map_err(|(number, text)| (number, format!("{text}: {command:?}: {answer:?}"))),
            (Command::Stream { ws, command }, Err(refusal)) => self
                .refused(look.at, ws, command, refusal)
                .map_err(|(number, text)| (number, format!("{text}: {command:?}: {refusal:?}"))),
            _ => Ok(()),
        });
        let compared = played.and_then(|()| look.deltas.iter().try_for_each(|it| self.compare(it)));
        compared.err().map(|(number, text)| Violation { number, text })
    }

    pub(super) fn clock_stepped(&mut self) {
        self.stepped = true;
    }

    fn accepted(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        command: &StreamCommand,
        answer: &StreamAnswer,
    ) -> Ruled {
        match (command, answer) {
            (StreamCommand::Commit(commit), StreamAnswer::Committed(committed)) => {
                self.appended(ws, &commit.stream, commit.expected, commit.events.len(), committed)
            }
            (StreamCommand::Close(close), StreamAnswer::Closed(closed)) => {
                self.closed(ws, &close.stream, close.expected, closed)
            }
            (StreamCommand::Truncate { stream, .. }, StreamAnswer::Truncated(truncated)) => {
                self.truncated(now, ws, stream, truncated)
            }
            (StreamCommand::Restart(restart), StreamAnswer::Committed(committed)) => {
                self.restarted(now, ws, &restart.stream, committed)
            }
            (StreamCommand::Define(reaction), StreamAnswer::Done) => {
                self.reactions.insert((ws.clone(), reaction.name.clone()), reaction.clone());
                Ok(())
            }
            (StreamCommand::Follow { reaction, stream }, StreamAnswer::Done) => {
                let head = self.head(ws, stream);
                if head >= 0 {
                    self.find_places(ws, stream, head, Some(reaction));
                }
                Ok(())
            }
            (StreamCommand::React(react), StreamAnswer::Reacted(reacted)) => {
                for (effect, effected) in react.effects.iter().zip(&reacted.effects) {
                    if let (Effect::Commit { stream, events }, Effected::Committed(committed)) =
                        (effect, effected)
                    {
                        self.appended(ws, stream, None, events.len(), committed)?;
                    }
                }
                self.reacted(now, react, reacted)
            }
            _ => self.answered_place(now, ws, command, answer),
        }
    }

    fn refused(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        command: &StreamCommand,
        refusal: &Refusal,
    ) -> Ruled {
        let Refusal::Stream(refusal) = refusal else {
            return self.refused_place(now, ws, command, refusal);
        };
        let expected = match command {
            StreamCommand::Commit(commit) => commit.expected,
            StreamCommand::Close(close) => close.expected,
            _ => None,
        };
        match refusal {
            StreamRefusal::Conflict { stream, actual, .. } => {
                let fits = *actual == self.head(ws, stream)
                    && expected.is_some_and(|expected| !self.is_met(ws, stream, expected));
                hold(fits, "I36", || {
                    "a commit was refused although its expected version is right".to_owned()
                })
            }
            StreamRefusal::StreamClosed { stream, guard } => {
                let log = self.log(ws, stream);
                let fits = log.is_some_and(|log| log.closed && log.head == *guard);
                hold(fits, "I49", || {
                    format!("refused as closed, but the stream is not closed: {log:?}")
                })
            }
            StreamRefusal::NotClosed { stream } => {
                let closed = self.log(ws, stream).is_some_and(|log| log.closed);
                hold(!closed, "I49", || {
                    "refused as not closed, but the stream is closed".to_owned()
                })
            }
            StreamRefusal::NotTruncated { stream, .. } => {
                let done = self.log(ws, stream).is_some_and(|log| log.closed && log.truncated);
                let busy = self.behind(now, ws, stream);
                hold(!done || busy, "I49", || {
                    "refused as not truncated, but the stream is truncated".to_owned()
                })
            }
            StreamRefusal::BadName { .. }
            | StreamRefusal::Count { .. }
            | StreamRefusal::TooLarge { .. } => {
                Err(("I36", "a valid commit was refused".to_owned()))
            }
        }
    }

    fn log(&self, ws: &Workspace, stream: &str) -> Option<&Log> {
        self.logs.get(&(ws.clone(), stream.to_owned()))
    }

    fn head(&self, ws: &Workspace, stream: &str) -> i64 {
        self.log(ws, stream).map_or(-1, |log| log.head)
    }

    fn is_met(&self, ws: &Workspace, stream: &str, expected: Expected) -> bool {
        let head = self.head(ws, stream);
        match expected {
            Expected::NoStream => head == -1,
            Expected::Version(version) => version == head,
            Expected::Of(log, version) => {
                version == head && self.log(ws, stream).is_some_and(|it| it.id == log)
            }
        }
    }

    /// Appends events after the head of a stream.
    fn appended(
        &mut self,
        ws: &Workspace,
        stream: &str,
        expected: Option<Expected>,
        count: usize,
        committed: &Committed,
    ) -> Ruled {
        let (log, head) = (self.log(ws, stream).cloned(), self.head(ws, stream));
        hold(log.as_ref().is_none_or(|log| !log.closed), "I49", || {
            "a commit to a closed stream succeeded".to_owned()
        })?;
        let met = expected.is_none_or(|expected| self.is_met(ws, stream, expected));
        hold(met, "I36", || {
            format!("a commit with a wrong expected version succeeded: the head is {head}")
        })?;
        let last = head + i64::try_from(count).unwrap_or(i64::MAX);
        let follows = (committed.first, committed.last) == (head + 1, last)
            && log.is_none_or(|log| log.id == committed.log);
        hold(follows, "I35", || format!("the versions of a commit do not follow the head {head}"))?;
        let position = self.positions.entry(ws.clone()).or_default();
        let positions = *position + 1..=*position + (last - head);
        hold(committed.positions == positions, "I37", || {
            format!("wrong positions of a commit, expected {positions:?}")
        })?;
        *position = *positions.end();
        let first = 0;
        let log = Log { id: committed.log, head: last, closed: false, truncated: false, first };
        self.logs.insert((ws.clone(), stream.to_owned()), log);
        self.find_places(ws, stream, head, None);
        Ok(())
    }

    fn closed(
        &mut self,
        ws: &Workspace,
        stream: &str,
        expected: Option<Expected>,
        closed: &Closed,
    ) -> Ruled {
        let (before, head) = (self.log(ws, stream).cloned(), self.head(ws, stream));
        let was = before.as_ref().is_some_and(|log| log.closed);
        let guard = if was { head } else { head + 1 };
        let fits = (closed.already, closed.guard) == (was, guard);
        hold(fits, "I49", || format!("wrong answer to a close of {before:?}"))?;
        if was {
            return Ok(());
        }
        let met = expected.is_none_or(|expected| self.is_met(ws, stream, expected));
        hold(met, "I36", || {
            format!("a close with a wrong expected version succeeded: the head is {head}")
        })?;
        *self.positions.entry(ws.clone()).or_default() += 1;
        // The answer to a close has no stream number, so that of a new stream is unknown.
        let (id, first) = (before.map_or(Seq(-1), |log| log.id), 0);
        let log = Log { id, head: guard, closed: true, truncated: guard == 0, first };
        self.logs.insert((ws.clone(), stream.to_owned()), log);
        self.find_places(ws, stream, head, None);
        Ok(())
    }

    /// Whether a reaction has not passed the head of a stream, or holds a lease on it.
    fn behind(&self, now: Timestamp, ws: &Workspace, stream: &str) -> bool {
        let head = self.head(ws, stream);
        self.followers(ws, stream).any(|reaction| {
            let key = (ws.clone(), reaction.name.clone(), stream.to_owned());
            match self.places.get(&key) {
                Some(place) => place.at < head || place.holder(now).is_some(),
                None => !reaction.from_head,
            }
        })
    }

    fn truncated(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        stream: &str,
        truncated: &Truncated,
    ) -> Ruled {
        let (behind, head) = (self.behind(now, ws, stream), self.head(ws, stream));
        let log = self.logs.get_mut(&(ws.clone(), stream.to_owned()));
        let Some(log) = log.filter(|log| log.closed) else {
            return Err(("I49", "a stream that is not closed was truncated".to_owned()));
        };
        log.truncated |= matches!(truncated, Truncated::Done(_));
        let waits = matches!(truncated, Truncated::Waits(_));
        if waits {
            self.find_places(ws, stream, head, None);
        }
        hold(behind == waits, "I49", || {
            format!("wrong answer to a truncation, a reaction is behind: {behind}")
        })
    }

    fn restarted(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        stream: &str,
        committed: &Committed,
    ) -> Ruled {
        let (log, busy) = (self.log(ws, stream).cloned(), self.behind(now, ws, stream));
        let done = log.as_ref().is_some_and(|log| log.closed && log.truncated);
        hold(done && !busy, "I49", || {
            format!("a stream that is not truncated was restarted: {log:?}")
        })?;
        let fresh = committed.first == 0 && log.is_none_or(|log| log.id != committed.log);
        hold(fresh, "I35", || "a restarted stream does not begin anew".to_owned())?;
        *self.positions.entry(ws.clone()).or_default() += 1;
        let first = 0;
        let log = Log { id: committed.log, head: 0, closed: false, truncated: false, first };
        self.logs.insert((ws.clone(), stream.to_owned()), log);
        let followers: Vec<String> =
            self.followers(ws, stream).map(|reaction| reaction.name.clone()).collect();
        for reaction in followers {
            let key = (ws.clone(), reaction, stream.to_owned());
            self.places.entry(key).or_insert_with(|| Place::new(0)).rewind(0);
        }
        Ok(())
    }

    fn followers<'a>(&'a self, ws: &Workspace, stream: &str) -> impl Iterator<Item = &'a Reaction> {
        let all = self.reactions.iter().filter(move |((of, _), _)| of == ws);
        all.map(|(_, reaction)| reaction).filter(move |reaction| reaction.source.covers(stream))
    }

    /// Creates the missing subscriptions of reactions to a stream: from its start or, with
    /// `fromHead`, after version `before`.
    fn find_places(&mut self, ws: &Workspace, stream: &str, before: i64, only: Option<&str>) {
        let followers = self.followers(ws, stream);
        let followers = followers.filter(|it| only.is_none_or(|only| only == it.name));
        let found: Vec<(String, i64)> =
            followers.map(|it| (it.name.clone(), if it.from_head { before } else { -1 })).collect();
        let head = self.head(ws, stream);
        for (reaction, at) in found.into_iter().filter(|(_, at)| *at < head) {
            let key = (ws.clone(), reaction, stream.to_owned());
            self.places.entry(key).or_insert_with(|| Place::new(at));
        }
    }

    /// Compares a changed row with the model.
    fn compare(&mut self, delta: &Delta) -> Ruled {
        match (&delta.key, &delta.after) {
            (RowKey::StreamEventRow(stream, version), after) => {
                for log in self.logs.values_mut().filter(|log| log.id == *stream) {
                    log.first = log.first.max(if after.is_none() { version + 1 } else { 0 });
                }
                let changed = delta.before.is_some() && after.is_some();
                hold(!changed, "I35", || format!("a committed event changed: {delta:?}"))
            }
            (RowKey::Stream(ws, name), after) => {
                let Some(Row::Stream(Stream { id, head, closed, .. })) = after else {
                    return Err(("I35", format!("stream `{name}` was deleted")));
                };
                let log = self.logs.get_mut(&(ws.clone(), name.clone()));
                if let Some(log) = log
                    && (log.head, log.closed) == (*head, *closed)
                    && (log.id == *id || log.id == Seq(-1))
                {
                    log.id = *id;
                    return Ok(());
                }
                Err((
                    "I35",
                    format!("the stream {after:?} differs from the model {:?}", self.log(ws, name)),
                ))
            }
            (RowKey::LogHead(ws), Some(Row::LogHead(head))) => {
                let position = self.positions.get(ws).copied().unwrap_or_default();
                hold(head.pos == position, "I37", || {
                    format!("the head {head:?} is not at position {position}")
                })
            }
            (RowKey::Subscription(ws, reaction, stream), Some(Row::Subscription(sub))) => {
                self.compare_place(&(ws.clone(), reaction.clone(), stream.clone()), sub)
            }
            (RowKey::Subscription(..), None) => {
                Err(("I38", format!("a subscription was deleted: {delta:?}")))
            }
            _ => Ok(()),
        }
    }

    fn compare_place(&mut self, key: &PlaceKey, sub: &Subscription) -> Ruled {
        let (head, stepped) = (self.head(&key.0, &key.2), self.stepped);
        hold(sub.want == head, "I50", || {
            format!(
                "the last event of the stream is {head}, but the subscription expects {}",
                sub.want
            )
        })?;
        match self.places.get_mut(key) {
            Some(place) => {
                if stepped {
                    place.cap(sub);
                }
                place.compare(sub)
            }
            None => Err(("I38", format!("a subscription without a reaction: {sub:?}"))),
        }
    }

    /// Returns the blocked subscriptions.
    pub(super) fn blocked(&self) -> Vec<PlaceKey> {
        let blocked = self.places.iter().filter(|(_, place)| place.blocked);
        blocked.map(|(key, _)| key.clone()).collect()
    }

    /// Describes the first subscription that has events left or does not exist.
    pub(super) fn unfinished(&self) -> Option<String> {
        for ((ws, stream), log) in &self.logs {
            for reaction in self.followers(ws, stream) {
                let key = (ws.clone(), reaction.name.clone(), stream.clone());
                match self.places.get(&key) {
                    Some(place) if place.blocked || place.at == log.head => {}
                    // This subscription is created by the next commit to the stream.
                    None if reaction.from_head => {}
                    place => {
                        let what = "subscription has not reached the head of its stream";
                        return Some(format!("{what}: {key:?} is at {place:?}, log {log:?}"));
                    }
                }
            }
        }
        None
    }
}
