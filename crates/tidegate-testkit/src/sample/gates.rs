//! Gates in every state.

use std::collections::BTreeMap;

use tidegate_core::{
    id::{EventId, RunId, Seq},
    key::{Key, Scalar},
    row::{
        Adapted, Claim, Closed, Costs, Fold, Gate, GateKey, GateState, Given, GivenLimit, Hold,
        Meter, Meters, Part, Rank, Row, Scope, Share, Slots, Tag, Turn, Turns,
    },
};

use super::{FUTURE, PAST, event_id, far_place, gate_key, run_id};

fn adapted() -> Adapted {
    let (limit, changes, successes) = (u32::MAX, u32::MAX, u32::MAX);
    Adapted { limit, changes, successes, lowered_at: Some(FUTURE) }
}

pub(super) fn gates() -> Vec<Row> {
    let states = [
        GateState::Slots(Slots::default()),
        GateState::Slots(Slots {
            holders: vec![
                Hold { run: RunId { seq: Seq(i64::MAX), salt: u64::MAX }, draining: true, cost: 7 },
                Hold::new(RunId { seq: Seq(0), salt: 0 }, 1),
            ],
            head: Some(far_place()),
            wanted: Costs::new(vec![u32::MAX]),
            waiting: Some(u32::MAX),
            folds: vec![gate_key("main", "fold"), GateKey::from_bytes(&[0, 255])],
            moved_to: Some(i64::MAX),
            closed: Some(closed()),
            given: Some(given()),
            adapted: Some(adapted()),
            served: Some(far_tag()),
        }),
        GateState::Meter(Meters::from(vec![meter(1)])),
        GateState::Meter(Meters::from(vec![meter(1), Meter { debt: u64::MAX, ..meter(u32::MAX) }])),
        GateState::Meter(Meters { each: vec![meter(1)], given: Some(given()) }),
        GateState::Turns(Turns::default()),
        GateState::Turns(Turns {
            meters: Meters::from(vec![Meter { tat: i64::MIN, rest: 0, ..meter(u32::MAX) }]),
            pending: [vec![], vec![1, 5]]
                .map(|costs| Turn { run: Seq(i64::MAX), costs: Costs::new(costs) })
                .to_vec(),
            head: Some(far_place()),
            wanted: Costs::new(vec![2]),
            closed: Some(closed()),
            served: Some(far_tag()),
        }),
        GateState::Fold(Fold {
            run: RunId { seq: Seq(i64::MAX), salt: u64::MAX },
            first: EventId { seq: Seq(0), salt: 0 },
            last: EventId { seq: Seq(i64::MAX), salt: u64::MAX },
            after: vec![run_id(0), run_id(i64::MAX)],
            opened: PAST,
            deadline: FUTURE,
            count: u32::MAX,
            bytes: u64::MAX,
            costs: sums(),
            full: vec![part()],
            held: true,
            paused: true,
            fired: true,
            led: true,
        }),
        GateState::Claim(Claim { event: event_id(1), run: Some(run_id(2)), until: FUTURE }),
        GateState::Share(Share {
            base: far_tag(),
            first: Seq(i64::MAX),
            rank: Rank { at: FUTURE, seq: Seq(i64::MAX) },
        }),
    ];
    let gate = |(n, state): (usize, GateState)| Gate {
        key: gate_key("every", &n.to_string()),
        id: Seq(i64::MAX),
        at: if n == 0 { PAST } else { FUTURE },
        due: (n > 0).then_some(FUTURE),
        state,
    };
    let mut gates: Vec<_> = states.into_iter().enumerate().map(gate).collect();
    let long = Key::Value(Scalar::text("é".repeat(5000)));
    let scope = gates[0].key.scope().map(|scope| Scope { key: long, ..scope });
    let key = GateKey::new(&scope.expect("a gate key has a scope"));
    gates.push(Gate { key, ..gates[0].clone() });
    gates.push(Gate { key: GateKey::from_bytes(&[]), ..gates[0].clone() });
    gates.into_iter().map(Row::from).collect()
}

fn part() -> Part {
    let (run, first, after) = (run_id(3), event_id(4), vec![run_id(5)]);
    Part { run, first, count: u32::MAX, costs: sums(), after }
}

fn far_tag() -> Tag {
    Tag::default().after(u32::MAX, 999)
}

fn closed() -> Closed {
    Closed { until: FUTURE, by: run_id(i64::MAX), at: PAST }
}

fn meter(limit: u32) -> Meter {
    Meter { tat: i64::MAX, rest: u32::MAX, limit, per_ms: u64::MAX, debt: 0 }
}

pub(super) fn given() -> Given {
    let all = GivenLimit { limit: Some(u32::MAX), burst: Some(1) };
    Given {
        event_id: event_id(i64::MAX),
        number: Some(Seq(i64::MAX)),
        limits: vec![GivenLimit::default(), all],
    }
}

pub(super) fn sums() -> BTreeMap<String, u32> {
    BTreeMap::from([("tokens".to_owned(), u32::MAX)])
}
