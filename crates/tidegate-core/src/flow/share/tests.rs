//! Random arrivals, ends, cancellations and wakes at a fair gate, against the bound of spec L17.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    command::Refusal,
    definition::Definition,
    doctor::Checkup,
    flow::gate,
    id::{EventId, RunId},
    json::Payload,
    key::Scalar,
    row::{Class, Def, Epoch, Rank, Row, Scope, Source, Span},
    testing::{World, ws},
    time::Timestamp,
};

/// Limit of the gate, and greatest cost of a run.
const LIMIT: u32 = 4;

/// One step: of a value, a cost or a run by its position.
#[derive(Clone, Debug)]
enum Op {
    /// A run of this value and cost arrives, with a shift of its rank.
    Arrive(usize, u32, i64),
    /// A run inside ends.
    End(usize),
    /// A waiting run is cancelled.
    Cancel(usize),
    /// A run inside wakes or is retried: it queues again with its old rank.
    Again(usize),
}

fn op() -> impl Strategy<Value = Op> {
    // One value has most of the runs.
    let value = prop_oneof![3 => Just(0_usize), 2 => 1..5_usize];
    prop_oneof![
        6 => (value, 1..=LIMIT, prop_oneof![4 => Just(0), 1 => 1..90_i64])
            .prop_map(|(value, cost, shift)| Op::Arrive(value, cost, shift)),
        6 => (0..4_usize).prop_map(Op::End),
        1 => (0..9_usize).prop_map(Op::Cancel),
        2 => (0..4_usize).prop_map(Op::Again),
    ]
}

fn value(n: usize) -> Key {
    Key::Value(Scalar::text(format!("v{n}")))
}

/// A gate with its runs, and what each waiting value has seen.
struct Stage {
    world: World,
    gate: GateKey,
    weights: Vec<u32>,
    arrived: i64,
    /// By waiting value: the greatest cost of its first run, and the units that others got, since
    /// its arrival or last service.
    waits: BTreeMap<usize, (u32, BTreeMap<usize, u64>)>,
    /// The greatest cost of each value.
    greatest: BTreeMap<usize, u32>,
}

impl Stage {
    fn new(weights: Vec<u32>) -> Self {
        let named: BTreeMap<_, _> = weights.iter().enumerate().collect();
        let named: BTreeMap<_, _> = named.iter().map(|(n, it)| (format!("v{n}"), it)).collect();
        let fair = json!({ "by": "v", "weights": named });
        let limit = json!({ "limit": LIMIT, "cost": "c", "fair": fair });
        let definition = json!({ "name": "w", "concurrency": limit });
        let definition = Definition::parse(&definition).expect("a good definition").value;
        let body = serde_json::to_value(&definition).expect("a definition is serializable");
        let (app, name) = (definition.app.clone(), definition.name.clone());
        let def = Def {
            lane: Seq(1),
            ws: ws(),
            app: app.clone(),
            name: name.clone(),
            version: 1,
            body: Payload::from_value(&body),
            released: Some(1),
            assigned: None,
            deployed: false,
        };
        let mut world = World::at_ms(1_000_000);
        for row in [Row::from(def), Row::from(Epoch { ws: ws(), n: 1 })] {
            world.rows.insert(row.key(), row);
        }
        let (slot, key) = (String::new(), Key::Whole);
        let scope = Scope { ws: ws(), class: Class::Whole, app, name, slot, key };
        let gate = GateKey::new(&scope);
        let (waits, greatest) = (BTreeMap::new(), BTreeMap::new());
        Self { world, gate, weights, arrived: 10, waits, greatest }
    }

    fn runs(&self) -> Vec<Run> {
        self.world.rows.values().filter_map(Row::as_run).cloned().collect()
    }

    fn waiting(&self) -> Vec<(Place, Run)> {
        let place = |run: &Run| {
            if let Phase::Queued { place, .. } = run.phase { Some(place) } else { None }
        };
        let mut waiting: Vec<_> =
            self.runs().into_iter().filter_map(|run| Some((place(&run)?, run))).collect();
        waiting.sort_by_key(|(place, run)| (*place, run.id));
        waiting
    }

    fn inside(&self) -> Vec<Run> {
        self.runs().into_iter().filter(|run| run.entered == 1).collect()
    }

    fn arrive(&mut self, n: usize, cost: u32, shift: i64) {
        self.arrived += 1;
        self.world.pass_ms(1);
        let (id, now) = (RunId { seq: Seq(self.arrived), salt: 0 }, self.world.now);
        let at = Timestamp::from_micros(now.micros() - shift * 1000);
        let (rank, source) =
            (Rank { at, seq: id.seq }, Source::Event(EventId { seq: Seq(1), salt: 0 }));
        let name = ("default".to_owned(), "w".to_owned());
        let mut run = Run::new(id, ws(), name, (1, Seq(1)), source, now, rank);
        let planned = PlannedGate::new(self.gate.clone(), Span::Executing);
        let share = Some(ShareOf { value: value(n), number: None });
        run.plan = vec![PlannedGate { costs: Costs::new(vec![cost]), share, ..planned }];
        let known = self.greatest.entry(n).or_default();
        *known = cost.max(*known);
        self.decide(|draft| {
            draft.run::<Refusal>(run.id.seq)?;
            gate::advance(draft, run.clone())
        });
    }

    fn decide(&mut self, mut decide: impl FnMut(&mut Draft) -> Decided<(), Refusal>) {
        self.world.decide(&mut decide).expect("nothing is refused");
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Arrive(n, cost, shift) => self.arrive(n, cost, shift),
            Op::End(n) | Op::Again(n) => {
                let inside = self.inside();
                let Some(run) = inside.get(n % inside.len().max(1)).cloned() else { return };
                let again = matches!(op, Op::Again(_));
                self.decide(|draft| {
                    let mut run = draft.run::<Refusal>(run.id.seq)?.cloned().expect("it is inside");
                    if again {
                        return gate::requeue(draft, run);
                    }
                    gate::release(draft, &mut run, 0)?;
                    draft.delete(RowKey::Run(run.id.seq));
                    Ok(())
                });
            }
            Op::Cancel(n) => {
                let waiting = self.waiting();
                let Some((_, run)) = waiting.get(n % waiting.len().max(1)).cloned() else { return };
                self.decide(|draft| {
                    let mut run = draft.run::<Refusal>(run.id.seq)?.cloned().expect("it waits");
                    gate::release(draft, &mut run, 0)?;
                    draft.delete(RowKey::Run(run.id.seq));
                    Ok(())
                });
            }
        }
    }

    /// Applies a step, and compares what each waiting value has seen with the bound.
    fn step(&mut self, op: &Op) -> Result<(), String> {
        let value_of = |run: &Run| {
            let of = run.plan[0].share.as_ref().expect("every run has a value");
            of.value.to_string()[1..].parse::<usize>().expect("a number")
        };
        let mut before: Vec<RunId> = self.inside().iter().map(|run| run.id).collect();
        if let Op::Again(n) = op {
            // If it is inside afterwards, its value was served.
            let left = n.checked_rem(before.len()).map(|n| before[n]);
            before.retain(|id| Some(*id) != left);
        }
        self.apply(op);
        let mut checkup = Checkup::without_limits();
        self.world.rows.values().for_each(|row| checkup.see(row));
        let findings = checkup.conclude().findings;
        let findings: Vec<_> =
            findings.iter().filter(|it| it.rule == crate::doctor::Rule::Shares).collect();
        if !findings.is_empty() {
            return Err(format!("{findings:?}"));
        }
        let came: Vec<Run> =
            self.inside().into_iter().filter(|run| !before.contains(&run.id)).collect();
        let mut firsts = BTreeMap::new();
        for (place, run) in self.waiting() {
            if place.tag().is_some() {
                firsts.insert(value_of(&run), run.plan[0].costs.one());
            }
        }
        self.waits.retain(|n, _| firsts.contains_key(n));
        for run in &came {
            self.waits.remove(&value_of(run));
        }
        for (i, cost) in firsts {
            let served = came.iter().any(|run| value_of(run) == i);
            let known = self.waits.contains_key(&i);
            let (c, units) = self.waits.entry(i).or_default();
            *c = cost.max(*c);
            if served || !known {
                continue;
            }
            for run in &came {
                *units.entry(value_of(run)).or_default() += u64::from(run.plan[0].costs.one());
            }
            for (&j, &units) in units.iter() {
                let share = u64::from(self.weights[j]) * u64::from(*c) / u64::from(self.weights[i]);
                let most = share + u64::from(self.greatest[&j]);
                if units > most {
                    return Err(format!("while v{i} waited with {c}, v{j} got {units} of {most}"));
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// spec L17, I71
    #[test]
    fn no_value_gets_more_than_the_bound_while_another_waits(
        weights in proptest::collection::vec(prop_oneof![Just(1), Just(2), Just(3), 1..=1000_u32], 5),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut stage = Stage::new(weights);
        for op in &ops {
            let outcome = stage.step(op);
            prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
        }
        // Every run is served in the end.
        for _ in 0..ops.len() {
            let outcome = stage.step(&Op::End(0));
            prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
        }
        prop_assert!(stage.waiting().is_empty() && stage.inside().is_empty());
        let left = stage.world.rows.values().filter_map(Row::as_gate).any(|gate| {
            matches!(gate.state, GateState::Share(_)) || gate.state.served().is_some()
        });
        prop_assert!(!left, "an empty queue has turns");
    }
}
