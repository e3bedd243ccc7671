//! Shares: the order in which the values of `fair` are served at a gate (spec L16).
//!
//! A value with waiting runs has one row, its share. Its first run by rank is in the gate's queue
//! at the value's tag; its other runs are behind all tags, in a tier of their own. So the first run
//! of the queue and the next run of a value are one step in the index of queues, however many runs
//! and values wait.

use serde::{Deserialize, Serialize};

use super::{Place, Rank};
use crate::{id::Seq, key::Key, time::Timestamp};

/// Parts of a unit: tags are multiples of 10⁻⁹.
const PARTS: u128 = 1_000_000_000;

/// Upper bound of the whole units of a tag, far above what a queue serves before it is empty.
const MAX_UNITS: u64 = 1 << 61;

/// Tiers from this one on have the runs behind the first of their value; added to it is the number
/// of the value's share. Lower tiers above 0 are the whole units of tags.
const BEHIND: i64 = 1 << 62;

/// Virtual time of a fair queue: whole units, and parts of 10⁻⁹.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tag(u64, u32);

impl Tag {
    /// Returns the tag of a run of this cost whose value has this base and weight: later by cost
    /// over weight, rounded up.
    #[must_use]
    pub fn after(self, cost: u32, weight: u32) -> Tag {
        let step = (u128::from(cost) * PARTS).div_ceil(u128::from(weight.max(1)));
        let parts = self.parts() + step;
        let units = u64::try_from(parts / PARTS).unwrap_or(MAX_UNITS);
        Tag(units.min(MAX_UNITS), u32::try_from(parts % PARTS).unwrap_or_default())
    }

    /// Returns how many services of one unit a value of this weight, whose tag is `self`, can have
    /// until the tag `to`, which is included.
    pub fn services_until(self, to: Tag, weight: u32) -> u64 {
        let Some(between) = to.parts().checked_sub(self.parts()) else { return 0 };
        let more = between.saturating_mul(u128::from(weight)) / PARTS;
        u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The tag in parts of 10⁻⁹.
    pub fn parts(self) -> u128 {
        u128::from(self.0) * PARTS + u128::from(self.1)
    }
}

/// State of a value with waiting runs at a fair gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The gate's tag when the first run of the value came, or right after its last service.
    pub base: Tag,
    /// The value's first run by rank, which is in the queue at the value's tag.
    pub first: Seq,
    /// The rank of this run.
    pub rank: Rank,
}

/// Value of `fair` of one run, in its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareOf {
    /// The value.
    pub value: Key,
    /// The number of the value's share, while the run waits at the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<Seq>,
}

impl Place {
    /// Position of the first run of a value: by tag, then by the time of its rank.
    pub fn of_tag(tag: Tag, rank: Rank) -> Place {
        let tier = i64::try_from(tag.0 + 1).unwrap_or(BEHIND - 1);
        let rank = Rank { at: Timestamp::from_micros(tag.1.into()), seq: Seq(rank.at.micros()) };
        Place { tier, rank }
    }

    /// Position of another run of a value, by rank.
    pub fn behind(share: Seq, rank: Rank) -> Place {
        Place { tier: Self::tier_behind(share), rank }
    }

    /// Returns the tier of the runs behind the first of a value.
    pub fn tier_behind(share: Seq) -> i64 {
        BEHIND.saturating_add(share.0)
    }

    /// Returns the tag, if this is the position of a value's first run in the queue of a fair gate.
    pub fn tag(self) -> Option<Tag> {
        let units = u64::try_from(self.tier - 1).ok().filter(|_| self.tier < BEHIND)?;
        let parts = u32::try_from(self.rank.at.micros()).ok()?;
        Some(Tag(units, parts))
    }

    /// Whether this is a position of a value in the queue of a fair gate: at its tag, or behind.
    pub fn is_shared(self) -> bool {
        self.tier > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec L16
    #[test]
    fn tags_are_exact_and_rounded_up() {
        for (base, cost, weight, expected) in [
            (Tag(0, 0), 1, 1, Tag(1, 0)),
            (Tag(0, 0), 1, 3, Tag(0, 333_333_334)),
            (Tag(0, 333_333_334), 1, 3, Tag(0, 666_666_668)),
            (Tag(7, 999_999_999), 2, 1000, Tag(8, 1_999_999)),
            (Tag(0, 0), 1_000_000, 1, Tag(1_000_000, 0)),
            (Tag(0, 0), 1_000_000, 999, Tag(1001, 1_001_002)),
            (Tag(MAX_UNITS, 5), 1, 1, Tag(MAX_UNITS, 5)),
        ] {
            assert_eq!(base.after(cost, weight), expected, "{base:?} {cost} {weight}");
        }
    }

    #[test]
    fn places_are_ordered_by_tag_and_come_before_those_behind() {
        let rank = |at: i64, seq: i64| Rank { at: Timestamp::from_micros(at), seq: Seq(seq) };
        let ordinary = Place { tier: 0, rank: rank(i64::MAX, i64::MAX) };
        let ordered = [
            ordinary,
            Place::of_tag(Tag(0, 1), rank(9, 1)),
            Place::of_tag(Tag(0, 2), rank(-5, 9)),
            Place::of_tag(Tag(0, 2), rank(3, 1)),
            Place::of_tag(Tag(1, 0), rank(0, 0)),
            Place::of_tag(Tag(MAX_UNITS, 999_999_999), rank(0, 0)),
            Place::behind(Seq(4), rank(1, 1)),
            Place::behind(Seq(4), rank(1, 2)),
            Place::behind(Seq(5), rank(0, 0)),
        ];
        assert!(ordered.is_sorted_by(|a, b| a < b), "{ordered:?}");
        assert_eq!(ordinary.tag(), None);
        assert_eq!(ordered[3].tag(), Some(Tag(0, 2)));
        assert_eq!(ordered[5].tag(), Some(Tag(MAX_UNITS, 999_999_999)));
        assert_eq!(ordered[6].tag(), None);
        assert!(!ordinary.is_shared() && ordered[1..].iter().all(|place| place.is_shared()));
    }

    #[test]
    fn services_until_a_tag_are_those_whose_tags_it_reaches() {
        for (from, to, weight, expected) in [
            (Tag(1, 0), Tag(1, 0), 1, 1),
            (Tag(1, 0), Tag(0, 999_999_999), 1, 0),
            (Tag(1, 0), Tag(3, 999_999_999), 1, 3),
            (Tag(0, 333_333_334), Tag(1, 0), 3, 2),
            (Tag(0, 500_000_000), Tag(1, 0), 2, 2),
        ] {
            let mut tag = from;
            let mut counted = 0;
            while tag <= to {
                (tag, counted) = (tag.after(1, weight), counted + 1);
            }
            assert_eq!(from.services_until(to, weight), expected, "{from:?} {to:?} {weight}");
            assert!(counted <= expected, "{from:?} {to:?} {weight}");
        }
    }
}
