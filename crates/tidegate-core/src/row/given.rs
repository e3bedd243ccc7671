//! Numbers of a gate's limits that came from the data of an event (spec L12).

use serde::{Deserialize, Serialize};

use super::{Event, RowNumbers};
use crate::id::{EventId, Seq};

/// Numbers from the data of one event, for the limits of one gate. Those of the event with the
/// highest number apply to the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "FromData"))]
#[serde(rename_all = "camelCase")]
pub struct Given {
    /// The event.
    pub event_id: EventId,
    /// The number of the event's delivery, if it was deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<i64>"))]
    pub number: Option<Seq>,
    /// The numbers for each limit of the gate, by position.
    pub limits: Vec<GivenLimit>,
}

/// Numbers from data for one limit; none where the definition has the number itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LimitFromData"))]
#[serde(default, rename_all = "camelCase")]
pub struct GivenLimit {
    /// The limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Given {
    /// Creates the numbers of an event.
    pub fn of(event: &Event, limits: Vec<GivenLimit>) -> Self {
        let number = event.number();
        let number = (number != event.id.seq).then_some(number);
        Self { event_id: event.id, number, limits }
    }

    /// Returns the one whose event has the highest number.
    pub fn newest<'a>(stored: Option<&'a Self>, own: Option<&'a Self>) -> Option<&'a Self> {
        [stored, own].into_iter().flatten().max_by_key(|given| given.event_number())
    }

    /// Returns the number by which events are ordered.
    pub fn event_number(&self) -> Seq {
        self.number.unwrap_or(self.event_id.seq)
    }

    /// Returns the numbers for the limit at a position.
    pub fn at(&self, position: usize) -> GivenLimit {
        self.limits.get(position).copied().unwrap_or_default()
    }
}

/// Numbers from rows with which the limit of a gate is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers<'a> {
    /// Those of a gate's row; the ones of the definition if the row has none.
    Of(RowNumbers<'a>),
    /// The lowest that the definition allows.
    Lowest,
    /// The highest that the definition allows.
    Highest,
}

impl Numbers<'_> {
    /// Returns these numbers with only the limit at a position, as the first one.
    pub(crate) fn limit(self, position: usize) -> Number {
        self.number(|given| given.at(position).limit)
    }

    /// As [`Numbers::limit`], for the burst.
    pub(crate) fn burst(self, position: usize) -> Number {
        self.number(|given| given.at(position).burst)
    }

    fn number(self, of: impl Fn(&Given) -> Option<u32>) -> Number {
        match self {
            Self::Of(own) => Number::Of(own.given.and_then(of)),
            Self::Lowest => Number::Lowest,
            Self::Highest => Number::Highest,
        }
    }
}

/// One of [`Numbers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// That of an event; the default if there is none.
    Of(Option<u32>),
    /// The lowest that the definition allows.
    Lowest,
    /// The highest that the definition allows.
    Highest,
}
