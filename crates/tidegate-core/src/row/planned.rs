//! Planned gates: the gates that a run takes, in their order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Calls, Costs, GateKey, Given, ShareOf, Span, run::is_default};

/// One gate of a run's plan. The plan is in the order of spec G9.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedGate {
    /// The gate.
    pub gate: GateKey,
    /// How long the run holds the gate.
    pub span: Span,
    /// The tier of the run in the gate's queue.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier: i64,
    /// The units of the gate's limits that the run takes.
    #[serde(default, skip_serializing_if = "Costs::is_one")]
    pub costs: Costs,
    /// Whether the limit bounded its queue when the run was admitted. Then the gate counts its
    /// waiting runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounded: bool,
    /// Whether the run came to the gate's queue from the queue of an earlier gate. Such a run is
    /// not displaced (spec L19).
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_queue: bool,
    /// The numbers of the gate's limits from the data of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// The parts of the cost that steps of the run take, by step (spec L7). They are part of
    /// `costs`; the rest is the cost of the run itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: BTreeMap<String, u32>,
    /// The run's value of `fair`, if the limit had it when the run was admitted (spec L16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareOf>,
    /// The calls inside, if the limit is adaptive: those of each step that passes the pool, and
    /// under an empty name those of the run itself (spec L28).
    #[serde(default, skip_serializing_if = "is_default")]
    pub calls: BTreeMap<String, Calls>,
}

impl PlannedGate {
    /// Creates the step for a gate of which the run takes one unit.
    pub fn new(gate: GateKey, span: Span) -> Self {
        Self {
            gate,
            span,
            tier: 0,
            costs: Costs::default(),
            bounded: false,
            after_queue: false,
            given: None,
            steps: BTreeMap::new(),
            share: None,
            calls: BTreeMap::new(),
        }
    }

    /// Returns the part of the cost that the run takes for itself, and not for a step.
    pub fn own_cost(&self) -> u32 {
        self.costs.one().saturating_sub(self.steps.values().sum())
    }

    /// Whether only steps need the gate. The run gives it back when their attempts have ended.
    pub fn is_of_steps(&self) -> bool {
        !self.steps.is_empty() && self.own_cost() == 0
    }
}
