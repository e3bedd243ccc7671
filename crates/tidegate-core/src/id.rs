//! Sequence numbers and public ids.
//!
//! An id is a sequence number of the store with a random salt. So a run is found by its id without
//! another index, ids sort by arrival, and an id of one store is not valid in another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Sequence number given by the store. For all transactions that share a lock, it grows in the
/// order of their decisions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not an id of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} id: expected `{kind}_` and 26 letters and digits")]
pub struct IdError {
    kind: &'static str,
    text: String,
}

/// Crockford's alphabet: without letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn print(f: &mut fmt::Formatter<'_>, kind: &str, seq: Seq, salt: u64) -> fmt::Result {
    let bits = (u128::from(seq.0.cast_unsigned()) << 64) | u128::from(salt);
    write!(f, "{kind}_{}", letters(bits))
}

fn letters(bits: u128) -> String {
    let mut text = [0u8; 26];
    for (place, letter) in text.iter_mut().rev().enumerate() {
        let digit = (bits >> (5 * place)) & 31;
        *letter = ALPHABET[usize::try_from(digit).unwrap_or_default()];
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn parse(kind: &'static str, text: &str) -> Result<(Seq, u64), IdError> {
    let error = || IdError { kind, text: text.chars().take(64).collect() };
    let rest = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_'));
    let letters = rest.filter(|rest| rest.len() == 26).ok_or_else(error)?;
    let mut bits: u128 = 0;
    for letter in letters.bytes() {
        let digit = ALPHABET.iter().position(|known| *known == letter).ok_or_else(error)?;
        if bits >> 123 != 0 {
            return Err(error());
        }
        bits = (bits << 5) | digit as u128;
    }
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
    Ok((Seq(half(bits >> 64).cast_signed()), half(bits)))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The number by which the store finds the row.
            pub seq: Seq,
            /// A random number, so that an id of another store does not match a row by accident.
            pub salt: u64,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(f, $kind, self.seq, self.salt)
            }
        }

        /// Writes the id as people see it everywhere else, so that a log or a failed assertion can
        /// be searched for.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                parse($kind, text).map(|(seq, salt)| Self { seq, salt })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Id of a run. For an action it is also the id of the request.
    RunId,
    "run"
);
id!(
    /// Id of an event that was posted or committed to a stream.
    EventId,
    "evt"
);
id!(
    /// Id of a chore: work that is done in chunks.
    ChoreId,
    "chore"
);

/// Id of a schedule. It is computed from the definition, so that every engine gets the same id
/// without storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleId(u128);

impl ScheduleId {
    /// Returns the id of a workflow's schedule.
    pub fn new(app: &str, workflow: &str, schedule: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [app, workflow, schedule] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (first, _) = hash.split_at(16);
        Self(first.iter().fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
    }
}

impl fmt::Display for ScheduleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sch_{}", letters(self.0))
    }
}

impl FromStr for ScheduleId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let (seq, salt) = parse("sch", text)?;
        Ok(Self((u128::from(seq.0.cast_unsigned()) << 64) | u128::from(salt)))
    }
}

impl Serialize for ScheduleId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_their_text() {
        for (seq, salt) in [(0, 0), (1, 2), (i64::MAX, u64::MAX), (1 << 40, 77)] {
            let id = RunId { seq: Seq(seq), salt };
            let text = id.to_string();
            assert_eq!(text.len(), 30, "{text}");
            assert_eq!(text.parse(), Ok(id));
        }
    }

    #[test]
    fn text_that_is_no_id_is_named_in_the_error() {
        let bad = ["run_", "evt_00000000000000000000000000", "run_0000000000000000000000000u", ""];
        for text in bad {
            let error = text.parse::<RunId>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_schedule_has_one_id_everywhere_and_no_other_has_it() {
        let id = |app, workflow, schedule| ScheduleId::new(app, workflow, schedule).to_string();
        assert_eq!(id("default", "report", "@daily"), "sch_3vhg4wr080zyskrpfp7j3z70c9");
        let parsed: ScheduleId = id("a", "b", "c").parse().unwrap();
        assert_eq!(parsed, ScheduleId::new("a", "b", "c"));
        assert_ne!(id("a", "bc", "d"), id("ab", "c", "d"));
        assert_ne!(id("a", "b", "cd"), id("a", "bc", "d"));
    }

    #[test]
    fn ids_sort_by_arrival() {
        let early = RunId { seq: Seq(5), salt: u64::MAX }.to_string();
        let late = RunId { seq: Seq(6), salt: 0 }.to_string();
        assert!(early < late);
    }
}
