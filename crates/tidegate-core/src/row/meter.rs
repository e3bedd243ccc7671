//! State of meters and throttles, and the costs that they count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Given;
use crate::{
    id::Seq,
    row::{Closed, Place, Tag},
};

/// Costs at the limits of one gate, by their position; 1 where there is none. A gate has one limit
/// unless a throttle or a rate limit has several for the same key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Costs(Vec<u32>);

impl Costs {
    /// Creates the costs; those of 1 at the end are left out.
    pub fn new(mut units: Vec<u32>) -> Self {
        while units.last() == Some(&1) {
            units.pop();
        }
        Self(units)
    }

    /// Returns the sums of two uses of one gate that has this many limits.
    #[must_use]
    pub fn plus(&self, other: &Self, limits: usize) -> Self {
        Self::new((0..limits).map(|n| self.at(n).saturating_add(other.at(n))).collect())
    }

    /// Whether all costs are 1.
    pub fn is_one(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the cost at the limit of this position.
    pub fn at(&self, position: usize) -> u32 {
        self.0.get(position).copied().unwrap_or(1)
    }

    /// Returns the cost at a gate with one limit.
    pub fn one(&self) -> u32 {
        self.at(0)
    }
}

/// Sums of the costs of a batch's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCosts {
    /// Number of events.
    pub events: u32,
    /// The sums of the numbers at each path; a path that is not listed counts 1 for each event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, u32>,
}

/// GCRA: the exact theoretical arrival time, with the rate that it was computed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Whole microseconds of the theoretical arrival time.
    pub tat: i64,
    /// The remainder, in `1/limit` of a microsecond.
    pub rest: u32,
    /// The limit that the time was computed under.
    pub limit: u32,
    /// The period that the time was computed under.
    pub per_ms: u64,
    /// Units beyond the burst, which are paid after the theoretical arrival time. They are apart
    /// from it, so that the correction of a clock that stepped back does not forgive them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub debt: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(debt: &u64) -> bool {
    *debt == 0
}

/// Meters of one key: one for each limit with this key, by position; empty before the first
/// arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredMeters", into = "StoredMeters")]
pub struct Meters {
    /// The meters.
    pub each: Vec<Meter>,
    /// The numbers of the limits that came from the data of an event.
    pub given: Option<Given>,
}

impl Meters {
    /// Returns the meter of the limit at this position; none before its first arrival.
    pub fn at(&self, position: usize) -> Option<Meter> {
        self.each.get(position).copied()
    }

    /// Whether nothing was counted yet, and no event has set a limit.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty() && self.given.is_none()
    }

    /// Returns other meters of the same key.
    #[must_use]
    pub fn with(&self, each: Vec<Meter>) -> Self {
        Self { each, given: self.given.clone() }
    }
}

impl From<Vec<Meter>> for Meters {
    fn from(each: Vec<Meter>) -> Self {
        Self { each, given: None }
    }
}

/// Stored form: without numbers from data, a list of meters or a single one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredMeters {
    Given { meters: Vec<Meter>, given: Given },
    Plain(#[serde(with = "crate::one_or_many")] Vec<Meter>),
}

impl From<StoredMeters> for Meters {
    fn from(stored: StoredMeters) -> Self {
        match stored {
            StoredMeters::Given { meters, given } => Self { each: meters, given: Some(given) },
            StoredMeters::Plain(each) => Self { each, given: None },
        }
    }
}

impl From<Meters> for StoredMeters {
    fn from(Meters { each, given }: Meters) -> Self {
        match given {
            Some(given) => Self::Given { meters: each, given },
            None => Self::Plain(each),
        }
    }
}

/// Throttle: its meters, the runs that passed it and have not started, and its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// The meters.
    #[serde(default, rename = "meter", skip_serializing_if = "Meters::is_empty")]
    pub meters: Meters,
    /// Runs that passed the throttle and are not leased yet: each has a turn.
    pub pending: Vec<Turn>,
    /// A lower bound of the first position in the queue; none means that the queue is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Place>,
    /// The costs of the run at that position.
    #[serde(default, skip_serializing_if = "Costs::is_one")]
    pub wanted: Costs,
    /// The closing by a run, also after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The tag of the latest service while values of `fair` wait (spec L16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Tag>,
}

/// Turn of a run that passed a throttle and is not leased yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredTurn", into = "StoredTurn")]
pub struct Turn {
    /// The run.
    pub run: Seq,
    /// The units that its start will spend.
    pub costs: Costs,
}

/// Stored form: a turn of one unit is written as its run.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredTurn {
    Run(Seq),
    Costs(Seq, Costs),
}

impl From<StoredTurn> for Turn {
    fn from(stored: StoredTurn) -> Self {
        match stored {
            StoredTurn::Run(run) => Self { run, costs: Costs::default() },
            StoredTurn::Costs(run, costs) => Self { run, costs },
        }
    }
}

impl From<Turn> for StoredTurn {
    fn from(Turn { run, costs }: Turn) -> Self {
        if costs.is_one() { Self::Run(run) } else { Self::Costs(run, costs) }
    }
}
