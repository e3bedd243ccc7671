//! The meter: a GCRA in exact arithmetic, shared by `throttle` and `rateLimit`.
//!
//! Arrivals conform when they are at least `per / limit` apart, with `burst` of them allowed at
//! once. The theoretical arrival time is kept in whole microseconds and a rest in `1/limit` of a
//! microsecond, so that no rate is rounded and nothing drifts.

use crate::{
    definition::{Code, Problems},
    row::Meter,
    time::Timestamp,
};

/// What the author wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The most arrivals in a period, on average.
    pub limit: u32,
    /// The period.
    pub per_ms: u64,
    /// How many may come at once.
    pub burst: u32,
}

/// Asks whether an arrival conforms at `now`, with `ahead` others let through and not stamped.
///
/// `Err` says when it will: exactly then it conforms, a microsecond before it does not. `None`
/// means not before one of those ahead is stamped.
pub fn conforms(
    meter: Option<Meter>,
    rate: Rate,
    ahead: usize,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    if ahead >= rate.burst as usize {
        return Err(None);
    }
    let turn = turn(meter, rate, ahead, now);
    if turn <= now { Ok(()) } else { Err(Some(turn)) }
}

/// As [`conforms`], for an arrival that `line` others stand before: `Err` says when its own turn is.
pub fn turn_in_line(
    meter: Option<Meter>,
    rate: Rate,
    (through, line): (usize, usize),
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    let own = |_| turn(meter, rate, through + line, now);
    conforms(meter, rate, through, now).map_err(|next| next.map(own))
}

/// When an arrival conforms at the earliest, with `ahead` others before it that take a turn each.
pub fn turn(meter: Option<Meter>, rate: Rate, ahead: usize, now: Timestamp) -> Timestamp {
    let ahead = i128::from(u32::try_from(ahead).unwrap_or(u32::MAX));
    let scale = i128::from(rate.limit);
    let tolerance = (i128::from(rate.burst) - 1 - ahead) * interval(rate);
    let earliest = theoretical(meter, rate, now) - tolerance;
    let earliest = earliest.max(i128::from(now.micros()) * scale);
    let micros = earliest.div_euclid(scale) + i128::from(earliest.rem_euclid(scale) > 0);
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Counts an arrival that came at `now`.
pub fn stamp(meter: Option<Meter>, rate: Rate, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let from = theoretical(meter, rate, now).max(i128::from(now.micros()) * scale);
    count(from, rate)
}

/// Counts a start that was put off until `now`.
///
/// A start that comes within the microsecond in which it was due counts from when it was due:
/// rounding up to the clock's unit must not add up over many starts.
pub fn stamp_turn(meter: Option<Meter>, rate: Rate, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let due = theoretical(meter, rate, now);
    let late = i128::from(now.micros()) * scale - due;
    if late < scale { count(due, rate) } else { stamp(meter, rate, now) }
}

fn count(from: i128, rate: Rate) -> Meter {
    kept(from + interval(rate), rate)
}

/// A theoretical arrival time, in `1/limit` of a microsecond, as it is remembered.
fn kept(next: i128, rate: Rate) -> Meter {
    let scale = i128::from(rate.limit);
    Meter {
        tat: i64::try_from(next.div_euclid(scale)).unwrap_or(i64::MAX),
        rest: u32::try_from(next.rem_euclid(scale)).unwrap_or(0),
        limit: rate.limit,
        per_ms: rate.per_ms,
    }
}

/// When nothing is left to remember.
pub fn forgets_at(meter: Meter) -> Timestamp {
    Timestamp::from_micros(meter.tat.saturating_add(1))
}

/// The gap between two arrivals, in `1/limit` of a microsecond.
fn interval(rate: Rate) -> i128 {
    i128::from(rate.per_ms) * 1000
}

/// The theoretical arrival time under the rate of today, in `1/limit` of a microsecond.
fn theoretical(meter: Option<Meter>, rate: Rate, now: Timestamp) -> i128 {
    match meter {
        Some(meter) => exact(of_today(meter, rate, now)),
        None => i128::from(now.micros()) * i128::from(rate.limit),
    }
}

/// The meter under the rate of today and the clock of today.
///
/// What was counted under another rate is counted again: the last arrival stays where it was, and
/// the gap after it is today's. Arrivals that were let in early, on the burst, have all come by
/// now: each of them costs one of today's gaps.
///
/// No arrival pushes it further than the burst. If it is further, the clock has gone back, and
/// the key must not stay shut for longer than one gap: whoever refuses has to keep this.
pub fn of_today(meter: Meter, rate: Rate, now: Timestamp) -> Meter {
    let (old, new) = (i128::from(meter.limit), i128::from(rate.limit));
    let now = i128::from(now.micros());
    let next = if meter.limit == rate.limit && meter.per_ms == rate.per_ms {
        exact(meter)
    } else {
        let gap = i128::from(meter.per_ms) * 1000;
        let last = exact(meter) - gap;
        let early = ((last - now * old).max(0) + gap - 1).div_euclid(gap);
        let since = ((last - early * gap) * new + old - 1).div_euclid(old);
        since + (early + 1) * interval(rate)
    };
    kept(next.min(now * new + i128::from(rate.burst) * interval(rate)), rate)
}

fn exact(meter: Meter) -> i128 {
    i128::from(meter.tat) * i128::from(meter.limit) + i128::from(meter.rest)
}

/// The longest time in which a burst may refill: 100 years, well inside the range of a timestamp.
const LONGEST_REFILL_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1000;

/// Refuses a burst that takes longer than [`LONGEST_REFILL_MS`] to refill.
pub(super) fn check_refill(control: &str, rate: Option<Rate>, problems: &mut Problems) {
    let Some(rate) = rate else { return };
    let refill = u128::from(rate.burst) * u128::from(rate.per_ms) / u128::from(rate.limit);
    if refill > LONGEST_REFILL_MS {
        let message = format!(
            "of {} takes more than 100 years to come back at {} in {} ms: make it smaller",
            rate.burst, rate.limit, rate.per_ms
        );
        problems.error(Code::OutOfRange, &format!("{control}.burst"), message);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn admit(meter: &mut Option<Meter>, rate: Rate, now: i64) -> Result<(), Option<Timestamp>> {
        conforms(*meter, rate, 0, at(now))?;
        *meter = Some(stamp(*meter, rate, at(now)));
        Ok(())
    }

    /// spec M1, I12: two million steps, against the sum taken in big integers.
    #[test]
    fn two_million_steps_do_not_drift() {
        for (limit, per_ms) in
            [(3, 1000), (7, 1), (1, 1), (1_000_000, 1), (999_983, 31_536_000_000)]
        {
            let rate = Rate { limit, per_ms, burst: 1 };
            let mut meter = None;
            let mut now = 1_700_000_000_000_000;
            let start = now;
            for n in 0..400_000_i128 {
                if let Err(when) = conforms(meter, rate, 0, at(now)) {
                    now = when.unwrap().micros();
                }
                meter = Some(stamp_turn(meter, rate, at(now)));
                let exact = n * i128::from(per_ms) * 1000;
                let rounded = (exact + i128::from(limit) - 1) / i128::from(limit);
                assert_eq!(i128::from(now - start), rounded, "{limit} per {per_ms} ms, start {n}");
            }
        }
    }

    /// spec M1, I12: arrivals that all come at once are spread without any drift.
    #[test]
    fn a_backlog_of_two_million_ends_exactly_when_it_should() {
        for (limit, per_ms) in [(3_u32, 1000_u64), (1_000_000, 1), (1_000_000, 31_536_000_000)] {
            let burst = 2_000_000;
            let rate = Rate { limit, per_ms, burst };
            let mut meter = None;
            for n in 0..2_000_000 {
                assert_eq!(admit(&mut meter, rate, 0), Ok(()), "{limit}/{per_ms}: {n}");
            }
            let meter = meter.unwrap();
            let tat = i128::from(meter.tat) * i128::from(limit) + i128::from(meter.rest);
            assert_eq!(tat, 2_000_000 * i128::from(per_ms) * 1000);
        }
    }

    /// spec I14: the moment given is exact.
    #[test]
    fn the_moment_given_is_the_first_that_conforms() {
        for limit in 1..=1000 {
            let rate = Rate { limit, per_ms: 1000, burst: 1 };
            let mut meter = None;
            assert_eq!(admit(&mut meter, rate, 5), Ok(()), "a lone arrival always conforms");
            let when = conforms(meter, rate, 0, at(5)).unwrap_err().unwrap();
            assert!(conforms(meter, rate, 0, at(when.micros() - 1)).is_err(), "{limit}");
            assert!(conforms(meter, rate, 0, when).is_ok(), "{limit}");
        }
    }

    /// spec M2: a clock that goes back shuts no key for longer than a period.
    #[test]
    fn a_clock_that_goes_back_shuts_no_key_for_long() {
        let rate = Rate { limit: 2, per_ms: 1000, burst: 2 };
        let mut meter = None;
        let hour = 3_600_000_000;
        for _ in 0..2 {
            admit(&mut meter, rate, hour).unwrap();
        }
        let when = conforms(meter, rate, 0, at(0)).unwrap_err().unwrap();
        assert!(when <= at(1_000_000), "shut until {when}");
        meter = meter.map(|meter| of_today(meter, rate, at(0)));
        assert_eq!(admit(&mut meter, rate, when.micros()), Ok(()), "and no longer");
    }

    /// spec M1: after a limit change the gap since the last start is the new one.
    #[test]
    fn a_new_limit_counts_from_the_last_arrival() {
        let fast = Rate { limit: 10, per_ms: 1000, burst: 1 };
        let slow = Rate { limit: 1, per_ms: 1000, burst: 1 };
        let mut meter = None;
        admit(&mut meter, fast, 0).unwrap();
        assert_eq!(conforms(meter, slow, 0, at(50_000)), Err(Some(at(1_000_000))));
        let mut meter = None;
        admit(&mut meter, slow, 0).unwrap();
        assert_eq!(conforms(meter, fast, 0, at(50_000)), Err(Some(at(100_000))));
    }

    /// spec M1, M2: a burst that came under a fast rate is spent under a slow one, and the other
    /// way.
    #[test]
    fn a_new_rate_remembers_the_burst() {
        let (fast, slow) = (
            Rate { limit: 100, per_ms: 1000, burst: 10 },
            Rate { limit: 1, per_ms: 1000, burst: 10 },
        );
        let mut meter = None;
        for _ in 0..10 {
            admit(&mut meter, fast, 0).unwrap();
        }
        assert_eq!(conforms(meter, slow, 0, at(0)), Err(Some(at(1_000_000))));
        let mut meter = None;
        for _ in 0..9 {
            admit(&mut meter, slow, 0).unwrap();
        }
        assert_eq!(admit(&mut meter, fast, 0), Ok(()), "one was left");
        assert_eq!(conforms(meter, fast, 0, at(0)), Err(Some(at(10_000))));
    }

    proptest! {
        /// spec M2, I13: in any interval of length w at most burst + ⌊w·limit/per⌋ are admitted.
        #[test]
        fn no_window_admits_more_than_promised(
            limit in 1_u32..50, per_ms in 1_u64..2000, burst in 1_u32..60,
            gaps in prop::collection::vec(0_i64..200_000, 1..200),
        ) {
            let rate = Rate { limit, per_ms, burst };
            let (mut meter, mut now, mut admitted) = (None, 0, Vec::new());
            for gap in gaps {
                now += gap;
                if admit(&mut meter, rate, now).is_ok() {
                    admitted.push(now);
                }
            }
            for (i, first) in admitted.iter().enumerate() {
                for (j, last) in admitted.iter().enumerate().skip(i) {
                    let window = i128::from(last - first);
                    let allowed = i128::from(burst)
                        + window * i128::from(limit) / (i128::from(per_ms) * 1000);
                    prop_assert!((j - i + 1) as i128 <= allowed);
                }
            }
        }
    }
}
