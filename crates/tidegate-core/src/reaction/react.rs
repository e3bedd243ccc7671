//! What a handler did and that it is done, in one go: effects and ack are kept together or not at
//! all, so that effects on the same store happen exactly once.

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

/// Events that were handled, and what comes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct React {
    /// The lease under which they were.
    pub lease: Lease,
    /// Where the place was before: a repeat of what was kept already changes nothing.
    pub from: i64,
    /// The last event fully handled.
    pub upto: i64,
    /// What the handlers want, in order: all of it or none.
    pub effects: Vec<Effect>,
    /// What becomes of the lease.
    pub then: Then,
}

/// What becomes of a lease after its holder has moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is renewed: there are more events at hand.
    Keep,
    /// It is freed.
    Free,
}

/// Something that a handler wants to happen with its ack.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Events to append to the end of a stream, whatever that is by now.
    Commit {
        /// The stream.
        stream: String,
        /// What to append, in order.
        events: Vec<NewLogged>,
    },
    /// An event for workflows and for those who wait.
    Send(NewEvent),
    /// The same, unless no workflow has a stream trigger for it: then nothing.
    Trigger(NewEvent),
    /// A call of an action.
    Call(Request),
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effected {
    /// Of a commit.
    Committed(Committed),
    /// Of an event.
    Posted(Posted),
    /// Of a call.
    Admitted(Outcome),
    /// Of an event that triggers nothing.
    Skipped,
}

/// What became of events that were handled.
#[derive(Clone, Debug, PartialEq)]
pub struct Reacted {
    /// The version that the place is at.
    pub at: i64,
    /// When the lease ends, if it was kept.
    pub until: Option<Timestamp>,
    /// It was kept before: nothing has changed now.
    pub already: bool,
    /// What became of the effects, in order.
    pub effects: Vec<Effected>,
}

/// Carries out the effects, moves the place forward, and keeps or frees the lease.
///
/// Refused as a whole where the lease is lost or one of the effects is refused.
pub fn react(draft: &mut Draft, reaction: &Reaction, react: &React) -> Decided<Reacted> {
    lock(draft, [&react.lease])?;
    let before = held(draft, &react.lease)?;
    if let Some(sub) = before.as_ref().filter(|sub| sub.at >= react.upto && sub.at != react.from) {
        return Ok(Reacted { at: sub.at, until: sub.until, already: true, effects: Vec::new() });
    }
    // Also under a lease that is lost: what a command reads must not depend on what it finds.
    let effects = react.effects.iter().map(|effect| carry_out(draft, &react.lease, effect));
    let effects = match (effects.collect::<Decided<Vec<_>>>(), &before) {
        (Err(Stop::Refused(_)) | Ok(_), None) => return lost(&react.lease),
        (effects, _) => effects?,
    };
    // As the effects have left it: they may have given this very place more work.
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
