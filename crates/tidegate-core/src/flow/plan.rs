//! The gate plan: the gates of all controls that a run has to enter, in order (spec G9).

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use super::{
    By, Control, Moment, batch,
    cost::Cost,
    fair::Fair,
    fold::Folding,
    key_source::{self, KeySource},
    policy::PolicyKind,
    queue::Queue,
    verdict::Verdict,
};
use crate::{
    catalog::{Current, Pools},
    definition::{Definition, Overlap},
    draft::{Decided, Stop},
    expr::Mode,
    id::RunId,
    key::Key,
    row::{
        BatchCosts, Class, Costs, Event, GateKey, Given, GivenLimit, Order, Parent, PlannedGate,
        Scope, ShareOf, Span, Workspace,
    },
    time::Timestamp,
};

/// Origin of an input. It decides which controls apply (spec A5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A posted event, an event of a stream or a request: all controls apply.
    Arrival,
    /// As [`Origin::Arrival`], for a deferred request, whose run has this id (spec L23).
    Deferred(RunId),
    /// As [`Origin::Arrival`], for a run that starts when other runs have ended.
    After {
        /// The other runs.
        runs: Vec<RunId>,
        /// Whether the run starts even if none of these runs completes.
        wanted: bool,
    },
    /// An occurrence of a schedule: idempotency, rate limit and folds do not apply.
    Cron {
        /// The schedule.
        schedule: String,
        /// What happens to the occurrence while the last run of the schedule has not ended.
        overlap: Overlap,
    },
    /// A call by a parent run: the same controls apply as for [`Origin::Cron`].
    Invoke,
    /// A replay of a run that has ended: only gates, throttle and handoff apply.
    Replay(ReplayOf),
}

/// Properties that a replay has from the original run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOf {
    /// The original run.
    pub of: RunId,
    /// The run whose id is the prefix of effect keys, if the replay keeps recorded steps.
    pub effects: Option<RunId>,
    /// The run to which the batch items belong, if the replay has the same batch.
    pub batch: Option<RunId>,
    /// The number of compensations among the recorded steps.
    pub compensations: u32,
}

/// One input for one workflow, on which the controls decide.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The workspace.
    pub ws: Workspace,
    /// The released definition.
    pub current: &'a Current,
    /// The input.
    pub event: &'a Event,
    /// The origin of the input.
    pub origin: Origin,
    /// The parent run and its step, for an invoked run.
    pub parent: Option<Parent>,
    /// The result of the policy's key function; none if it was not called.
    pub function_key: Option<Key>,
    /// The sums of a batch's costs, where the run gets a batch.
    pub batch: Option<BatchCosts>,
    /// The pools of the workspace, if the definition uses any.
    pub pools: Pools,
    /// The results that were computed from the input.
    pub results: Results,
}

/// Key of an input, none if its control does not apply; or the reason why it cannot be read.
type KeyResult = Result<Option<Key>, String>;

/// Results of a candidate: each is computed once, however often it is needed.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The gate plan.
    steps: OnceCell<Vec<GateStep>>,
    /// The keys of expressions, by their text and mode.
    keys: RefCell<BTreeMap<(Arc<str>, Mode), KeyResult>>,
    /// Whether the control `batch` collects the input.
    is_collected: OnceCell<Result<bool, String>>,
    /// The first fold that applies to the input, if any does.
    pub(super) fold: OnceCell<Option<(Scope, Folding)>>,
}

/// Behaviour of a run at a full gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The run waits in the queue.
    Wait,
    /// The run is refused.
    Refuse,
    /// The run replaces the holder.
    Replace,
    /// The run replaces runs of its own workflow that have not started, and waits for all other
    /// runs.
    Displace,
}

/// Tier of a run that takes another run's position: before all other queued runs.
pub const IN_PLACE: i64 = -1;

/// A planned gate, and what the run does if the gate is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateStep {
    /// The gate.
    pub planned: PlannedGate,
    /// What the run does if the gate is full.
    pub when_full: WhenFull,
    /// The position of the gate among others.
    pub order: Order,
}

/// Plan under construction: each control adds its gates.
#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<GateStep>);

impl Plan {
    /// Adds a gate.
    pub(crate) fn add(&mut self, scope: &Scope, span: Span, when_full: WhenFull) {
        let tier = if when_full == WhenFull::Replace { IN_PLACE } else { 0 };
        self.add_in_tier(scope, span, tier, when_full);
    }

    /// Adds a gate that the run queues at, with its cost at each limit of the gate.
    pub(crate) fn add_costing(&mut self, scope: &Scope, span: Span, costs: Vec<u32>) {
        self.add(scope, span, WhenFull::Wait);
        if let Some(step) = self.0.last_mut() {
            step.planned.costs = Costs::new(costs);
        }
    }

    /// Adds a gate of a pool, with the run's cost at each of its limits. A run takes a gate once:
    /// two uses of one gate are one of summed cost (spec L5). Returns whether the gate is new.
    pub(crate) fn add_pooled(
        &mut self,
        scope: &Scope,
        span: Span,
        cost: u32,
        limits: usize,
    ) -> bool {
        let gate = GateKey::new(scope);
        let costs = Costs::new(vec![cost; limits]);
        match self.0.iter_mut().find(|step| step.planned.gate == gate) {
            Some(step) => step.planned.costs = step.planned.costs.plus(&costs, limits),
            None => {
                self.add_costing(scope, span, vec![cost; limits]);
                return true;
            }
        }
        false
    }

    /// Adds a gate whose queue is ordered by tiers first.
    pub(crate) fn add_in_tier(
        &mut self,
        scope: &Scope,
        span: Span,
        tier: i64,
        when_full: WhenFull,
    ) {
        let planned = PlannedGate { tier, ..PlannedGate::new(GateKey::new(scope), span) };
        self.0.push(GateStep { planned, when_full, order: scope.order() });
    }

    /// Sets the numbers from data of the gate that was added last.
    pub(crate) fn give(&mut self, given: Option<Given>) {
        if let Some(step) = self.0.last_mut() {
            step.planned.given = given;
        }
    }

    /// Sets whether the queue of the gate that was added last has a bound.
    pub(crate) fn bound(&mut self, queue: Option<Queue>) {
        if let Some(step) = self.0.last_mut() {
            step.planned.bounded = queue.is_some();
        }
    }

    /// Adds the run's value of `fair` to the gate that was added last. Of two uses of one gate, the
    /// first has it.
    pub(crate) fn share(
        &mut self,
        candidate: &Candidate<'_>,
        control: &'static str,
        fair: Option<&Fair>,
    ) -> Decided<(), Verdict> {
        let Some(fair) = fair else { return Ok(()) };
        let value = candidate.key(control, Some(&fair.by))?.unwrap_or(Key::Missing);
        if let Some(step) = self.0.last_mut()
            && step.planned.share.is_none()
        {
            step.planned.share = Some(ShareOf { value, number: None });
        }
        Ok(())
    }
}

impl Candidate<'_> {
    /// Returns the definition.
    pub fn workflow(&self) -> &Definition {
        &self.current.workflow
    }

    /// Returns the scope of one of this workflow's gates; none if the key says that the control does
    /// not apply to the input.
    pub fn scope(&self, class: Class, key: Option<&KeySource>) -> Decided<Option<Scope>, Verdict> {
        let Some(value) = self.key(class.control(), key)? else { return Ok(None) };
        Ok(Some(self.scope_of(class, key.map(KeySource::slot).unwrap_or_default(), value)))
    }

    pub(crate) fn scope_of(&self, class: Class, slot: String, key: Key) -> Scope {
        let workflow = self.workflow();
        let (app, name) = (workflow.app.clone(), workflow.name.clone());
        Scope { ws: self.ws.clone(), class, app, name, slot, key }
    }

    pub(super) fn key(
        &self,
        control: &'static str,
        source: Option<&KeySource>,
    ) -> Decided<Option<Key>, Verdict> {
        let key = source.map_or(Ok(Some(Key::Whole)), |source| self.value(source));
        key.map_err(|reason| Stop::Refused(Verdict::Rejected { control, reason }))
    }

    /// Returns the value of a key. An expression is evaluated once.
    fn value(&self, source: &KeySource) -> KeyResult {
        let KeySource::Expr { expr } = source else { return source.of(self.event) };
        let mut keys = self.results.keys.borrow_mut();
        let name = (expr.text().clone(), expr.mode());
        keys.entry(name).or_insert_with(|| source.of(self.event)).clone()
    }

    /// Whether the control `batch` collects the input: its `if` holds, or it has none.
    pub(super) fn is_collected(&self) -> Decided<bool, Verdict> {
        let condition = self.workflow().batch.as_ref().and_then(|batch| batch.condition.as_ref());
        let Some(condition) = condition else { return Ok(true) };
        let holds = || key_source::holds(condition, self.event);
        self.results.is_collected.get_or_init(holds).clone().map_err(|reason| {
            Stop::Refused(Verdict::Rejected { control: batch::CONTROL.name, reason })
        })
    }

    /// The units of a limit that the run takes.
    pub(super) fn cost(&self, control: &'static str, cost: Option<&Cost>) -> Decided<u32, Verdict> {
        let units = match (cost, &self.batch) {
            (None, _) => Ok(1),
            (Some(cost), Some(batch)) => Ok(batch.cost(cost)),
            (Some(cost), None) => cost.of(&self.event.data),
        };
        units.map_err(|reason| Stop::Refused(Verdict::Rejected { control, reason }))
    }

    /// Returns the numbers that the input has for the limits of a gate; none if the definition has
    /// all of them (spec L12).
    pub(super) fn given(
        &self,
        control: &'static str,
        limits: impl IntoIterator<Item = Result<GivenLimit, String>>,
    ) -> Decided<Option<Given>, Verdict> {
        let limits: Result<Vec<GivenLimit>, String> = limits.into_iter().collect();
        let limits =
            limits.map_err(|reason| Stop::Refused(Verdict::Rejected { control, reason }))?;
        let is_given = limits.iter().any(|limit| *limit != GivenLimit::default());
        Ok(is_given.then(|| Given::of(self.event, limits)))
    }

    /// The gates that the run has to pass, in the order of spec G9.
    pub fn plan(&self) -> Decided<&[GateStep], Verdict> {
        if let Some(steps) = self.results.steps.get() {
            return Ok(steps);
        }
        let steps = self.build_plan()?;
        Ok(self.results.steps.get_or_init(|| steps))
    }

    fn build_plan(&self) -> Decided<Vec<GateStep>, Verdict> {
        let mut plan = Plan::default();
        for control in &*self.current.controls {
            (control.plan)(self, &mut plan)?;
        }
        plan.0.sort_by(|a, b| (a.order, &a.planned.gate).cmp(&(b.order, &b.planned.gate)));
        Ok(plan.0)
    }

    /// Returns the controls whose key is missing from this input, so that it shares one gate with
    /// other inputs without the key.
    pub fn keys_missing(&self) -> Vec<&'static str> {
        let applies = |control: &&Control| {
            !control.requires_key && (control.acts > Moment::Arrival || self.arrives())
        };
        let lacks = |control: &&Control| {
            let keys = (control.keys)(self.workflow()).into_iter();
            keys.flatten().any(|key| self.value(key) == Ok(Some(Key::Missing)))
        };
        let used = self.current.controls.iter().copied();
        used.filter(applies).filter(lacks).map(|control| control.name).collect()
    }

    /// Whether the controls that act on arrival apply: idempotency, rate limit and folds.
    pub fn arrives(&self) -> bool {
        matches!(self.origin, Origin::Arrival | Origin::Deferred(_) | Origin::After { .. })
    }

    /// Returns the id that the run of a deferred request has; none if the run gets a new one.
    pub fn promised(&self) -> Option<RunId> {
        if let Origin::Deferred(run) = self.origin { Some(run) } else { None }
    }

    /// Returns the runs that must end before the new run starts.
    pub fn after(&self) -> &[RunId] {
        if let Origin::After { runs, .. } = &self.origin { runs } else { &[] }
    }

    /// Whether the new run starts even if none of the runs before it completes.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.origin, Origin::After { wanted: false, .. })
    }

    /// Returns the properties that a replay has from the original run; none if it is not a replay.
    pub fn replay(&self) -> Option<&ReplayOf> {
        if let Origin::Replay(replay) = &self.origin { Some(replay) } else { None }
    }

    /// Returns the time at which the run is cancelled if it still waits for its session or
    /// schedule.
    pub fn gives_up_at(&self, queued_at: Timestamp) -> Option<Timestamp> {
        let kind = match &self.origin {
            Origin::Cron { overlap, .. } => Some(overlap.policy()),
            Origin::Arrival
            | Origin::Deferred(_)
            | Origin::After { .. }
            | Origin::Invoke
            | Origin::Replay(_) => {
                self.workflow().policy.as_ref().map(|policy| policy.kind.clone())
            }
        };
        match kind {
            Some(PolicyKind::Queue { max_wait_ms, .. }) => {
                max_wait_ms.map(|ms| queued_at.plus_ms(ms))
            }
            _ => None,
        }
    }
}

/// Converts a step of the plan to the description of its gate.
impl From<&GateStep> for By {
    fn from(step: &GateStep) -> Self {
        By::gate(&step.planned.gate)
    }
}
