//! Closing: a run that a service has refused for too many calls closes its gate for some time, so
//! that the other runs do not repeat the refusal one after another (spec L27).
//!
//! The closing is part of the report of the run's worker, under the fence of the lease. It is
//! stored in the row of the gate, which is due at its end: the sweep opens the gate and admits its
//! queue. Runs that are inside go on.

use serde::{Deserialize, Serialize};

use super::gate;
use crate::{
    draft::{Decided, Draft},
    id::Seq,
    key::Key,
    row::{Class, Closed, GateKey, Run, RunError},
    run::record::Until,
};

/// Default of the longest time that one closing lasts. A service that asks for more is asked again
/// then, because its clock or unit may be wrong.
pub const MAX_CLOSE_MS: u64 = 15 * 60 * 1000;

/// Number of attempts of a step that are not counted because they have closed a gate. Further ones
/// count as failures, so that a service that always refuses does not hold a run forever.
pub const MAX_DEFERRALS: u32 = 100;

/// Gates that a run closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GateToClose {
    /// The throttle of the run's own workflow: no run starts for the first time. Of several, those
    /// with a key.
    Throttle,
    /// The `concurrency` limit of the run's own workflow: no run enters, started or not. Of
    /// several, those with a key.
    Concurrency,
    /// The throttle and the `concurrency` limit of a pool, for the run's key: no run enters,
    /// started or not.
    Pool(String),
}

/// A text names a pool.
impl From<&str> for GateToClose {
    fn from(pool: &str) -> Self {
        Self::Pool(pool.to_owned())
    }
}

impl GateToClose {
    /// Reads the spelling of definitions: `throttle`, `concurrency` or `pool:NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        match (text, text.strip_prefix("pool:")) {
            ("throttle", _) => Some(Self::Throttle),
            ("concurrency", _) => Some(Self::Concurrency),
            (_, Some(pool)) if !pool.is_empty() => Some(Self::Pool(pool.to_owned())),
            _ => None,
        }
    }

    /// Returns the spelling of definitions.
    pub fn to_text(&self) -> String {
        match self {
            Self::Throttle => "throttle".to_owned(),
            Self::Concurrency => "concurrency".to_owned(),
            Self::Pool(pool) => format!("pool:{pool}"),
        }
    }

    fn has(&self, class: Class) -> bool {
        match self {
            Self::Throttle => class == Class::Throttle,
            Self::Concurrency => {
                matches!(class, Class::RunLimit | Class::Keyed | Class::Whole)
            }
            Self::Pool(_) => {
                matches!(class, Class::PoolRunLimit | Class::PoolThrottle | Class::PoolLimit)
            }
        }
    }
}

/// Closing of gates, as a worker reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClose {
    /// The gates.
    pub gate: GateToClose,
    /// The end. It is brought forward to `max_ms` from now if it is later.
    pub until: Until,
    /// The longest time that the closing may last.
    pub max_ms: u64,
}

/// Returns the gates of a run's plan that it closes. The error says why there is none.
pub fn gates(run: &Run, what: &GateToClose) -> Result<Vec<GateKey>, RunError> {
    let planned = run.plan.iter().map(|need| &need.gate);
    let planned = planned.filter(|gate| gate.class().is_some_and(|class| what.has(class)));
    let scopes = planned.filter_map(|gate| Some((gate, gate.scope()?)));
    let own = scopes.filter(|(_, scope)| match what {
        GateToClose::Pool(pool) => scope.name == *pool,
        GateToClose::Throttle | GateToClose::Concurrency => true,
    });
    let own: Vec<_> = own.collect();
    // A service refuses the calls of one account; the keys are what separates accounts.
    let keyed = own.iter().any(|(_, scope)| scope.key != Key::Whole);
    let is_pool = matches!(what, GateToClose::Pool(_));
    let narrow = own.into_iter().filter(|(_, it)| is_pool || !keyed || it.key != Key::Whole);
    let gates: Vec<GateKey> = narrow.map(|(gate, _)| gate.clone()).collect();
    if !gates.is_empty() {
        return Ok(gates);
    }
    let name = &run.workflow;
    let fix = match what {
        GateToClose::Throttle => "has no `throttle` of its own".to_owned(),
        GateToClose::Concurrency => "has no `concurrency` limit of its own".to_owned(),
        GateToClose::Pool(pool) => format!(
            "uses no throttle and no concurrency of pool `{pool}`: add `{{\"pool\": \"{pool}\"}}` \
             to one of them"
        ),
    };
    Err(RunError::of("NoGate", format!("no gate to close: workflow `{name}` {fix}")))
}

/// Closes gates of a run. Has no effect for gates that its plan does not have, which the worker
/// has refused before.
pub(crate) fn close<E>(draft: &mut Draft, run: Seq, new: &NewClose) -> Decided<(), E> {
    let run = draft.run(run)?.cloned().expect("the run was just leased");
    let (at, by) = (draft.now(), run.id);
    let until = new.until.moment(at).min(at.plus_ms(new.max_ms));
    let Ok(gates) = gates(&run, &new.gate) else { return Ok(()) };
    for key in gates {
        let mut gate = gate::gate_or_new(draft, &key)?;
        gate.state.reopen(at);
        gate.state.close(Closed { until, by, at });
        gate.at = gate.at.max(at);
        draft.put(gate);
        gate::settle(draft, &key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        id::{EventId, RunId},
        row::{PlannedGate, Rank, Scope, Source, Span},
        time::Timestamp,
    };

    fn run(gates: &[(Class, &str, Key)]) -> Run {
        let id = RunId { seq: Seq(1), salt: 0 };
        let rank = Rank { at: Timestamp::default(), seq: Seq(1) };
        let source = Source::Event(EventId { seq: Seq(1), salt: 0 });
        let names = ("default".to_owned(), "w".to_owned());
        let run = Run::new(id, "w".into(), names, (1, Seq(1)), source, rank.at, rank);
        let plan = gates.iter().map(|(class, name, key)| {
            let (class, key, name) = (*class, key.clone(), (*name).to_owned());
            let (app, slot) = (String::new(), String::new());
            let scope = Scope { ws: "w".into(), class, app, name, slot, key };
            PlannedGate::new(GateKey::new(&scope), Span::Executing)
        });
        Run { plan: plan.collect(), ..run }
    }

    // spec L27
    #[test]
    fn a_run_closes_the_narrow_gates_of_its_plan() {
        let key = || Key::Value(crate::key::Scalar::text("a".to_owned()));
        let all = [
            (Class::Throttle, "w", Key::Whole),
            (Class::Keyed, "w", key()),
            (Class::Whole, "w", Key::Whole),
            (Class::PoolThrottle, "api", Key::Whole),
            (Class::PoolLimit, "api", key()),
            (Class::PoolLimit, "gpu", Key::Whole),
        ];
        let pool = |name: &str| GateToClose::Pool(name.to_owned());
        for (what, expected) in [
            (GateToClose::Throttle, Ok(vec![0])),
            (GateToClose::Concurrency, Ok(vec![1])),
            (pool("api"), Ok(vec![3, 4])),
            (pool("gpu"), Ok(vec![5])),
            (
                pool("db"),
                Err("no gate to close: workflow `w` uses no throttle and no concurrency of pool \
                     `db`: add `{\"pool\": \"db\"}` to one of them"),
            ),
        ] {
            let run = run(&all);
            let index = |gate: &GateKey| run.plan.iter().position(|need| need.gate == *gate);
            let found = gates(&run, &what);
            let found = found.map(|gates| gates.iter().filter_map(index).collect());
            assert_eq!(
                found.as_ref().map_err(|it| it.message.as_str()),
                expected.as_ref().map_err(|it| *it)
            );
        }
        for what in [GateToClose::Throttle, GateToClose::Concurrency] {
            assert_eq!(gates(&run(&[]), &what).unwrap_err().code, "NoGate");
        }
        let whole = run(&all[2..3]);
        assert_eq!(gates(&whole, &GateToClose::Concurrency).map(|gates| gates.len()), Ok(1));
    }

    // spec L27
    #[test]
    fn the_later_end_wins_and_a_step_of_the_clock_does_not_extend_a_closing() {
        let by = RunId { seq: Seq(1), salt: 0 };
        let time = Timestamp::from_ms;
        let closed = |at: i64, until: i64| Closed { until: time(until), by, at: time(at) };
        let mut state = crate::row::GateState::Slots(crate::row::Slots::default());
        state.close(closed(1000, 5000));
        state.close(closed(2000, 4000));
        assert_eq!(state.closed(time(2000)), Some(&closed(1000, 5000)));
        state.close(closed(3000, 6000));
        assert_eq!(state.closed(time(5999)), Some(&closed(3000, 6000)));
        assert_eq!(state.closed(time(6000)), None);
        state.reopen(time(1000));
        assert_eq!(state.closed(time(1000)), Some(&closed(1000, 4000)));
        state.reopen(time(4000));
        assert_eq!(state, crate::row::GateState::Slots(crate::row::Slots::default()));
    }
}
