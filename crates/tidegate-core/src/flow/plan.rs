//! Which gates a run has to pass: every control spelled in the four primitives (spec controls).

use std::cell::OnceCell;

use super::{
    By,
    concurrency::{Concurrency, Span as Kept},
    handoff::{HandoffScope, OnNewVersion},
    policy::{Policy, PolicyKey, PolicyKind},
    singleton::Mode,
    verdict::Verdict,
};
use crate::{
    catalog::Current,
    definition::{Definition, Overlap},
    draft::{Decided, Stop},
    id::{EventId, RunId},
    json::Payload,
    key::{Key, Path},
    row::{Class, GateKey, Parent, PlannedGate, Scope, Span, Workspace},
    time::Timestamp,
};

/// Which way an input came in; it decides which controls it passes (spec A5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A posted event, a stream's event or a request: passes everything.
    Arrival,
    /// As [`Origin::Arrival`], for a run that starts when others have ended.
    After {
        /// Those.
        runs: Vec<RunId>,
        /// Whether it starts even if none of them completes.
        wanted: bool,
    },
    /// A schedule's occurrence: no idempotency, no rate limit, no folds.
    Cron {
        /// The schedule.
        schedule: String,
        /// What it does while its last run is not over.
        overlap: Overlap,
    },
    /// A parent's call: as [`Origin::Cron`].
    Invoke,
    /// A new go at a run that has ended: gates, throttle and handoff only.
    Replay(ReplayOf),
}

/// What a new go at a run takes over from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOf {
    /// The run.
    pub of: RunId,
    /// The run whose id its effect keys begin with, where it goes on from recorded steps.
    pub effects: Option<RunId>,
    /// The run that its batch is filed under, where it has the same one.
    pub batch: Option<RunId>,
    /// The compensations among the recorded steps.
    pub compensations: u32,
}

/// One input and one workflow, to be decided on.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The workspace.
    pub ws: Workspace,
    /// The released definition.
    pub current: &'a Current,
    /// The input.
    pub event: EventId,
    /// Its data.
    pub data: Payload,
    /// Which way it came in.
    pub origin: Origin,
    /// Who called.
    pub parent: Option<Parent>,
    /// What the program's key function said of the request; none where nobody asked it.
    pub function_key: Option<Key>,
    /// The gates, once they have been worked out.
    pub known: OnceCell<Vec<GateStep>>,
}

/// What a run does when a gate of it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Waits in line.
    Wait,
    /// Is refused.
    Refuse,
    /// Takes the holder's place.
    Replace,
}

/// The tier of a run that takes another's place: before all who wait in the ordinary way.
pub const IN_PLACE: i64 = -1;

/// A gate to pass, and what happens when it is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateStep {
    /// The gate.
    pub planned: PlannedGate,
    /// What happens.
    pub when_full: WhenFull,
}

impl Candidate<'_> {
    /// The definition.
    pub fn workflow(&self) -> &Definition {
        &self.current.workflow
    }

    /// The name of one of this workflow's gates.
    pub fn scope(&self, class: Class, path: Option<&Path>) -> Decided<Scope, Verdict> {
        let key = self.key(class.control(), path)?;
        Ok(self.scope_of(class, path.map(Path::to_string).unwrap_or_default(), key))
    }

    fn scope_of(&self, class: Class, slot: String, key: Key) -> Scope {
        let workflow = self.workflow();
        let (app, name) = (workflow.app.clone(), workflow.name.clone());
        Scope { ws: self.ws.clone(), class, app, name, slot, key }
    }

    fn key(&self, control: &'static str, path: Option<&Path>) -> Decided<Key, Verdict> {
        Key::of(path, &self.data).map_err(|error| {
            Stop::Refused(Verdict::Rejected { control, reason: error.to_string() })
        })
    }

    /// The gate of the action's policy; none where the request is not arbitrated.
    pub fn policy(&self, class: Class) -> Decided<Option<(Scope, &PolicyKind)>, Verdict> {
        let Some(Policy { kind, key }) = &self.workflow().policy else { return Ok(None) };
        if *kind == PolicyKind::Allow {
            return Ok(None);
        }
        let path = |name: &str| Path::parse(name).ok();
        let (slot, path) = match key {
            PolicyKey::None => return Ok(None),
            PolicyKey::Function(name) if self.function_key.is_none() => {
                let reason = format!("the key function `{name}` is not known to who asks");
                return Err(Stop::Refused(Verdict::Rejected { control: "policy", reason }));
            }
            PolicyKey::Session => ("session".to_owned(), path("session")),
            PolicyKey::User => ("user".to_owned(), path("user")),
            PolicyKey::Path(path) => (format!("path:{path}"), Some(path.clone())),
            PolicyKey::Function(name) => (format!("function:{name}"), None),
        };
        let key = match (&path, &self.function_key) {
            (Some(path), _) => self.key("policy", Some(path))?,
            (None, Some(key)) => key.clone(),
            (None, None) => Key::Missing,
        };
        if !matches!(key, Key::Value(_)) {
            return Ok(None);
        }
        let mut scope = self.scope_of(class, slot, key);
        if class == Class::Policy {
            // All actions of a flow meet in one gate; each has a window of its own.
            scope.name = self.workflow().flow.clone().unwrap_or(scope.name);
        }
        Ok(Some((scope, kind)))
    }

    /// The gates that the run has to pass, in the order of spec G9.
    pub fn plan(&self) -> Decided<&[GateStep], Verdict> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let steps = self.build_plan()?;
        Ok(self.known.get_or_init(|| steps))
    }

    fn build_plan(&self) -> Decided<Vec<GateStep>, Verdict> {
        let workflow = self.workflow();
        let mut all = Vec::new();
        let mut add = |scope: Scope, span, tier, when_full| {
            let tier = if when_full == WhenFull::Replace { IN_PLACE } else { tier };
            let planned = PlannedGate { gate: GateKey::new(&scope), span, tier };
            all.push(GateStep { planned, when_full });
        };
        if let Some(singleton) = &workflow.singleton {
            let mut scope = self.scope(Class::Singleton, singleton.key.as_ref())?;
            if workflow.handoff.is_some() {
                // Between versions the handoff rules; a singleton is one within its version.
                scope.slot = format!("{}@{}", scope.slot, self.current.version.number);
            }
            let when_full = match singleton.mode {
                Mode::Skip => WhenFull::Refuse,
                Mode::Cancel => WhenFull::Replace,
            };
            add(scope, Span::Run, 0, when_full);
        }
        if let Origin::Cron { schedule, overlap } = &self.origin
            && *overlap != Overlap::Allow
        {
            let scope = self.scope_of(Class::Schedule, schedule.clone(), Key::Whole);
            add(scope, Span::Run, 0, overlap.policy().when_full());
        }
        if let Some((scope, tier)) = self.handoff()? {
            add(scope, Span::Run, tier, WhenFull::Wait);
        }
        if let Some((scope, kind)) = self.policy(Class::Policy)? {
            add(scope, Span::Run, 0, kind.when_full());
        }
        for limit in &workflow.concurrency {
            let scope = self.scope(limit.class(), limit.key.as_ref())?;
            add(scope, limit.kept(), 0, WhenFull::Wait);
        }
        if let Some(throttle) = &workflow.throttle {
            let scope = self.scope(Class::Throttle, throttle.key.as_ref())?;
            add(scope, Span::Start, 0, WhenFull::Wait);
        }
        all.sort_by(|a, b| a.planned.gate.cmp(&b.planned.gate));
        Ok(all)
    }

    fn handoff(&self) -> Decided<Option<(Scope, i64)>, Verdict> {
        let Some(handoff) = &self.workflow().handoff else { return Ok(None) };
        let mut scope = match &handoff.scope {
            HandoffScope::Singleton => self.scope(Class::Handoff, None)?,
            HandoffScope::Keyed(path) => self.scope(Class::Handoff, Some(path))?,
        };
        if scope.key == Key::Missing {
            let reason = format!("the required key `{}` is missing from the data", scope.slot);
            return Err(Stop::Refused(Verdict::Rejected { control: "handoff", reason }));
        }
        let version = &self.current.version;
        let tier = match handoff.on_new_version {
            // Those of older releases stand before it: they finish first, or come along in their
            // places.
            OnNewVersion::Drain | OnNewVersion::Supersede => version.release.unwrap_or(0),
            OnNewVersion::Coexist => {
                scope.slot = format!("{}@{}", scope.slot, version.number);
                0
            }
        };
        Ok(Some((scope, tier)))
    }

    /// The controls that have a key which this input lacks, so that it shares their one bucket.
    pub fn keys_missing(&self) -> Vec<&'static str> {
        let workflow = self.workflow();
        let on_arrival = [
            ("idempotency", workflow.idempotency.as_ref().and_then(|control| control.key.as_ref())),
            ("rateLimit", workflow.rate_limit.as_ref().and_then(|control| control.key.as_ref())),
            ("debounce", workflow.debounce.as_ref().and_then(|control| control.key.as_ref())),
            ("batch", workflow.batch.as_ref().and_then(|control| control.key.as_ref())),
        ];
        let later = [
            ("singleton", workflow.singleton.as_ref().and_then(|control| control.key.as_ref())),
            ("throttle", workflow.throttle.as_ref().and_then(|control| control.key.as_ref())),
        ];
        let limits = workflow.concurrency.iter().map(|limit| ("concurrency", limit.key.as_ref()));
        let keyed = on_arrival.into_iter().filter(|_| self.arrives()).chain(later).chain(limits);
        let missing = keyed.filter(|(_, path)| Key::of(*path, &self.data) == Ok(Key::Missing));
        let mut controls: Vec<_> = missing.map(|(control, _)| control).collect();
        controls.dedup();
        controls
    }

    /// Whether arrival's controls apply: idempotency, rate limit and folds.
    pub fn arrives(&self) -> bool {
        matches!(self.origin, Origin::Arrival | Origin::After { .. })
    }

    /// The runs that go before this one.
    pub fn after(&self) -> &[RunId] {
        if let Origin::After { runs, .. } = &self.origin { runs } else { &[] }
    }

    /// Whether its run starts even if none of those before it completes.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.origin, Origin::After { wanted: false, .. })
    }

    /// What it takes over, if it is a new go at a run.
    pub fn replay(&self) -> Option<&ReplayOf> {
        if let Origin::Replay(replay) = &self.origin { Some(replay) } else { None }
    }

    /// When the run counts as queued for its priority.
    pub fn shifted(&self, queued_at: Timestamp) -> Timestamp {
        match &self.workflow().priority {
            Some(priority) => queued_at.minus_ms(priority.shift_ms),
            None => queued_at,
        }
    }

    /// When it gives up its place, if its session or its schedule is still busy by then.
    pub fn gives_up_at(&self, queued_at: Timestamp) -> Option<Timestamp> {
        let kind = match &self.origin {
            Origin::Cron { overlap, .. } => Some(overlap.policy()),
            Origin::Arrival | Origin::After { .. } | Origin::Invoke | Origin::Replay(_) => {
                self.workflow().policy.as_ref().map(|policy| policy.kind.clone())
            }
        };
        match kind {
            Some(PolicyKind::Queue { max_wait_ms }) => max_wait_ms.map(|ms| queued_at.plus_ms(ms)),
            _ => None,
        }
    }
}

impl PolicyKind {
    /// What a run under it does when the gate is full.
    fn when_full(&self) -> WhenFull {
        match self {
            Self::Reject => WhenFull::Refuse,
            Self::Restart => WhenFull::Replace,
            Self::Allow | Self::Queue { .. } | Self::Debounce { .. } => WhenFull::Wait,
        }
    }
}

impl Concurrency {
    /// The kind of gate.
    pub fn class(&self) -> Class {
        match (self.span, &self.key) {
            (Kept::Run, _) => Class::RunLimit,
            (Kept::Executing, Some(_)) => Class::Keyed,
            (Kept::Executing, None) => Class::Whole,
        }
    }

    fn kept(&self) -> Span {
        match self.span {
            Kept::Run => Span::Run,
            Kept::Executing => Span::Executing,
        }
    }
}

impl Definition {
    /// The limit that a concurrency gate of this class and slot has.
    pub fn slots(&self, class: Class, slot: &str) -> Option<u32> {
        let alike = self.concurrency.iter().filter(|limit| {
            limit.class() == class
                && limit.key.as_ref().map(Path::to_string).unwrap_or_default() == slot
        });
        alike.map(|limit| limit.limit).min()
    }
}

/// The gate of a plan step, for people.
impl From<&GateStep> for By {
    fn from(step: &GateStep) -> Self {
        By::gate(&step.planned.gate)
    }
}
