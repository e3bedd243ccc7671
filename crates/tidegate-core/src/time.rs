//! Timestamps and durations. Time is always an argument: this crate reads no clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Point in time in microseconds since 1970, by the store's clock.
///
/// In rows it is written as a number, in payloads in RFC 3339. Both forms can be deserialized, so
/// that a handler can read a `Timestamp` from its input, also from payloads of older builds, which
/// had the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct Timestamp(i64);

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

/// Deserializer of both forms.
struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment of RFC 3339, or microseconds since 1970")
    }

    fn visit_i64<E: de::Error>(self, micros: i64) -> Result<Timestamp, E> {
        Ok(Timestamp(micros))
    }

    fn visit_u64<E: de::Error>(self, micros: u64) -> Result<Timestamp, E> {
        let unread = || E::invalid_value(de::Unexpected::Unsigned(micros), &self);
        i64::try_from(micros).map(Timestamp).map_err(|_| unread())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let unread = || E::invalid_value(de::Unexpected::Str(text), &self);
        Timestamp::parse_rfc3339(text).ok_or_else(unread)
    }
}

impl Timestamp {
    /// Creates a timestamp from microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Creates a timestamp from milliseconds since 1970.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// Returns microseconds since 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The earliest timestamp.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest timestamp.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the time `ms` milliseconds later; at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(micros_of(ms)))
    }

    /// Returns the time `ms` milliseconds earlier.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(micros_of(ms)))
    }

    /// Returns the milliseconds from this time to a later one, rounded up.
    pub fn ms_until(self, later: Self) -> u64 {
        u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0).div_ceil(1000)
    }

    /// Returns the earlier of this time and `now` plus `ms` milliseconds. A due time that is
    /// further ahead than its duration allows was written before the clock stepped back.
    #[must_use]
    pub fn capped(self, now: Self, ms: u64) -> Self {
        self.min(now.plus_ms(ms))
    }
}

// Not implemented with jiff, which the engine uses for calendars, for three reasons: seconds have
// zero, three or six fractional digits here, and as few as needed in jiff; jiff has no text for
// times after the year 9999; and jiff accepts forms that are not RFC 3339, such as times without
// seconds.
/// RFC 3339 format.
impl Timestamp {
    /// Formats the time as RFC 3339, in UTC, with zero, three or six fractional digits.
    pub fn rfc3339(self) -> String {
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        let digits = match micros {
            0 => String::new(),
            micros if micros % 1000 == 0 => format!(".{:03}", micros / 1000),
            micros => format!(".{micros:06}"),
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{digits}Z")
    }

    /// Parses RFC 3339 with the years 1 to 9999. Digits after the microseconds are dropped.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let days = days_of(year, month, day)?;
        let clock = rest.strip_prefix(['T', 't', ' '])?;
        let (clock, rest) = clock.split_at_checked(8)?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let (micros, zone) = fraction(rest)?;
        let east = match zone.chars().next()? {
            'Z' | 'z' if zone.len() == 1 => 0,
            sign @ ('+' | '-') => {
                let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
                let minutes = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
                if sign == '+' { minutes } else { -minutes }
            }
            _ => return None,
        };
        (hour < 24 && minute < 60 && second <= 60).then_some(())?;
        // A leap second counts as the second 59 of the same minute.
        let seconds = days * 86_400 + hour * 3600 + (minute - east) * 60 + second.min(59);
        Some(Self(seconds * 1_000_000 + micros))
    }
}

/// Types for `#[serde(with = "…")]` that serialize timestamps as RFC 3339, for answers. With the
/// feature `schemars` they also give the JSON Schemas of such fields.
pub(crate) mod rfc3339 {
    use serde::{Serialize as _, Serializer};

    use super::Timestamp;

    /// A timestamp that is always present.
    pub(crate) struct Time;

    /// An optional timestamp.
    pub(crate) struct OptionalTime;

    /// A list of timestamps.
    pub(crate) struct Times;

    impl Time {
        #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
        pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
            at.rfc3339().serialize(to)
        }
    }

    impl OptionalTime {
        #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
        pub(crate) fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            at.map(Timestamp::rfc3339).serialize(to)
        }
    }

    impl Times {
        pub(crate) fn serialize<S: Serializer>(
            all: &[Timestamp],
            to: S,
        ) -> Result<S::Ok, S::Error> {
            to.collect_seq(all.iter().map(|at| at.rfc3339()))
        }
    }
}

/// Parses the microseconds after a decimal point, if there is one. Returns them and the remaining
/// text.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(text) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = text.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let digits: String = text[..end].chars().chain("000000".chars()).take(6).collect();
    Some((digits.parse().ok()?, &text[end..]))
}

/// Parses numbers that are separated by `between`. `digits` has the number of digits of each. None
/// if the text has another form.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (place, length) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let plain = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        *place = part.parse().ok().filter(|_| plain)?;
    }
    parts.next().is_none().then_some(found)
}

/// Returns the year, month and day of a day that is counted from 1970, in the proleptic Gregorian
/// calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years are counted from the first of March in eras of 400 years, so that the leap day is the
    // last day of a year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the day of a date, counted from 1970; none if there is no such date.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let (of, month_of) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (of.div_euclid(400), of.rem_euclid(400));
    let of_year = (153 * month_of + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    (year > 0 && civil(days) == (year, month, day)).then_some(days)
}

fn micros_of(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1000)
}

impl fmt::Display for Timestamp {
    /// Formats milliseconds with a fraction, if there is one; for tests and traces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, rest) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        if rest == 0 { write!(f, "{ms}") } else { write!(f, "{ms}.{rest:03}") }
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn a_moment_is_written_and_read_by_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (4_107_542_399_500_000, "2100-02-28T23:59:59.500Z"),
            (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        ] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(at.rfc3339(), text);
            assert_eq!(Timestamp::parse_rfc3339(text), Some(at), "{text}");
        }
    }

    #[test]
    fn a_moment_is_read_from_both_forms_and_from_nothing_else() {
        let noon = Timestamp::from_ms(1_794_830_400_000);
        let text = format!("\"{}\"", noon.rfc3339());
        for json in ["1794830400000000", &text, "\"2026-11-16T13:00:00+01:00\""] {
            assert_eq!(serde_json::from_str::<Timestamp>(json).ok(), Some(noon), "{json}");
        }
        assert_eq!(serde_json::to_string(&noon).unwrap(), "1794830400000000", "as rows hold it");
        for json in ["\"noon\"", "1.5", "18446744073709551615", "null", "[]"] {
            assert!(serde_json::from_str::<Timestamp>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn other_spellings_of_a_moment_are_read() {
        let noon = Timestamp::parse_rfc3339("2026-11-16T12:00:00Z");
        for text in [
            "2026-11-16t12:00:00z",
            "2026-11-16 12:00:00.000Z",
            "2026-11-16T12:00:00.0000009Z",
            "2026-11-16T13:30:00+01:30",
            "2026-11-15T23:00:00-13:00",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), noon, "{text}");
        }
        let leap = Timestamp::parse_rfc3339("2016-12-31T23:59:60Z");
        assert_eq!(leap, Timestamp::parse_rfc3339("2016-12-31T23:59:59Z"));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "now",
            "2026-11-16",
            "2026-11-16T12:00:00",
            "2026-11-16T12:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-11-16T24:00:00Z",
            "2026-11-16T12:60:00Z",
            "2026-11-16T12:00:61Z",
            "2026-11-16T12:00:00.Z",
            "2026-11-16T12:00:00.5",
            "2026-11-16T12:00:00ZZ",
            "2026-11-16T12:00:00+1:00",
            "2026-11-16T12:00:00+24:00",
            "+026-11-16T12:00:00Z",
            "0000-01-01T00:00:00Z",
            "2026-11-16T12:00:00é",
            "2026‐11-16T12:00:00Z",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
    }
}
