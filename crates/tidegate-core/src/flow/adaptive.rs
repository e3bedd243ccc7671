//! Adaptive: a limit that follows what the called service can take (spec L28).
//!
//! The limit of a gate falls to half when the service has too many calls, and grows by one after as
//! many successful calls as the limit. Its value is in the row of the gate; the outcomes of calls
//! are in the reports of workers, under the fence of their leases. A run notes in its plan which
//! changes of the limit its calls have seen, so that only an adaptive limit costs anything.
//!
//! `adaptive` is a field of `concurrency` and of pools. On overflow: wait in the queue.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{from_data::Amount, written};
use crate::{
    catalog::{Catalog, Limit},
    definition::{Code, Fields, Reported},
    draft::{Decided, Draft},
    id::Seq,
    row::{
        Adapted, Calls, Gate, GateKey, GateState, Numbers, PlannedGate, RowNumbers, Run, Scope,
        Span,
    },
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Default of the shortest time between two halvings. Services count calls by the second at the
/// finest: an earlier refusal still speaks of the limit before.
pub const COOLDOWN_MS: u64 = 1000;

/// Name of the calls that a run makes itself, beside those of its steps that pass the pool.
const OWN: &str = "";

/// The `adaptive` settings of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adaptive {
    /// The lowest limit.
    pub min: u32,
    /// The highest limit.
    pub max: u32,
    /// The shortest time between two halvings.
    pub cooldown_ms: u64,
}

/// Outcome of calls inside of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// So many calls have succeeded.
    Successes(u32),
    /// The service has too many calls, or has not answered in time.
    Overload,
}

/// Value of an adaptive limit, as the API returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AdaptiveLimit {
    /// The limit, which an override may cap.
    pub limit: u32,
    /// The lowest limit.
    pub min: u32,
    /// The highest limit.
    pub max: u32,
    /// Number of successful calls since the last change. The limit grows when it is as high as the
    /// limit.
    pub successes: u32,
    /// When the limit was lowered last.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub lowered_at: Option<Timestamp>,
}

impl AdaptiveLimit {
    /// Returns the value of a gate's limit; none if it is fixed.
    pub(crate) fn of(catalog: &Catalog, scope: &Scope, own: RowNumbers<'_>) -> Option<Self> {
        let Adaptive { min, max, .. } = catalog.adaptive(scope)?;
        let Limit::Slots(limit) = catalog.defined_limit(scope, Numbers::Of(own)) else {
            return None;
        };
        let successes = own.adapted.map_or(0, |adapted| adapted.successes);
        let lowered_at = own.adapted.and_then(|adapted| adapted.lowered_at);
        Some(Self { limit, min, max, successes, lowered_at })
    }
}

/// Overload that a run has met, as a worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOverload {
    /// The step; empty for the handler itself.
    pub step: String,
    /// The pool of the service, if the error names it.
    pub pool: Option<String>,
}

impl Adaptive {
    /// Reads the field `adaptive` of a limit, which starts at `limit`.
    pub(crate) fn read(
        fields: &mut Fields<'_>,
        limit: Option<&Amount>,
    ) -> Result<Option<Adaptive>, Reported> {
        let Some(value) = fields.get("adaptive") else { return Ok(None) };
        let at = fields.field("adaptive");
        let mut inner = Fields::open(value, &at, &["min", "max", "cooldownMs"], fields.problems())?;
        let rule = "a whole number of at least 1";
        let min = inner.optional_count("min");
        let min = min.and_then(|min| min.ok_or_else(|| inner.missing("min", rule)));
        let max = inner.optional_count("max");
        let max = max.and_then(|max| max.ok_or_else(|| inner.missing("max", rule)));
        let cooldown_ms = inner.optional_duration("cooldownMs");
        let (min, max, cooldown_ms) = (min?, max?, cooldown_ms?.unwrap_or(COOLDOWN_MS));
        if max < min {
            let message = format!("must be at least min ({min}), got {max}");
            return Err(inner.error(Code::OutOfRange, "max", message));
        }
        match limit {
            Some(Amount::From(_)) => {
                let message = "cannot stand beside a limit from the data, because only one of the \
                               two can set the limit: write a number as the limit";
                Err(fields.error(Code::Conflict, "adaptive", message.to_owned()))
            }
            Some(Amount::Fixed(start)) if !(min..=max).contains(start) => {
                let rule = format!("must be from adaptive.min ({min}) to adaptive.max ({max})");
                let message = format!("{rule}, because the limit starts there, got {start}");
                Err(fields.error(Code::OutOfRange, "limit", message))
            }
            Some(Amount::Fixed(_)) | None => Ok(Some(Adaptive { min, max, cooldown_ms })),
        }
    }

    pub(crate) fn to_value(self) -> Value {
        written(&self, &[("cooldownMs", json!(COOLDOWN_MS))])
    }

    /// Returns the limit of a gate that has this value, or that starts at `start`.
    pub fn value(self, adapted: Option<&Adapted>, start: u32) -> u32 {
        adapted.map_or(start, |adapted| adapted.limit).clamp(self.min, self.max)
    }

    /// Returns the next value of a gate after a signal of calls that began at its change number
    /// `since`; none if nothing changes. `in_force` is the limit under an override, if that is
    /// lower.
    pub fn next(
        self,
        known: Adapted,
        in_force: u32,
        since: u32,
        signal: Signal,
        now: Timestamp,
    ) -> Option<Adapted> {
        if since != known.changes {
            return None;
        }
        let limit = known.limit.clamp(self.min, self.max);
        let changes = known.changes.saturating_add(1);
        match signal {
            Signal::Overload => {
                // A time of the future was written before the clock stepped back.
                let recent = |at: Timestamp| at <= now && now < at.plus_ms(self.cooldown_ms);
                if known.lowered_at.is_some_and(recent) {
                    return None;
                }
                let half = (in_force.min(limit) / 2).max(self.min);
                if half < limit {
                    let lowered_at = Some(now);
                    return Some(Adapted { limit: half, changes, successes: 0, lowered_at });
                }
                (known.successes > 0).then_some(Adapted { successes: 0, ..known })
            }
            // A limit that is not used to the full says nothing about a higher one.
            Signal::Successes(_) if limit >= self.max || in_force < limit => None,
            Signal::Successes(count) => {
                let successes = known.successes.saturating_add(count);
                Some(if successes < limit {
                    Adapted { successes, ..known }
                } else {
                    Adapted { limit: limit + 1, changes, successes: 0, ..known }
                })
            }
        }
    }
}

/// Applies a signal to a gate.
fn adapt<E>(draft: &Draft, gate: &mut Gate, since: u32, signal: Signal) -> Decided<bool, E> {
    let Some(scope) = gate.key.scope() else { return Ok(false) };
    let catalog = draft.catalog(&scope.ws)?;
    let Some(settings) = catalog.adaptive(&scope) else { return Ok(false) };
    let own = gate.state.numbers();
    // The limit that an override of it leaves; a pause does not change it.
    let limits = (catalog.defined_limit(&scope, Numbers::Of(own)), catalog.open_limit(&scope, own));
    let (Limit::Slots(limit), Limit::Slots(in_force)) = limits else { return Ok(false) };
    let GateState::Slots(slots) = &mut gate.state else { return Ok(false) };
    let known = Adapted { limit, ..slots.adapted.unwrap_or(Adapted::new(limit)) };
    let next = settings.next(known, in_force, since, signal, draft.now());
    slots.adapted = next.or(slots.adapted);
    Ok(next.is_some())
}

/// Returns the number of changes of a gate's limit.
fn changes(gate: &Gate) -> u32 {
    gate.state.adapted().map_or(0, |adapted| adapted.changes)
}

fn is_adaptive<E>(draft: &Draft, key: &GateKey) -> Decided<bool, E> {
    let Some(scope) = key.scope() else { return Ok(false) };
    Ok(draft.catalog(&scope.ws)?.adaptive(&scope).is_some())
}

/// Notes in the plan of a run that its calls at the gate that it enters next begin now.
pub(super) fn enter<E>(draft: &Draft, gate: &Gate, run: &mut Run) -> Decided<(), E> {
    let Some(need) = run.plan.get_mut(run.entered) else { return Ok(()) };
    need.calls.clear();
    if matches!(gate.state, GateState::Slots(_)) && is_adaptive(draft, &gate.key)? {
        let calls = Calls { since: changes(gate), successes: 0 };
        let own = (need.own_cost() > 0).then(|| OWN.to_owned());
        need.calls =
            own.into_iter().chain(need.steps.keys().cloned()).map(|it| (it, calls)).collect();
    }
    Ok(())
}

/// As [`enter`], for a step that passes a gate at once.
pub(super) fn enter_step<E>(
    draft: &Draft,
    gate: &Gate,
    run: &mut Run,
    step: &str,
) -> Decided<(), E> {
    let own = |need: &&mut PlannedGate| need.gate == gate.key && need.steps.contains_key(step);
    if is_adaptive(draft, &gate.key)?
        && let Some(need) = run.plan.iter_mut().find(own)
    {
        let calls = Calls { since: changes(gate), successes: 0 };
        need.calls.insert(step.to_owned(), calls);
    }
    Ok(())
}

/// Notes that the calls of a run that is leased begin now, at the gates that it holds until its
/// end. At all others they have begun when it entered.
pub(crate) fn begin<E>(draft: &Draft, run: &mut Run) -> Decided<(), E> {
    let entered = run.entered;
    for need in run.plan.iter_mut().take(entered).filter(|need| need.span == Span::Run) {
        let Some(calls) = need.calls.get_mut(OWN) else { continue };
        let since = draft.gate(&need.gate)?.map_or(0, changes);
        if since != calls.since {
            *calls = Calls { since, successes: 0 };
        }
    }
    Ok(())
}

/// Whether a step of a run passes pools of its own.
fn passes_pools(run: &Run, step: &str) -> bool {
    run.in_pools.iter().any(|inside| inside == step)
}

/// Counts a successful step of a run: at the gates that the run itself has entered, unless the step
/// passes pools. The gates get the number when the run leaves them, because the report of the step
/// does not write their rows.
pub(crate) fn succeed(run: &mut Run, step: &str) {
    if passes_pools(run, step) {
        return;
    }
    for need in run.plan.iter_mut().take(run.entered) {
        if let Some(calls) = need.calls.get_mut(OWN) {
            calls.successes = calls.successes.saturating_add(1);
        }
    }
}

/// Gives a gate that a run leaves the number of the run's successful calls.
pub(super) fn leave<E>(draft: &Draft, gate: &mut Gate, need: &PlannedGate) -> Decided<(), E> {
    match need.calls.get(OWN) {
        Some(calls) if calls.successes > 0 => {
            adapt(draft, gate, calls.since, Signal::Successes(calls.successes)).map(|_| ())
        }
        Some(_) | None => Ok(()),
    }
}

/// As [`leave`], for the end of a step that passes the gate.
pub(super) fn leave_step<E>(
    draft: &Draft,
    gate: &mut Gate,
    calls: Calls,
    succeeded: bool,
) -> Decided<(), E> {
    if succeeded {
        adapt(draft, gate, calls.since, Signal::Successes(1))?;
    }
    Ok(())
}

/// Applies an overload to the gates that the call has passed: those of the pool that the error
/// names, or of the pools that the step passes, or else all that the run itself has entered.
pub(crate) fn overload<E>(draft: &mut Draft, run: Seq, new: &NewOverload) -> Decided<(), E> {
    let run = draft.run(run)?.cloned().expect("the run was just leased");
    let of_step = passes_pools(&run, &new.step);
    for need in run.plan.iter().take(run.entered) {
        let own = || need.calls.get(OWN).filter(|_| new.pool.is_some() || !of_step);
        let Some(calls) = need.calls.get(&new.step).or_else(own) else { continue };
        let is_named =
            |pool: &String| need.gate.scope().is_some_and(|scope| scope.pool() == Some(pool));
        if !new.pool.as_ref().is_none_or(is_named) {
            continue;
        }
        let Some(mut gate) = draft.gate(&need.gate)?.cloned() else { continue };
        if adapt(draft, &mut gate, calls.since, Signal::Overload)? {
            gate.at = gate.at.max(draft.now());
            draft.put(gate);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{definition::Definition, pool::Pool};

    const SETTINGS: Adaptive = Adaptive { min: 2, max: 9, cooldown_ms: 1000 };

    fn time(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn at(limit: u32, changes: u32, successes: u32, lowered: Option<i64>) -> Adapted {
        Adapted { limit, changes, successes, lowered_at: lowered.map(time) }
    }

    // spec L28
    #[test]
    fn the_rule_of_an_adaptive_limit() {
        use Signal::{Overload, Successes};
        let none = u32::MAX;
        // The value before, the limit in force, the change number that the calls know, the signal,
        // the time, and the value after; none if nothing changes.
        for (name, before, in_force, since, signal, now, after) in [
            ("halves", at(9, 0, 3, None), none, 0, Overload, 50, Some(at(4, 1, 0, Some(50)))),
            ("down to min", at(3, 1, 0, None), none, 1, Overload, 50, Some(at(2, 2, 0, Some(50)))),
            ("not below min", at(2, 1, 0, None), none, 1, Overload, 50, None),
            ("counts anew", at(2, 1, 1, None), none, 1, Overload, 50, Some(at(2, 1, 0, None))),
            ("began before", at(9, 1, 3, None), none, 0, Overload, 50, None),
            ("cooldown", at(8, 1, 3, Some(50)), none, 1, Overload, 1049, None),
            (
                "cooldown over",
                at(8, 1, 3, Some(50)),
                none,
                1,
                Overload,
                1050,
                Some(at(4, 2, 0, Some(1050))),
            ),
            // The clock has stepped back.
            (
                "a stepped clock",
                at(8, 1, 0, Some(5000)),
                none,
                1,
                Overload,
                50,
                Some(at(4, 2, 0, Some(50))),
            ),
            ("the override", at(8, 1, 0, None), 6, 1, Overload, 50, Some(at(3, 2, 0, Some(50)))),
            ("a low override", at(8, 1, 0, None), 1, 1, Overload, 50, Some(at(2, 2, 0, Some(50)))),
            ("counts", at(4, 1, 2, Some(7)), none, 1, Successes(1), 50, Some(at(4, 1, 3, Some(7)))),
            ("grows", at(4, 1, 3, Some(7)), none, 1, Successes(1), 50, Some(at(5, 2, 0, Some(7)))),
            ("by one", at(4, 1, 3, None), none, 1, Successes(40), 50, Some(at(5, 2, 0, None))),
            (
                "in the cooldown",
                at(4, 1, 3, Some(49)),
                none,
                1,
                Successes(1),
                50,
                Some(at(5, 2, 0, Some(49))),
            ),
            ("not above max", at(9, 1, 0, None), none, 1, Successes(99), 50, None),
            ("late success", at(4, 2, 3, None), none, 1, Successes(9), 50, None),
            ("capped", at(4, 1, 3, None), 3, 1, Successes(9), 50, None),
            ("at the cap", at(4, 1, 3, None), 4, 1, Successes(1), 50, Some(at(5, 2, 0, None))),
            // A release has narrowed the range.
            ("above max", at(40, 1, 0, None), none, 1, Overload, 50, Some(at(4, 2, 0, Some(50)))),
            ("below min", at(1, 1, 0, None), none, 1, Successes(1), 50, Some(at(2, 1, 1, None))),
        ] {
            let known = Adapted { limit: before.limit.clamp(2, 9), ..before };
            let next = SETTINGS.next(known, in_force, since, signal, time(now));
            assert_eq!(next, after, "{name}");
        }
    }

    // spec L28: whatever comes, the limit stays in its range, and falls at most once in the
    // cooldown.
    #[test]
    fn a_limit_stays_in_its_range() {
        let (mut value, mut falls, mut random) = (Adapted::new(5), Vec::new(), 1_u64);
        for now in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = random >> 33;
            let signal =
                if draw.is_multiple_of(7) { Signal::Overload } else { Signal::Successes(1) };
            let since = value.changes.saturating_sub(u32::from(draw.is_multiple_of(3)));
            let next = SETTINGS.next(value, u32::MAX, since, signal, time(now)).unwrap_or(value);
            assert!((2..=9).contains(&next.limit) && next.successes < next.limit, "{next:?}");
            if next.limit < value.limit {
                assert_eq!(next.limit, (value.limit / 2).max(2));
                falls.push(now);
            }
            assert!(next.limit <= value.limit + 1);
            value = next;
        }
        assert!(falls.len() > 10 && falls.windows(2).all(|two| two[1] - two[0] >= 1000));
    }

    fn errors_of(limit: &Value) -> String {
        let value = json!({ "name": "w", "concurrency": limit });
        match Definition::parse(&value) {
            Ok(parsed) => {
                let again = Definition::parse(&parsed.value.to_value()).unwrap();
                assert_eq!(again.value, parsed.value);
                let stored = serde_json::to_value(&parsed.value).unwrap();
                assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), parsed.value);
                let pool = Pool::parse(&json!({ "name": "p", "concurrency": limit })).unwrap();
                assert_eq!(Pool::parse(&pool.value.to_value()).unwrap().value, pool.value);
                "ok".to_owned()
            }
            Err(errors) => errors.to_string(),
        }
    }

    // spec L28
    #[test]
    fn settings_that_cannot_work_are_refused_with_the_value_and_the_rule() {
        let from = json!({ "from": "seats", "min": 1, "max": 9 });
        let costing =
            |cost| json!({ "limit": 2, "cost": cost, "adaptive": { "min": 1, "max": 9 } });
        for (limit, expected) in [
            (json!({ "limit": 5, "adaptive": { "min": 1, "max": 9 } }), "ok"),
            (json!({ "limit": 1, "adaptive": { "min": 1, "max": 1, "cooldownMs": 1 } }), "ok"),
            (json!({ "adaptive": { "min": 1, "max": 9 } }), "concurrency.limit is required"),
            (
                json!({ "limit": 5, "adaptive": { "max": 9 } }),
                "concurrency.adaptive.min is required",
            ),
            (
                json!({ "limit": 5, "adaptive": { "min": 1 } }),
                "concurrency.adaptive.max is required",
            ),
            (
                json!({ "limit": 5, "adaptive": { "min": 0, "max": 9 } }),
                "concurrency.adaptive.min must be at least 1, got 0",
            ),
            (
                json!({ "limit": 5, "adaptive": { "min": 5, "max": 4 } }),
                "concurrency.adaptive.max must be at least min (5), got 4",
            ),
            (
                json!({ "limit": 5, "adaptive": { "min": 1, "max": 9, "cooldownMs": 0 } }),
                "concurrency.adaptive.cooldownMs must be at least 1, got 0",
            ),
            (
                json!({ "limit": 5, "adaptive": { "min": 1, "max": 9, "cooldown": 5 } }),
                "concurrency.adaptive.cooldown is not known",
            ),
            (
                json!({ "limit": 1, "adaptive": { "min": 2, "max": 9 } }),
                "concurrency.limit must be from adaptive.min (2) to adaptive.max (9), because the \
                 limit starts there, got 1",
            ),
            (
                json!({ "limit": from, "adaptive": { "min": 2, "max": 9 } }),
                "concurrency.adaptive cannot stand beside a limit from the data, because only one \
                 of the two can set the limit: write a number as the limit",
            ),
            (json!({ "limit": 2, "adaptive": 5 }), "concurrency.adaptive must be an object"),
            (costing(9), "ok"),
            (costing(10), "concurrency.cost must be at most the highest limit (9), got 10"),
        ] {
            if expected == "ok" && limit.get("cost").is_some() {
                assert!(Definition::parse(&json!({ "name": "w", "concurrency": limit })).is_ok());
                continue;
            }
            let errors = errors_of(&limit);
            assert!(errors.contains(expected), "{limit}: {errors}");
        }
    }
}
