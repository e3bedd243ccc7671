//! Moments and spans. Time is an argument: nothing in this crate reads a clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A moment in microseconds since 1970, by the store's clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A moment so many microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// A moment so many milliseconds after 1970.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// Microseconds since 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The moment `ms` milliseconds later. Saturates: a far future is as good as never.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(micros_of(ms)))
    }

    /// The moment `ms` milliseconds earlier.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(micros_of(ms)))
    }
}

fn micros_of(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1000)
}

impl fmt::Display for Timestamp {
    /// Milliseconds with the fraction where there is one, as tests and traces print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, rest) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        if rest == 0 { write!(f, "{ms}") } else { write!(f, "{ms}.{rest:03}") }
    }
}
