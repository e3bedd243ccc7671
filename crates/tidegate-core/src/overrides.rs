//! Overrides: limits and pauses that operators put in force without a release.
//!
//! An override replaces fields of the limits of one target: one key of a control or of a pool, the
//! keys with a prefix, or all keys (spec L24). Its row is a definition row, so that it is part of the catalog
//! that is cached by epoch: all engines change over with one commit. A row stays after its override
//! has ended, and another target uses it when the maximum is reached. Every change leaves a row of
//! the audit log with the override before and after it, which is the history that `undo` reads.

mod index;
mod purge;
mod target;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::{
    index::Overrides,
    purge::{Purged, purge},
    target::{KeyValue, Limited, Target},
};
use crate::{
    audit::{AuditEntry, Author},
    catalog::Limit,
    command::Refusal,
    draft::{Decided, Draft, Stop},
    flow::fair::MAX_WEIGHT,
    id::Seq,
    json::Payload,
    pool::PoolRefusal,
    reads::Scan,
    row::{
        Chore, Class, Def, Gate, GateKey, GateState, LanePlace, Numbers, Row, RowKey, Work,
        Workspace,
    },
    run::chore,
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Maximum number of overrides of a workspace: all of them are in the memory of every engine.
pub const MAX_OVERRIDES: usize = 10_000;

/// Maximum number of characters of a reason.
pub const MAX_REASON: usize = 500;

/// Number of gates that a transaction marks as due; a chore marks the others.
const MARKED_AT_ONCE: u32 = 256;

/// App of the definition rows of overrides. No user's app begins with `$`.
pub const OVERRIDES: &str = "$overrides";

/// Operation of the audit log for the end of an override that has expired.
const EXPIRE: &str = "expireOverride";

/// Fields that an override replaces; absent ones stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "OverrideFields"))]
#[serde(rename_all = "camelCase")]
pub struct Fields {
    /// The maximum number of runs at the same time, or of arrivals per period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The period in milliseconds, for `throttle` and `rateLimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_ms: Option<u64>,
    /// The maximum number of arrivals at once, for `throttle` and `rateLimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The weight of the target's value of `fair`, from 1 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether first starts of a workflow, or all entries into a pool, are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The time until which the gates of the target are closed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "OptionalTime::serialize"
    )]
    #[cfg_attr(feature = "schemars", schemars(with = "OptionalTime"))]
    pub closed_until: Option<Timestamp>,
}

/// Override in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The target.
    pub target: Target,
    /// The fields.
    #[serde(flatten)]
    pub fields: Fields,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the API key that put the override in force; none without keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When the override was put in force.
    #[serde(serialize_with = "crate::time::rfc3339::Time::serialize")]
    #[cfg_attr(feature = "schemars", schemars(with = "crate::time::rfc3339::Time"))]
    pub at: Timestamp,
    /// When the override ends.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "OptionalTime::serialize"
    )]
    #[cfg_attr(feature = "schemars", schemars(with = "OptionalTime"))]
    pub expires_at: Option<Timestamp>,
}

impl Override {
    /// Returns author, end and reason in words, for explanations.
    pub fn words(&self) -> String {
        let Fields { paused, closed_until, .. } = self.fields;
        let what = match (closed_until, paused) {
            (Some(_), _) => "closed",
            (None, Some(true)) => "paused",
            (None, _) => "overridden",
        };
        let by = self.author.as_ref().map(|author| format!(" by {author}")).unwrap_or_default();
        let until = closed_until.or(self.expires_at);
        let until = until.map(|at| format!(" until {}", at.rfc3339()));
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        format!("{what}{by}{}{}", until.unwrap_or_default(), reason.unwrap_or_default())
    }

    /// Returns the time at which the override, or its `closedUntil`, ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.expires_at.into_iter().chain(self.fields.closed_until).min()
    }

    /// Returns the part of the override that is in force at a time.
    fn left_at(&self, now: Timestamp) -> Option<Self> {
        let mut left = self.clone();
        left.fields.closed_until = left.fields.closed_until.filter(|until| *until > now);
        let over = self.expires_at.is_some_and(|at| at <= now);
        (!over && !left.fields.is_empty()).then_some(left)
    }

    fn to_payload(&self) -> Payload {
        payload(self)
    }
}

/// Body of an override's definition row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverrideRow {
    /// The number of the definition row.
    #[serde(skip)]
    lane: Seq,
    target: Target,
    /// The override; none if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<Arc<Override>>,
    /// The chore that ends the override when it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<Seq>,
}

/// Change of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideChange {
    /// Puts an override in force, in place of the target's last one.
    Set {
        /// The target.
        target: Target,
        /// The fields.
        fields: Fields,
        /// The reason.
        reason: Option<String>,
        /// When the override ends; none means not before it is removed.
        expires_at: Option<Timestamp>,
    },
    /// Ends the override of a target.
    Remove(Target),
    /// Undoes the latest change of a target, by an operator or by an expiry.
    Undo(Target),
}

impl OverrideChange {
    /// Returns the change with its target in the one form in which it is stored.
    fn normal(self) -> Self {
        match self {
            Self::Set { target, fields, reason, expires_at } => {
                Self::Set { target: target.normal(), fields, reason, expires_at }
            }
            Self::Remove(target) => Self::Remove(target.normal()),
            Self::Undo(target) => Self::Undo(target.normal()),
        }
    }

    /// Returns the target.
    pub fn target(&self) -> &Target {
        match self {
            Self::Set { target, .. } | Self::Remove(target) | Self::Undo(target) => target,
        }
    }

    fn operation(&self) -> &'static str {
        match self {
            Self::Set { .. } => "setOverride",
            Self::Remove(_) => "removeOverride",
            Self::Undo(_) => "undoOverride",
        }
    }
}

/// Result of a change of an override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overridden {
    /// The override before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Override>,
    /// The override after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Override>,
    /// The epoch before the change: with it as `ifEpoch` a change is refused if another one of any
    /// override or definition came first.
    pub epoch: i64,
}

/// Reason why a change of an override was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideRefusal {
    /// The target has no gates.
    #[error("override: {0}")]
    BadTarget(String),
    /// A field has a value that is not allowed, or does not belong to the target.
    #[error("override: {0}")]
    BadField(String),
    /// The target has no override.
    #[error("the target has no override: `GET /overrides` lists those in force")]
    NoOverride,
    /// The target has no change that is still in the audit log.
    #[error("the target has no change in the audit log that can be undone: set the override again")]
    NothingToUndo,
    /// The override that an undo would restore has expired.
    #[error("the override before the latest change has expired: set it again with a new end")]
    Expired,
    /// The workspace has the maximum number of overrides.
    #[error("there are already {MAX_OVERRIDES} overrides, which is the maximum: remove one first")]
    TooMany,
    /// Definitions or overrides have changed since the epoch of the caller.
    #[error(
        "definitions or overrides have changed: the epoch is {now}, not {expected}; look again"
    )]
    EpochChanged {
        /// The epoch of the caller.
        expected: i64,
        /// The current epoch.
        now: i64,
    },
}

impl OverrideRefusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadTarget(_) => "bad_target",
            Self::BadField(_) => "bad_override",
            Self::NoOverride => "no_override",
            Self::NothingToUndo => "nothing_to_undo",
            Self::Expired => "override_expired",
            Self::TooMany => "too_many_overrides",
            Self::EpochChanged { .. } => "epoch_changed",
        }
    }
}

fn refused<T>(refusal: OverrideRefusal) -> Decided<T> {
    Err(Stop::Refused(refusal.into()))
}

/// Changes the override of a target.
pub fn change(
    draft: &mut Draft,
    ws: &Workspace,
    change: &OverrideChange,
    by: &Author,
    if_epoch: Option<i64>,
) -> Decided<Overridden> {
    let change = &change.clone().normal();
    let catalog = draft.definitions(ws)?;
    let epoch = catalog.epoch;
    check_epoch(epoch, if_epoch)?;
    let (target, after) = match change {
        OverrideChange::Set { target, fields, reason, expires_at } => {
            check_target(draft, ws, target)?;
            check_fields(draft, ws, target, fields)?;
            check_end(draft, reason.as_deref(), *expires_at)?;
            let (author, at) = (by.name.clone(), draft.now());
            let (reason, expires_at) = (reason.clone(), *expires_at);
            let (target, fields) = (target.clone(), *fields);
            (target.clone(), Some(Override { target, fields, reason, author, at, expires_at }))
        }
        OverrideChange::Remove(target) => {
            if catalog.overrides().row(target).is_none_or(|row| row.over.is_none()) {
                return refused(OverrideRefusal::NoOverride);
            }
            (target.clone(), None)
        }
        OverrideChange::Undo(target) => (target.clone(), before_latest(draft, ws, target)?),
    };
    let before = put(draft, ws, &target, after.clone())?;
    log(draft, ws, &target, change.operation(), by, (before.as_ref(), after.as_ref()))?;
    Ok(Overridden { before, after, epoch })
}

fn check_epoch(now: i64, if_epoch: Option<i64>) -> Decided<()> {
    match if_epoch.filter(|expected| *expected != now) {
        Some(expected) => refused(OverrideRefusal::EpochChanged { expected, now }),
        None => Ok(()),
    }
}

/// Returns the override that was in force before the latest change of a target.
fn before_latest(draft: &Draft, ws: &Workspace, target: &Target) -> Decided<Option<Override>> {
    let scan = Scan::AuditOf(ws.clone(), target.subject(), Seq(i64::MAX));
    let found = draft.found(&scan, 1)?;
    let Some(Row::Audit(latest)) = found.first() else {
        return refused(OverrideRefusal::NothingToUndo);
    };
    let before = latest.before.as_ref().map(|before| serde_json::from_str(before.as_str()));
    let before: Option<Override> = before
        .transpose()
        .map_err(|error| Stop::Refused(Refusal::Unreadable(error.to_string())))?;
    let Some(before) = before else { return Ok(None) };
    match before.left_at(draft.now()) {
        Some(left) => Ok(Some(left)),
        None => refused(OverrideRefusal::Expired),
    }
}

fn check_target(draft: &Draft, ws: &Workspace, target: &Target) -> Decided<()> {
    if let Some(problem) = target.form_problem() {
        return refused(OverrideRefusal::BadTarget(problem));
    }
    let catalog = draft.definitions(ws)?;
    if let Some(name) = &target.pool {
        let Some(pool) = catalog.pools().get(name) else {
            return Err(Stop::Refused(PoolRefusal::unknown(catalog.pools(), name).into()));
        };
        return match target.pool_problem(pool) {
            Some(problem) => refused(OverrideRefusal::BadTarget(problem)),
            None => Ok(()),
        };
    }
    let entry = catalog.entry(&target.app, &target.workflow);
    let Some(current) = entry.and_then(|entry| entry.current.as_ref()) else {
        let (app, name) = (target.app.clone(), target.workflow.clone());
        return Err(Stop::Refused(Refusal::NoWorkflow { app, name }));
    };
    match target.problem(&current.workflow) {
        Some(problem) => refused(OverrideRefusal::BadTarget(problem)),
        None => Ok(()),
    }
}

/// Checks that the fields belong to the target and have values that a definition could have.
fn check_fields(draft: &Draft, ws: &Workspace, target: &Target, fields: &Fields) -> Decided<()> {
    let bad = |problem: String| refused(OverrideRefusal::BadField(problem));
    let word = target.word();
    let valued = target.value.is_some();
    let rated = matches!(target.control, Some(Limited::Throttle | Limited::RateLimit)) && !valued;
    let closes = target.control != Some(Limited::RateLimit) && !valued;
    let given = [
        ("limit", fields.limit.is_some(), target.control.is_some() && !valued),
        ("perMs", fields.per_ms.is_some(), rated),
        ("burst", fields.burst.is_some(), rated),
        ("weight", fields.weight.is_some(), valued),
        ("paused", fields.paused.is_some(), target.control.is_none()),
        ("closedUntil", fields.closed_until.is_some(), closes),
    ];
    if let Some((name, ..)) = given.iter().find(|(_, given, allowed)| *given && !allowed) {
        let fix = match target.pool {
            Some(_) => "leave out `control` to pause all entries into the pool",
            None => "leave out `control` to pause the first starts of runs",
        };
        return bad(match *name {
            "paused" => format!("`paused` does not belong to `{word}`: {fix}"),
            "weight" => "`weight` needs `value` in the target: the value of `fair.by`".to_owned(),
            name if valued => {
                format!("`{name}` does not belong to a `value`, which has only a `weight`")
            }
            name => format!("`{name}` does not belong to `{word}`"),
        });
    }
    let names = given.iter().filter(|(_, _, allowed)| *allowed).map(|(name, ..)| *name);
    if given.iter().all(|(_, given, _)| !given) {
        let names: Vec<&str> = names.collect();
        return bad(format!("give at least one of {}", names.join(", ")));
    }
    let zero = [
        ("limit", fields.limit == Some(0)),
        ("perMs", fields.per_ms == Some(0)),
        ("burst", fields.burst == Some(0)),
    ];
    if let Some((name, _)) = zero.iter().find(|(_, zero)| *zero) {
        return bad(format!("{name} must be at least 1, got 0; use `paused` to start no runs"));
    }
    if let Some(weight) = fields.weight.filter(|it| !(1..=MAX_WEIGHT).contains(it)) {
        return bad(format!("weight must be from 1 to {MAX_WEIGHT}, got {weight}"));
    }
    if let Some(at) = fields.closed_until.filter(|at| *at <= draft.now()) {
        let (at, now) = (at.rfc3339(), draft.now().rfc3339());
        return bad(format!("closedUntil must be in the future, got {at}; it is {now}"));
    }
    let scope = target.scope(ws);
    let catalog = draft.definitions(ws)?;
    if valued && catalog.fair(&scope).is_none() {
        let (_, name) = target.owner();
        let problem =
            format!("the {word} of `{name}` has no `fair`, so its values have no weights");
        return refused(OverrideRefusal::BadTarget(problem));
    }
    let follows = matches!(scope.class, Class::RateLimit | Class::PoolRateLimit);
    for numbers in [Numbers::Lowest, Numbers::Highest] {
        if let Limit::Rates(rates) = catalog.defined_limit(&scope, numbers)
            && let Some(rate) = rates.get(target.position as usize)
            && let Some(problem) = fields.rate(*rate, follows).problem()
        {
            return bad(format!("burst {problem}"));
        }
    }
    Ok(())
}

fn check_end(draft: &Draft, reason: Option<&str>, expires_at: Option<Timestamp>) -> Decided<()> {
    let length = reason.map_or(0, |reason| reason.chars().count());
    if length > MAX_REASON {
        let problem = format!("reason must have at most {MAX_REASON} characters, got {length}");
        return refused(OverrideRefusal::BadField(problem));
    }
    if let Some(at) = expires_at.filter(|at| *at <= draft.now()) {
        let (at, now) = (at.rfc3339(), draft.now().rfc3339());
        let problem = format!("expiresAt must be in the future, got {at}; it is {now}");
        return refused(OverrideRefusal::BadField(problem));
    }
    Ok(())
}

/// Writes the row of a target, and returns its override before that. Marks the gates whose limit
/// may have become higher.
fn put(
    draft: &mut Draft,
    ws: &Workspace,
    target: &Target,
    after: Option<Override>,
) -> Decided<Option<Override>> {
    let catalog = draft.definitions(ws)?;
    let overrides = catalog.overrides();
    let row = overrides.row(target);
    let before = row.and_then(|row| row.over.as_deref().cloned());
    if after.is_some() && before.is_none() && overrides.len() >= MAX_OVERRIDES {
        return refused(OverrideRefusal::TooMany);
    }
    if let Some(expiry) = row.and_then(|row| row.expiry)
        && draft.row::<Refusal>(&RowKey::Chore(expiry))?.is_some()
    {
        draft.delete(RowKey::Chore(expiry));
    }
    let lane = match row.map(|row| row.lane).or_else(|| overrides.unused(MAX_OVERRIDES)) {
        Some(lane) => {
            draft.row::<Refusal>(&RowKey::Def(lane))?;
            lane
        }
        None => draft.next_seq()?,
    };
    let expiry = match after.as_ref().and_then(Override::next_end) {
        Some(at) => Some(expire_at(draft, ws, lane, at)?),
        None => None,
    };
    mark(draft, ws, target, target.ranges(ws))?;
    if target.is_of_starts() && may_pause(before.as_ref(), after.as_ref()) {
        let work = Work::HoldBack { target: target.clone(), from: LanePlace::FIRST };
        chore::leave(draft, ws, None, work)?;
    }
    let row = OverrideRow { lane, target: target.clone(), over: after.map(Arc::new), expiry };
    // The name has no meaning; it has to be different for every row.
    let (app, name, body) = (OVERRIDES.to_owned(), lane.to_string(), payload(&row));
    let (ws, version) = (ws.clone(), crate::catalog::RETIRED);
    let (released, assigned, deployed) = (None, None, false);
    draft.define(Def { lane, ws, app, name, version, body, released, assigned, deployed })?;
    Ok(before)
}

/// Whether a change of an override may pause runs that were not paused before.
fn may_pause(before: Option<&Override>, after: Option<&Override>) -> bool {
    let closing = |it: Option<&Override>| it.and_then(|it| it.fields.closing());
    match (closing(before), closing(after)) {
        (before, Some(true)) => before != Some(true),
        // The end of an exception from a pause.
        (before, None) => before == Some(false),
        (_, Some(false)) => false,
    }
}

fn payload(value: &impl Serialize) -> Payload {
    let value = serde_json::to_value(value).expect("an override is serializable");
    Payload::from_value(&value)
}

fn expire_at(draft: &mut Draft, ws: &Workspace, lane: Seq, at: Timestamp) -> Decided<Seq> {
    let id = draft.new_chore_id()?;
    let work = Work::ExpireOverride { lane };
    draft.put(Chore { id, ws: ws.clone(), topic: None, due: Some(at), work });
    Ok(id.seq)
}

fn log(
    draft: &mut Draft,
    ws: &Workspace,
    target: &Target,
    operation: &str,
    by: &Author,
    (before, after): (Option<&Override>, Option<&Override>),
) -> Decided<()> {
    let (operation, subject) = (operation.to_owned(), target.subject());
    let (before, after) = (before.map(Override::to_payload), after.map(Override::to_payload));
    let (ws, by) = (ws.clone(), by.clone());
    AuditEntry { ws, by, operation, subject, before, after }.write(draft)
}

/// Ends an override that has expired, or its `closedUntil`, if the chore is still the one that does
/// it. Returns whether the chore is done.
pub(crate) fn expire(draft: &mut Draft, chore: &Chore, lane: Seq) -> Decided<bool> {
    let catalog = draft.definitions(&chore.ws)?;
    let row = catalog.overrides().row_at(lane).filter(|row| row.expiry == Some(chore.id.seq));
    let Some((row, over)) = row.and_then(|row| Some((row, row.over.clone()?))) else {
        return Ok(true);
    };
    if over.next_end().is_some_and(|at| at > draft.now()) {
        return Ok(false); // the clock has stepped back
    }
    let left = over.left_at(draft.now());
    put(draft, &chore.ws, &row.target, left.clone())?;
    let nobody = Author::default();
    log(draft, &chore.ws, &row.target, EXPIRE, &nobody, (Some(&over), left.as_ref()))?;
    Ok(true)
}

/// Marks the gates of a target for which runs or folds wait as due, so that the sweep admits runs by the new
/// limit. A chore continues where one transaction is not enough.
pub(crate) fn mark(
    draft: &mut Draft,
    ws: &Workspace,
    target: &Target,
    ranges: Vec<(GateKey, GateKey)>,
) -> Decided<()> {
    let left = mark_some(draft, target, ranges)?;
    if !left.is_empty() {
        let work = Work::MarkGates { target: target.clone(), ranges: left };
        chore::leave(draft, ws, None, work)?;
    }
    Ok(())
}

/// Marks the first gates of the ranges, and returns the ranges that are left.
pub(crate) fn mark_some(
    draft: &mut Draft,
    target: &Target,
    ranges: Vec<(GateKey, GateKey)>,
) -> Decided<Vec<(GateKey, GateKey)>> {
    let mut left = Vec::new();
    for (from, to) in ranges {
        let scan = Scan::GatesBetween(from.as_bytes().to_vec(), to.as_bytes().to_vec());
        let found = draft.found(&scan, MARKED_AT_ONCE)?;
        let full = found.len() >= MARKED_AT_ONCE as usize;
        let last = found.iter().rev().find_map(|row| row.as_gate()).map(|gate| &gate.key);
        if let Some(last) = last.filter(|_| full) {
            left.push((GateKey::from_bytes(&[last.as_bytes(), &[0]].concat()), to.clone()));
        }
        let here = draft.written(RowKey::Gate(from), RowKey::Gate(to));
        let gates = found.into_iter().chain(here).filter_map(Row::as_gate);
        let meant = gates.filter(|gate| {
            let scope = gate.key.scope();
            is_awaited(gate) && scope.is_some_and(|scope| target.is_in(&scope))
        });
        let keys: Vec<GateKey> = meant.map(|gate| gate.key.clone()).collect();
        for key in keys {
            if let Some(gate) = draft.gate::<Refusal>(&key)?.filter(|gate| is_awaited(gate)) {
                let gate = Gate { due: Some(draft.now()), ..gate.clone() };
                draft.put(gate);
            }
        }
    }
    Ok(left)
}

/// Whether runs or folds wait for the gate.
fn is_awaited(gate: &Gate) -> bool {
    match &gate.state {
        GateState::Slots(slots) => slots.head.is_some() || !slots.folds.is_empty(),
        GateState::Turns(turns) => turns.head.is_some(),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {
            false
        }
    }
}
