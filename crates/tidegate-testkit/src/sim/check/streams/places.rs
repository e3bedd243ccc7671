//! Subscriptions of reactions in the model of streams.

use tidegate_core::{
    command::{Refusal, StreamAnswer, StreamCommand},
    reaction::{
        Claimed, Failed, Failure, Lease, Leased, Outcome, React, Reacted, ReactionRefusal, Remedy,
        Repair, StreamSelection, Then,
    },
    row::{EngineId, Subscription, Workspace},
    time::Timestamp,
};

use super::{PlaceKey, Ruled, StreamModel, hold};

/// A reaction's subscription to one stream.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub at: i64,
    pub blocked: bool,
    owner: Option<EngineId>,
    until: Option<Timestamp>,
    fence: i64,
    due: Option<Timestamp>,
    failures: u32,
    claims: u32,
    /// The last event that the handler has finished, under any lease.
    handled: i64,
    /// Number of consecutive claims in which the subscription was claimable and not claimed.
    passed: usize,
}

impl Place {
    pub(super) fn new(at: i64) -> Self {
        Self {
            at,
            blocked: false,
            owner: None,
            until: None,
            fence: 0,
            due: None,
            failures: 0,
            claims: 0,
            handled: at,
            passed: 0,
        }
    }

    /// Returns the holder of a lease that has not expired.
    pub(super) fn holder(&self, now: Timestamp) -> Option<EngineId> {
        self.owner.filter(|_| self.until.is_some_and(|until| until > now))
    }

    fn is_held(&self, now: Timestamp, lease: &Lease) -> bool {
        self.holder(now) == Some(lease.engine) && self.fence == lease.fence
    }

    fn is_claimable(&self, now: Timestamp, head: i64) -> bool {
        self.may_be_claimed(now, head, false)
    }

    /// As [`Self::is_claimable`]. After a step of the clock, the due time is ignored, because the
    /// claim may have capped it.
    fn may_be_claimed(&self, now: Timestamp, head: i64, stepped: bool) -> bool {
        self.at < head
            && !self.blocked
            && self.holder(now).is_none()
            && (stepped || self.due.is_none_or(|due| due <= now))
    }

    /// Resets the subscription to a version and clears its failures; the current lease becomes
    /// invalid.
    pub(super) fn rewind(&mut self, at: i64) {
        self.fence += i64::from(self.owner.is_some());
        (self.at, self.handled) = (at, at);
        (self.due, self.failures, self.claims, self.blocked) = (None, 0, 0, false);
    }

    /// Moves the subscription forward to a handled event.
    fn moved(&mut self, upto: i64) -> Ruled {
        let (at, handled) = (self.at, self.handled);
        hold(upto <= handled.max(at), "I38", || {
            format!("an ack beyond the last handled event, {handled}")
        })?;
        if upto > self.at {
            (self.at, self.failures, self.claims) = (upto, 0, 0);
        }
        Ok(())
    }

    /// Ends the lease.
    fn freed(&mut self) {
        (self.owner, self.until, self.passed) = (None, None, 0);
    }

    /// Takes the times of the row if a claim has capped them after a step back of the clock: they
    /// may only become earlier.
    pub(super) fn cap(&mut self, sub: &Subscription) {
        let earlier = |capped: Option<Timestamp>, time: Option<Timestamp>| {
            capped.is_some() == time.is_some() && capped <= time
        };
        if earlier(sub.until, self.until) && earlier(sub.due, self.due) {
            (self.until, self.due) = (sub.until, sub.due);
        }
    }

    /// Compares a row with the model.
    pub(super) fn compare(&self, sub: &Subscription) -> Ruled {
        let text = || format!("the row {sub:?} differs from the model {self:?}");
        hold(
            (sub.at, sub.failures, sub.claims) == (self.at, self.failures, self.claims),
            "I38",
            text,
        )?;
        let lease = (sub.owner, sub.until, sub.fence);
        let waits = (sub.due, sub.blocked.is_some());
        let same =
            lease == (self.owner, self.until, self.fence) && waits == (self.due, self.blocked);
        hold(same, "I39", text)
    }
}

fn key(lease: &Lease) -> PlaceKey {
    (lease.ws.clone(), lease.reaction.clone(), lease.stream.clone())
}

impl StreamModel {
    /// Records an event that a handler has finished; its process may have lost the lease without
    /// knowing.
    pub(in crate::sim::check) fn handled(&mut self, leased: &Leased, version: i64) -> Ruled {
        let lease = &leased.lease;
        // Under a lost lease, a handled event does not count. An expired lease is not ignored: it
        // may become valid again when the clock steps back.
        let is_last =
            |place: &&mut Place| place.owner == Some(lease.engine) && place.fence == lease.fence;
        let place = self.places.get_mut(&key(lease)).filter(is_last);
        let Some(place) = place else { return Ok(()) };
        // After a truncation, a reset subscription continues with the oldest event that is left.
        let log = self.logs.get(&(lease.ws.clone(), lease.stream.clone()));
        let first = log.map_or(0, |log| log.first);
        let handled = place.handled;
        hold(version <= (handled + 1).max(first), "I38", || {
            format!("{lease:?} skipped events: version {version} was delivered after {handled}")
        })?;
        place.handled = handled.max(version);
        Ok(())
    }

    /// Applies the answer to a command on subscriptions.
    pub(super) fn answered_place(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        command: &StreamCommand,
        answer: &StreamAnswer,
    ) -> Ruled {
        match (command, answer) {
            (StreamCommand::Claim { reaction, engine, limit }, StreamAnswer::Claimed(claimed)) => {
                self.claimed(now, ws, reaction, (*engine, *limit), claimed)
            }
            (StreamCommand::Renew { leases, .. }, StreamAnswer::Renewed(outcomes)) => {
                leases.iter().zip(outcomes).try_for_each(|(lease, outcome)| {
                    let Outcome::Done(until) = outcome else { return self.lost(now, lease) };
                    self.held(now, lease)?.until = Some(*until);
                    Ok(())
                })
            }
            (StreamCommand::Ack(acks), StreamAnswer::At(outcomes)) => {
                let mut both = acks.iter().zip(outcomes);
                both.try_for_each(|(ack, outcome)| {
                    self.ended(now, &ack.lease, ack.upto, *outcome).map(|_| ())
                })
            }
            (StreamCommand::Fail { lease, failure }, StreamAnswer::Failed(outcome)) => {
                self.failed(now, lease, failure, outcome)
            }
            (StreamCommand::Block { lease, done_upto, .. }, StreamAnswer::At(outcomes)) => {
                if let Some(place) = self.ended(now, lease, *done_upto, outcomes[0])? {
                    (place.claims, place.blocked) = (0, true);
                }
                Ok(())
            }
            (StreamCommand::Defer { lease, done_upto, until }, StreamAnswer::At(outcomes)) => {
                if let Some(place) = self.ended(now, lease, *done_upto, outcomes[0])? {
                    (place.claims, place.due) = (0, Some(*until));
                }
                Ok(())
            }
            (StreamCommand::Repair { repair, streams }, StreamAnswer::Repaired(repaired)) => {
                self.repaired(now, repair, streams, repaired)
            }
            _ => Err(("I38", "an answer to something else".to_owned())),
        }
    }

    pub(super) fn refused_place(
        &self,
        now: Timestamp,
        ws: &Workspace,
        command: &StreamCommand,
        refusal: &Refusal,
    ) -> Ruled {
        match refusal {
            Refusal::NoReaction(name) => {
                let known = self.reactions.contains_key(&(ws.clone(), name.clone()));
                hold(!known, "I38", || "it is defined".to_owned())
            }
            Refusal::Reaction(ReactionRefusal::Beyond { stream, upto, .. }) => {
                hold(*upto > self.head(ws, stream), "I38", || "it is committed".to_owned())
            }
            Refusal::Reaction(ReactionRefusal::Lost { .. }) => match command {
                StreamCommand::React(react) => {
                    let moved = self.places.get(&key(&react.lease)).map(|it| it.at);
                    if moved == Some(react.from) { self.lost(now, &react.lease) } else { Ok(()) }
                }
                _ => Ok(()),
            },
            _ => Err(("I38", "nothing is wrong with it".to_owned())),
        }
    }

    /// Returns the subscription of a valid lease.
    fn held(
        &mut self,
        now: Timestamp,
        lease: &Lease,
    ) -> Result<&mut Place, (&'static str, String)> {
        match self.places.get_mut(&key(lease)) {
            Some(place) if place.is_held(now, lease) => Ok(place),
            place => Err((
                "I39",
                format!("an invalid lease was accepted at {now}: {lease:?}, {place:?}"),
            )),
        }
    }

    fn lost(&self, now: Timestamp, lease: &Lease) -> Ruled {
        let good = self.places.get(&key(lease)).is_some_and(|place| place.is_held(now, lease));
        hold(!good, "I39", || format!("a valid lease was refused as lost at {now}: {lease:?}"))
    }

    /// Ends a lease by its holder. Returns the subscription, or `None` if the lease was lost.
    fn ended(
        &mut self,
        now: Timestamp,
        lease: &Lease,
        upto: i64,
        outcome: Outcome<i64>,
    ) -> Result<Option<&mut Place>, (&'static str, String)> {
        let Outcome::Done(at) = outcome else { return self.lost(now, lease).map(|()| None) };
        let place = self.held(now, lease)?;
        let wanted = upto.max(place.at);
        hold(at == wanted, "I38", || format!("the subscription must be at {wanted}"))?;
        place.moved(upto)?;
        place.freed();
        Ok(Some(place))
    }

    fn claimed(
        &mut self,
        now: Timestamp,
        ws: &Workspace,
        reaction: &str,
        (engine, limit): (EngineId, u32),
        claimed: &Claimed,
    ) -> Ruled {
        let Some(rules) = self.reactions.get(&(ws.clone(), reaction.to_owned())).cloned() else {
            return Err(("I39", "a claim for an unknown reaction succeeded".to_owned()));
        };
        let (until, stepped) = (now.plus_ms(rules.lease_ms), self.stepped);
        for leased in &claimed.leased {
            let head = self.head(ws, &leased.lease.stream);
            let place = self.places.get_mut(&key(&leased.lease));
            let Some(place) = place.filter(|place| place.may_be_claimed(now, head, stepped)) else {
                return Err(("I39", format!("claimed at {now}, but not claimable: {leased:?}")));
            };
            let fits = (leased.at, leased.want) == (place.at, head);
            hold(fits, "I38", || {
                format!("the lease {leased:?} differs from {place:?} with the head {head}")
            })?;
            let fresh = leased.lease.fence > place.fence && leased.lease.engine == engine;
            let fresh = fresh && leased.until == until && place.claims < rules.max_lost_leases;
            hold(fresh, "I39", || {
                format!(
                    "wrong fence, engine, expiry or number of claims: {leased:?} after {place:?}"
                )
            })?;
            (place.owner, place.until, place.fence) =
                (Some(engine), Some(until), leased.lease.fence);
            (place.due, place.claims, place.passed) = (None, place.claims + 1, 0);
        }
        for blocked in &claimed.blocked {
            let name = (ws.clone(), reaction.to_owned(), blocked.stream.clone());
            let head = self.head(ws, &blocked.stream);
            let place = self.places.get_mut(&name);
            let place = place.filter(|place| place.may_be_claimed(now, head, stepped));
            let Some(place) = place.filter(|place| place.claims >= rules.max_lost_leases) else {
                return Err((
                    "I39",
                    format!(
                        "blocked by a claim, but not at the maximum of lost leases: {blocked:?}"
                    ),
                ));
            };
            place.freed();
            (place.due, place.blocked) = (None, true);
        }
        let taken = claimed.leased.len() + claimed.blocked.len() + claimed.capped_ms.len();
        self.passed_over(now, ws, reaction, taken < limit as usize)
    }

    /// Checks that a claim with room left out no claimable subscription, and that none is left out
    /// for ever.
    fn passed_over(&mut self, now: Timestamp, ws: &Workspace, reaction: &str, room: bool) -> Ruled {
        let of = |key: &PlaceKey| key.0 == *ws && key.1 == reaction;
        let others = self.places.keys().filter(|key| of(key)).count();
        let (logs, stepped) = (&self.logs, self.stepped);
        for (key, place) in self.places.iter_mut().filter(|(key, _)| of(key)) {
            let head = logs.get(&(key.0.clone(), key.2.clone())).map_or(-1, |log| log.head);
            if !place.is_claimable(now, head) {
                place.passed = 0;
                continue;
            }
            place.passed += 1;
            let bounded = !room && (stepped || place.passed <= others);
            hold(bounded, "I40", || format!("{key:?} was not claimed at {now}: {place:?}"))?;
        }
        Ok(())
    }

    pub(super) fn reacted(&mut self, now: Timestamp, react: &React, reacted: &Reacted) -> Ruled {
        let lease_ms = self
            .reactions
            .get(&(react.lease.ws.clone(), react.lease.reaction.clone()))
            .map_or(0, |reaction| reaction.lease_ms);
        let place = self.held(now, &react.lease)?;
        if reacted.already {
            let again = place.at >= react.upto && place.at != react.from;
            let still = reacted.effects.is_empty() && reacted.at == place.at;
            return hold(again && still, "I38", || {
                "a report was answered as a repeat, but was not handled before".to_owned()
            });
        }
        hold(place.at == react.from, "I38", || {
            format!("the report does not start at the position of {place:?}")
        })?;
        let wanted = react.upto.max(place.at);
        hold(reacted.at == wanted, "I38", || format!("the subscription must be at {wanted}"))?;
        place.moved(react.upto)?;
        match react.then {
            Then::Free => place.freed(),
            Then::Keep => place.until = place.until.max(Some(now.plus_ms(lease_ms))),
        }
        hold(reacted.until == place.until, "I39", || {
            format!(
                "the answer says that the lease ends at {:?}, not at {:?}",
                reacted.until, place.until
            )
        })
    }

    fn failed(
        &mut self,
        now: Timestamp,
        lease: &Lease,
        failure: &Failure,
        outcome: &Outcome<Failed>,
    ) -> Ruled {
        let Outcome::Done(failed) = outcome else { return self.lost(now, lease) };
        let rules = self.reactions.get(&(lease.ws.clone(), lease.reaction.clone())).cloned();
        let Some(rules) = rules else {
            return Err(("I38", "a failure of an unknown reaction was accepted".to_owned()));
        };
        let (Failed::Retry { at, .. } | Failed::Blocked { at, .. }) = failed;
        let done = Outcome::Done(*at);
        let Some(place) = self.ended(now, lease, failure.done_upto, done)? else { return Ok(()) };
        (place.failures, place.claims) = (place.failures + 1, 0);
        let over = !failure.retryable || place.failures > rules.max_retries;
        place.blocked = rules.block_on_error && over;
        let (failures, is_blocked) = (place.failures, place.blocked);
        let fits = match failed {
            Failed::Blocked { .. } => is_blocked,
            Failed::Retry { failures: counted, due, .. } => {
                let backoff = rules.backoff.map(|it| it.wait_ms(failures, failure.chance));
                let wait = failure.wait_ms.or(backoff).map(|ms| now.plus_ms(ms));
                place.due = *due;
                !is_blocked && *counted == failures && *due == wait
            }
        };
        hold(fits, "I38", || {
            format!("wrong answer to a failure, after {failures} failures in a row")
        })
    }

    fn repaired(
        &mut self,
        now: Timestamp,
        repair: &Repair,
        streams: &[String],
        repaired: &[String],
    ) -> Ruled {
        let mut meant = Vec::new();
        for stream in streams {
            let key = (repair.ws.clone(), repair.follower.reaction.clone(), stream.clone());
            let Some(place) = self.places.get_mut(&key) else { continue };
            let wanted = match &repair.which {
                StreamSelection::Names(names) => names.contains(stream),
                StreamSelection::Where(filter) => {
                    filter.blocked.is_none_or(|it| it == place.blocked)
                }
                StreamSelection::All => true,
            };
            let fits = match repair.remedy {
                Remedy::Unblock => place.blocked,
                Remedy::Reset => true,
                Remedy::Defer(_) | Remedy::Prioritize => place.holder(now).is_none(),
            };
            if !wanted || !fits || meant.contains(stream) {
                continue;
            }
            match repair.remedy {
                Remedy::Unblock => {
                    let handled = place.handled;
                    place.rewind(place.at);
                    place.handled = handled;
                }
                Remedy::Reset => place.rewind(-1),
                Remedy::Defer(until) => place.due = Some(until),
                Remedy::Prioritize => {}
            }
            meant.push(stream.clone());
        }
        // A repair changes the order of claims, so the counts start again.
        let ws = repair.ws.clone();
        let of = |key: &PlaceKey| key.0 == ws && key.1 == repair.follower.reaction;
        self.places.iter_mut().filter(|(key, _)| of(key)).for_each(|(_, it)| it.passed = 0);
        meant.sort_unstable();
        hold(meant == repaired, "I38", || {
            format!("wrong streams were repaired, expected {meant:?}")
        })
    }
}
