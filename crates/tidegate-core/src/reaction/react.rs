//! Effects and ack of a handler in one transaction, so that effects on the same store happen
//! exactly once.

use super::{
    Reaction, ReactionRefusal,
    end::{move_to, within},
    lease::{Lease, held, lock},
};
use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    event::{self, NewEvent, Outcome, Posted},
    request::{self, Request},
    row::Subscription,
    stream::{self, Commit, Committed, NewLogged, to_back},
    time::Timestamp,
};

/// Processed events, and their effects.
#[derive(Clone, Debug, PartialEq)]
pub struct React {
    /// The lease under which the events were processed.
    pub lease: Lease,
    /// The cursor before these events. It shows whether the same report was already written: a
    /// repeated report has no effect.
    pub from: i64,
    /// The version of the last event that was processed completely.
    pub upto: i64,
    /// The effects of the handler, in order: all of them are written or none.
    pub effects: Vec<Effect>,
    /// The next state of the lease.
    pub then: Then,
}

/// Next state of a lease after its holder has advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The lease is renewed: there are more events to process.
    Keep,
    /// The lease is released.
    Free,
}

/// Effect that a handler requests together with its ack.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Events to append to the current end of a stream.
    Commit {
        /// The stream.
        stream: String,
        /// The events to append, in order.
        events: Vec<NewLogged>,
    },
    /// An event for workflows and for waiting runs.
    Send(NewEvent),
    /// The same, but only if a workflow has a stream trigger for the event.
    Trigger(NewEvent),
    /// A call of an action.
    Call(Request),
}

/// Result of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effected {
    /// Result of [`Effect::Commit`].
    Committed(Committed),
    /// Result of [`Effect::Send`], and of [`Effect::Trigger`] if a workflow has a trigger.
    Posted(Posted),
    /// Result of [`Effect::Call`].
    Admitted(Outcome),
    /// Result of [`Effect::Trigger`] if no workflow has a stream trigger for the event.
    Skipped,
}

/// Result of [`react`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reacted {
    /// The version of the last processed event.
    pub at: i64,
    /// When the lease expires, if it was renewed.
    pub until: Option<Timestamp>,
    /// Whether the same report was already written, so that this one had no effect.
    pub already: bool,
    /// The results of the effects, in order.
    pub effects: Vec<Effected>,
}

/// Carries out the effects, advances the cursor, and renews or releases the lease.
///
/// If the lease is lost or one of the effects is refused, the whole command is refused.
pub fn react(draft: &mut Draft, reaction: &Reaction, react: &React) -> Decided<Reacted> {
    lock(draft, [&react.lease])?;
    let before = held(draft, &react.lease)?;
    if let Some(sub) = before.as_ref().filter(|sub| sub.at >= react.upto && sub.at != react.from) {
        return Ok(Reacted { at: sub.at, until: sub.until, already: true, effects: Vec::new() });
    }
    // Done also if the lease is lost, so that a probe, which does not have the lease's row,
    // predicts the same reads.
    let effects = react.effects.iter().map(|effect| carry_out(draft, &react.lease, effect));
    let effects = match (effects.collect::<Decided<Vec<_>>>(), &before) {
        (Err(Stop::Refused(_)) | Ok(_), None) => return lost(&react.lease),
        (effects, _) => effects?,
    };
    // Read again, because the effects may have committed events to this stream.
    let mut sub = match held(draft, &react.lease)? {
        Some(sub) if sub.at == react.from => sub,
        Some(_) | None => return lost(&react.lease),
    };
    within(&sub, react.upto).map_err(|refusal| Stop::Refused(refusal.into()))?;
    move_to(&mut sub, react.upto);
    finish(&mut sub, react.then, reaction, draft.now());
    let (at, until) = (sub.at, sub.until);
    draft.put(sub);
    Ok(Reacted { at, until, already: false, effects })
}

fn finish(sub: &mut Subscription, then: Then, reaction: &Reaction, now: Timestamp) {
    match then {
        Then::Keep => {
            let until = now.plus_ms(reaction.lease_ms);
            sub.until = sub.until.map(|before| before.max(until));
        }
        Then::Free => {
            (sub.owner, sub.until) = (None, None);
            if sub.has_work() {
                to_back(sub, now);
            }
        }
    }
}

fn carry_out(draft: &mut Draft, lease: &Lease, effect: &Effect) -> Decided<Effected> {
    let ws = &lease.ws;
    match effect {
        Effect::Commit { stream, events } => {
            let (stream, events) = (stream.clone(), events.clone());
            let commit = Commit { ws: ws.clone(), stream, events, expected: None };
            let catalog = draft.catalog(ws)?;
            let committed = stream::commit(draft, &commit, catalog.followers());
            committed.map(Effected::Committed).map_err(|stop| match stop {
                Stop::Need(reads) => Stop::Need(reads),
                Stop::Full => Stop::Full,
                Stop::Refused(refusal) => Stop::Refused(refusal.into()),
            })
        }
        Effect::Send(event) => event::post(draft, ws, event).map(Effected::Posted),
        Effect::Trigger(event) if draft.catalog(ws)?.has_stream_trigger(&event.name) => {
            event::post(draft, ws, event).map(Effected::Posted)
        }
        Effect::Trigger(_) => Ok(Effected::Skipped),
        Effect::Call(request) => request::dispatch(draft, ws, request).map(Effected::Admitted),
    }
}

fn lost<T>(lease: &Lease) -> Decided<T> {
    let (reaction, stream) = (lease.reaction.clone(), lease.stream.clone());
    let refusal = ReactionRefusal::Lost { reaction, stream };
    Err(Stop::Refused(Refusal::Reaction(refusal)))
}
