//! Pools that a single step passes (spec L7).
//!
//! A step asks for its place while its run is driven. If every part of its pools has room and
//! nobody waits there, it is taken in the transaction that asks. Otherwise the run parks once none
//! of its other steps is running: it gives its executing gates back and queues for them again,
//! with the gates of one step among them, in the order of all gates and at its rank. So a run
//! stands in one queue at a time, and waits with nothing in its hands that it did not hold before
//! its start.
//!
//! The gates are those of the run's plan; `PlannedGate::steps` says which part of a cost is a
//! step's. Of the run and its steps a gate has one hold, of summed cost (spec L5): if each had one,
//! two runs that hold a pool could wait there for each other. A place ends with the attempt of its
//! step, and with the lease at the latest.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    adaptive,
    cost::MAX_COST,
    gate,
    key_source::MAX_PATHS,
    meter::{stamp_all, stamp_turn},
    pool::Part,
    rate_limit::{self, Spend},
    verdict::{By, Verdict},
};
use crate::{
    catalog::{Catalog, Limit},
    definition::nearest,
    draft::{Decided, Draft},
    json::Payload,
    key::{Key, Path},
    row::{
        Class, Costs, GateKey, GateState, Hold, Phase, PlannedGate, RowNumbers, Run, RunError,
        Scope, ShareOf, Span, Wait, WaitOn,
    },
    time::Timestamp,
};

/// Maximum number of pools that one step passes.
pub const MAX_POOLS_OF_STEP: usize = 16;

/// Maximum number of steps of a run that are in pools at the same time. Further steps wait for
/// their end, because the run's row has the names.
pub const MAX_STEPS_IN_POOLS: usize = 100;

/// One pool that a step asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolAsk {
    /// The pool.
    pub pool: String,
    /// The key, at every part of the pool; none for the gates of the whole pool.
    pub key: Option<Key>,
    /// The units that the step takes.
    pub cost: u32,
    /// The value that takes turns, at the parts of the pool that are `fair` (spec L16); none for
    /// the one value of all runs and steps without it.
    pub fair_by: Option<Key>,
}

/// Answer to a step that asks for its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolAnswer {
    /// The step has its place: it begins.
    Entered,
    /// A part of a pool has no room, or others wait there. Nothing was taken. The run parks when
    /// none of its steps is running.
    Waits,
    /// The step fails, because no wait would help.
    Refused(RunError),
}

/// Returns the key of a step from a JSON value: a string, a number or a boolean, or a list of 2 to
/// 8 of them. None for any other value.
pub fn key_of(value: &Value) -> Option<Key> {
    let path = Path::parse("it").ok()?;
    let scalar =
        |value: &Value| Payload::from_value(&json!({ "it": value })).scalar(&path).ok().flatten();
    let Some(list) = value.as_array() else { return scalar(value).map(Key::Value) };
    let scalars: Option<Vec<_>> = list.iter().map(scalar).collect();
    scalars.filter(|list| (2..=MAX_PATHS).contains(&list.len())).map(Key::of_values)
}

/// Gates and meters that a step passes.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    gates: Vec<Need>,
    spends: Vec<Spend>,
}

/// A gate that a step passes.
#[derive(Debug)]
struct Need {
    gate: GateKey,
    costs: Costs,
    /// The value of the step, if the gate is fair.
    share: Option<Key>,
}

/// Result of the request of a run that is about to wait for a step.
#[derive(Debug)]
pub(crate) enum Request {
    /// The run queues at the gates. The rate limits are spent.
    Queue(Needs),
    /// A rate limit of this pool has no token before this time. Nothing is spent.
    Later(String, Timestamp),
    /// The step would be refused: the run goes on and asks again, so that its step fails.
    Again,
}

/// Asks for the place of a step of a driven run.
pub(crate) fn ask<E>(
    draft: &mut Draft,
    run: &mut Run,
    step: &str,
    asks: &[PoolAsk],
) -> Decided<PoolAnswer, E> {
    // A worker repeats a report if it got no answer.
    if run.in_pools.iter().any(|inside| inside == step) {
        return Ok(PoolAnswer::Entered);
    }
    let needs = match needs(&*draft.catalog(&run.ws)?, run, step, asks) {
        Ok(needs) => needs,
        Err(error) => return Ok(PoolAnswer::Refused(error)),
    };
    if run.in_pools.len() >= MAX_STEPS_IN_POOLS {
        return Ok(PoolAnswer::Waits);
    }
    let now = draft.now();
    let mut open = Vec::new();
    for need in &needs.gates {
        let (key, costs) = (&need.gate, &need.costs);
        let Some(mut gate) = draft.gate(key)?.cloned() else {
            let scope = key.scope();
            let limit = scope.map(|scope| {
                draft.catalog(&scope.ws).map(|it| it.limit(&scope, RowNumbers::default()))
            });
            if limit.transpose()? == Some(Limit::Closed) {
                return Ok(PoolAnswer::Waits);
            }
            open.push((need, None));
            continue;
        };
        let limit = gate::limit(draft, &gate)?;
        gate::cut_off(&mut gate.state, &limit, now);
        let waiting = gate::head(&gate.state).is_some();
        if waiting || gate::room(&gate.state, costs, &limit, now).is_err() {
            return Ok(PoolAnswer::Waits);
        }
        open.push((need, Some(gate)));
    }
    if rate_limit::spend(draft, &needs.spends)?.is_some() {
        return Ok(PoolAnswer::Waits);
    }
    for (need, gate) in open {
        let (key, costs) = (&need.gate, &need.costs);
        let mut gate = gate.map_or_else(|| gate::gate_or_new(draft, key), Ok)?;
        gate.at = gate.at.max(now);
        let limit = gate::limit(draft, &gate)?;
        match &mut gate.state {
            GateState::Slots(slots) => {
                match slots.holders.iter_mut().find(|hold| hold.run == run.id) {
                    Some(hold) => hold.cost = hold.cost.saturating_add(costs.one()),
                    None => slots.holders.push(Hold::new(run.id, costs.one())),
                }
                plan(run, step, need);
                adaptive::enter_step(draft, &gate, run, step)?;
                draft.put(gate);
            }
            // The run is leased: its attempt starts now.
            GateState::Turns(turns) => {
                if let Limit::Rates(rates) = &limit {
                    turns.meters = stamp_all(&turns.meters, rates, costs, now, stamp_turn);
                }
                gate.due = None;
                draft.put(gate);
                gate::settle(draft, key)?;
            }
            GateState::Meter(_)
            | GateState::Fold(_)
            | GateState::Claim(_)
            | GateState::Share(_) => {}
        }
    }
    run.in_pools.push(step.to_owned());
    Ok(PoolAnswer::Entered)
}

/// Decides what a run does that can only wait for the pools of a step. Spends the rate limits if
/// the run queues.
pub(crate) fn request<E>(
    draft: &mut Draft,
    run: &Run,
    step: &str,
    asks: &[PoolAsk],
) -> Decided<Request, E> {
    let Ok(needs) = needs(&*draft.catalog(&run.ws)?, run, step, asks) else {
        return Ok(Request::Again);
    };
    Ok(match rate_limit::spend(draft, &needs.spends)? {
        Some(Verdict::Dropped { by, retry_at }) => {
            Request::Later(by.pool.unwrap_or_default(), retry_at)
        }
        _ => Request::Queue(needs),
    })
}

/// Creates the wait of a step for a token of a pool's rate limit. It uses up no attempt.
pub(crate) fn wait_for_token(
    draft: &mut Draft,
    step: String,
    pool: String,
    at: Timestamp,
) -> Decided<Wait> {
    let (since, within_ms) = (draft.next_seq()?, Some(draft.now().ms_until(at)));
    Ok(Wait { step, on: WaitOn::Retry, until: Some(at), within_ms, pool: Some(pool), since })
}

/// Parks a run: it gives its executing gates back and queues for them again, with those of the
/// step among them.
///
/// As in [`gate::requeue`], the run is queued before the slots are handed on.
pub(crate) fn park<E>(
    draft: &mut Draft,
    mut run: Run,
    step: String,
    needs: &Needs,
) -> Decided<(), E> {
    let keep = run.executing().min(run.entered);
    let mut freed = gate::vacate(draft, &mut run, keep)?;
    for need in &needs.gates {
        plan(&mut run, &step, need);
    }
    run.in_pools.push(step);
    let Some(next) = run.plan.get(run.entered) else { return gate::advance(draft, run) };
    freed.push(next.gate.clone());
    freed.sort();
    freed.dedup();
    gate::queue_up(draft, run)?;
    gate::settle_all(draft, freed)
}

/// Spends the throttle turns of a run that is leased. The turn of a step is in the plan no longer.
pub(crate) fn start<E>(draft: &mut Draft, run: &mut Run) -> Decided<(), E> {
    gate::start(draft, run)?;
    if !run.in_pools.is_empty() {
        run.plan.retain(|need| need.span != Span::Start || !need.is_of_steps());
        run.entered = run.entered.min(run.plan.len());
    }
    Ok(())
}

/// Ends the places of those steps of a driven run whose attempts are over. Returns the gates whose
/// slots the caller has to hand on. `succeeded` says which attempts have recorded a result.
pub(crate) fn leave<E>(
    draft: &mut Draft,
    run: &mut Run,
    is_over: impl Fn(&str) -> bool,
    succeeded: impl Fn(&str) -> bool,
) -> Decided<Vec<GateKey>, E> {
    let inside = run.in_pools.len();
    run.in_pools.retain(|step| !is_over(step));
    let (mut freed, mut at) = (Vec::new(), 0);
    while run.in_pools.len() < inside
        && let Some(need) = run.plan.get_mut(at)
    {
        let steps: BTreeMap<String, u32> =
            need.steps.extract_if(.., |step, _| is_over(step)).collect();
        let calls = steps.keys().filter_map(|step| Some((step, need.calls.remove(step)?)));
        let calls: Vec<_> = calls.map(|(step, calls)| (calls, succeeded(step))).collect();
        let ended: u32 = steps.values().sum();
        if ended == 0 {
            at += 1;
            continue;
        }
        let (key, left) = (need.gate.clone(), need.costs.one().saturating_sub(ended));
        need.costs = Costs::new(vec![left]);
        if let Some(mut gate) = draft.gate(&key)?.cloned() {
            gate.at = gate.at.max(draft.now());
            for (calls, succeeded) in calls {
                adaptive::leave_step(draft, &mut gate, calls, succeeded)?;
            }
            if let GateState::Slots(slots) = &mut gate.state
                && left > 0
            {
                let holds = slots.holders.iter_mut().filter(|hold| hold.run == run.id);
                holds.for_each(|hold| hold.cost = left);
            } else {
                gate::leave(&mut gate.state, run.id);
            }
            draft.put(gate);
        }
        freed.push(key);
        if left > 0 {
            at += 1;
        } else {
            run.plan.remove(at);
            run.entered = run.entered.saturating_sub(usize::from(at < run.entered));
        }
    }
    Ok(freed)
}

/// Adds a gate that a step needs to the plan of its run. Of an executing gate that the run needs
/// already, it takes more units (spec L5), and the run keeps its value there.
fn plan(run: &mut Run, step: &str, need: &Need) {
    let Need { gate, costs, share } = need;
    let is_turn = gate.class().is_some_and(Class::is_throttle);
    let same = |need: &&mut PlannedGate| !is_turn && need.gate == *gate;
    if let Some(need) = run.plan.iter_mut().find(same) {
        need.costs = need.costs.plus(costs, 1);
        *need.steps.entry(step.to_owned()).or_default() += costs.one();
        return;
    }
    let at = run.plan.iter().position(|need| gate.comes_before(&need.gate));
    let at = at.unwrap_or(run.plan.len());
    let span = if is_turn { Span::Start } else { Span::Executing };
    let share = share.clone().map(|value| ShareOf { value, number: None });
    let of_step = PlannedGate::new(gate.clone(), span);
    let mut planned = PlannedGate { costs: costs.clone(), share, ..of_step };
    planned.steps.insert(step.to_owned(), costs.one());
    run.plan.insert(at, planned);
    run.entered = if run.phase == Phase::Driven { run.entered + 1 } else { run.entered.min(at) };
}

/// Returns what a step needs. The error has all its problems.
fn needs(catalog: &Catalog, run: &Run, step: &str, asks: &[PoolAsk]) -> Result<Needs, RunError> {
    let (mut gates, mut meters) = (Vec::new(), Vec::new());
    let mut problems = Vec::new();
    if asks.len() > MAX_POOLS_OF_STEP {
        let (most, count) = (MAX_POOLS_OF_STEP, asks.len());
        let rule = format!("a step passes at most {most} pools, got {count}");
        problems.push(Problem { code: "TooManyPools", rule });
    }
    for ask in asks {
        match parts(catalog, run, ask) {
            Ok(parts) => parts.into_iter().for_each(|(scope, part, limits)| {
                let into = if part == Part::RateLimit { &mut meters } else { &mut gates };
                add(into, Use { scope, cost: ask.cost, limits, value: ask.fair_by.as_ref() });
            }),
            Err(problem) => problems.push(problem),
        }
    }
    let mut needs = Needs::default();
    for Use { scope, cost, limits, value } in gates {
        // A pause or a closing delays a step, but does not change which cost fits.
        let gate = GateKey::new(&scope);
        let limit = catalog.limit_of_costs(&scope, RowNumbers::default());
        let same = |need: &&PlannedGate| need.span == Span::Executing && need.gate == gate;
        let own = run.plan.iter().find(same).map_or(0, PlannedGate::own_cost);
        if let Limit::Slots(limit) = limit
            && u64::from(own) + u64::from(cost) > u64::from(limit)
        {
            let of_run = if own > 0 { format!(" and the run's own {own}") } else { String::new() };
            let pool = &scope.name;
            let rule = format!("cost {cost}{of_run} exceeds limit {limit} of pool `{pool}`");
            problems.push(Problem { code: "CostExceedsLimit", rule });
        }
        let of_step = || value.cloned().unwrap_or(Key::Missing);
        let share = catalog.fair(&scope).map(|_| of_step());
        needs.gates.push(Need { gate, costs: Costs::new(vec![cost; limits]), share });
    }
    for Use { scope, cost, .. } in meters {
        let Limit::Rates(rates) = catalog.limit(&scope, RowNumbers::default()) else { continue };
        let owner = By::scope(&scope).limiter();
        for rate in rates.iter().filter(|rate| cost > rate.burst) {
            let rule = format!("cost {cost} exceeds the burst {} of {owner}", rate.burst);
            problems.push(Problem { code: "CostExceedsLimit", rule });
        }
        needs.spends.push(Spend::new(scope, rates, cost));
    }
    let Some(Problem { code, .. }) = problems.first() else { return Ok(needs) };
    let rules: Vec<&str> = problems.iter().map(|problem| problem.rule.as_str()).collect();
    let message = format!("step `{step}`: {}", rules.join("; "));
    Err(RunError::new((*code).to_owned(), message))
}

/// Use of one part of a pool by a step.
struct Use<'a> {
    scope: Scope,
    cost: u32,
    /// The number of the part's limits.
    limits: usize,
    /// The value of `fair` that the step names.
    value: Option<&'a Key>,
}

/// Adds a use of a gate; two uses of one gate are one of summed cost, with the first value.
fn add<'a>(uses: &mut Vec<Use<'a>>, new: Use<'a>) {
    match uses.iter_mut().find(|known| known.scope == new.scope) {
        Some(known) => {
            known.cost = known.cost.saturating_add(new.cost);
            known.value = known.value.or(new.value);
        }
        None => uses.push(new),
    }
}

/// Reason why a step fails: a stable code, and the broken rule with the fix.
struct Problem {
    code: &'static str,
    rule: String,
}

/// Returns the parts of a pool that a step passes, each with its gate and the number of its
/// limits.
fn parts(
    catalog: &Catalog,
    run: &Run,
    ask: &PoolAsk,
) -> Result<Vec<(Scope, Part, usize)>, Problem> {
    let PoolAsk { pool: name, key, cost, fair_by: _ } = ask;
    let Some(pool) = catalog.pools().get(name) else {
        let known: Vec<&str> = catalog.pools().iter().map(|pool| &*pool.name).collect();
        let fix = if known.is_empty() {
            "declare it first: no pool is declared".to_owned()
        } else {
            nearest::suggest(name, &known)
        };
        let rule = format!("pool `{name}` does not exist: {fix}");
        return Err(Problem { code: "UnknownPool", rule });
    };
    if !(1..=MAX_COST).contains(cost) {
        let rule = format!("the cost at pool `{name}` must be 1 to {MAX_COST}, got {cost}");
        return Err(Problem { code: "BadCost", rule });
    }
    let mut parts = Vec::new();
    for part in [Part::Concurrency, Part::Throttle, Part::RateLimit] {
        let Some((class, span, path, limits)) = pool.part(part) else { continue };
        if span == Span::Run {
            let rule = format!(
                "pool `{name}` holds its concurrency until the end of a run (`span: run`): a step \
                 passes only pools with `span: executing`"
            );
            return Err(Problem { code: "PoolSpan", rule });
        }
        if let (Some(path), None) = (path, key) {
            let part = part.name();
            let rule = format!("{part} of pool `{name}` has the key `{path}`: give the step a key");
            return Err(Problem { code: "PoolKey", rule });
        }
        let (ws, app, slot) = (run.ws.clone(), String::new(), String::new());
        let key = key.clone().unwrap_or(Key::Whole);
        parts.push((Scope { ws, class, app, name: name.clone(), slot, key }, part, limits));
    }
    Ok(parts)
}
