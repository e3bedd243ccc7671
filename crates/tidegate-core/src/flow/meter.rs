//! The meter: a GCRA (generic cell rate algorithm) in exact arithmetic, used by `throttle` and
//! `rateLimit`.
//!
//! Arrivals conform if they are at least `per / limit` apart; up to `burst` of them may come at
//! once. The theoretical arrival time is stored in whole microseconds and a remainder in `1/limit`
//! of a microsecond. So no rate is rounded, and errors do not add up.

use crate::{
    definition::{Code, Problems},
    row::Meter,
    time::Timestamp,
};

/// Rate of a meter, as the author wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Maximum average number of arrivals per period.
    pub limit: u32,
    /// The period.
    pub per_ms: u64,
    /// Maximum number of arrivals at once.
    pub burst: u32,
}

/// Checks whether an arrival conforms at `now`, while `ahead` other arrivals are admitted but not
/// counted yet.
///
/// `Err` has the exact time from which on it conforms. `Err(None)` means that one of the other
/// arrivals must be counted first.
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

/// As [`conforms`], for an arrival with `queued` other arrivals before it in the queue. `Err` has
/// the time of this arrival's turn, not of the first in the queue.
pub fn turn_in_queue(
    meter: Option<Meter>,
    rate: Rate,
    (through, queued): (usize, usize),
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    let own = |_| turn(meter, rate, through + queued, now);
    conforms(meter, rate, through, now).map_err(|next| next.map(own))
}

/// Returns the earliest time at which an arrival conforms, if `ahead` other arrivals take their
/// turns before it.
pub fn turn(meter: Option<Meter>, rate: Rate, ahead: usize, now: Timestamp) -> Timestamp {
    let ahead = i128::from(u32::try_from(ahead).unwrap_or(u32::MAX));
    let scale = i128::from(rate.limit);
    let tolerance = (i128::from(rate.burst) - 1 - ahead) * interval(rate);
    let earliest = theoretical(meter, rate, now) - tolerance;
    let earliest = earliest.max(i128::from(now.micros()) * scale);
    let micros = earliest.div_euclid(scale) + i128::from(earliest.rem_euclid(scale) > 0);
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Counts an arrival at `now`. Returns the new meter.
pub fn stamp(meter: Option<Meter>, rate: Rate, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let from = theoretical(meter, rate, now).max(i128::from(now.micros()) * scale);
    count(from, rate)
}

/// Counts a start that was delayed until `now`. Returns the new meter.
///
/// A start within the microsecond in which it was due counts from its exact due time, so that
/// rounding to whole microseconds does not add up over many starts.
pub fn stamp_turn(meter: Option<Meter>, rate: Rate, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let due = theoretical(meter, rate, now);
    let late = i128::from(now.micros()) * scale - due;
    if late < scale { count(due, rate) } else { stamp(meter, rate, now) }
}

fn count(from: i128, rate: Rate) -> Meter {
    kept(from + interval(rate), rate)
}

/// Returns the stored form of a theoretical arrival time, given in `1/limit` of a microsecond.
fn kept(next: i128, rate: Rate) -> Meter {
    let scale = i128::from(rate.limit);
    Meter {
        tat: i64::try_from(next.div_euclid(scale)).unwrap_or(i64::MAX),
        rest: u32::try_from(next.rem_euclid(scale)).unwrap_or(0),
        limit: rate.limit,
        per_ms: rate.per_ms,
    }
}

/// Returns the time from which on the meter has no effect, so that its row can be deleted.
pub fn forgets_at(meter: Meter) -> Timestamp {
    Timestamp::from_micros(meter.tat.saturating_add(1))
}

/// Returns the gap between two arrivals, in `1/limit` of a microsecond.
fn interval(rate: Rate) -> i128 {
    i128::from(rate.per_ms) * 1000
}

/// Returns the theoretical arrival time under the current rate, in `1/limit` of a microsecond.
fn theoretical(meter: Option<Meter>, rate: Rate, now: Timestamp) -> i128 {
    match meter {
        Some(meter) => exact(of_today(meter, rate, now)),
        None => i128::from(now.micros()) * i128::from(rate.limit),
    }
}

/// Converts a meter to the current rate and the current clock.
///
/// Arrivals counted under another rate are counted again: the last arrival keeps its time, and the
/// gap after it is that of the current rate. Each arrival that was admitted early, as part of a
/// burst, costs one gap of the current rate.
///
/// No arrival moves the meter further ahead than the burst. If the meter is further ahead, the
/// clock has stepped back. It is then capped, so that the key does not stay closed for longer than
/// one gap. A caller that refuses an arrival has to store the result.
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

/// Maximum time for a burst to refill: 100 years, so that times stay in the range of a timestamp.
const LONGEST_REFILL_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1000;

/// Reports a burst that takes longer than [`LONGEST_REFILL_MS`] to refill.
pub(super) fn check_refill(control: &str, rate: Option<Rate>, problems: &mut Problems) {
    let Some(rate) = rate else { return };
    let refill = u128::from(rate.burst) * u128::from(rate.per_ms) / u128::from(rate.limit);
    if refill > LONGEST_REFILL_MS {
        let message = format!(
            "of {} takes more than 100 years to refill at {} in {} ms: make it smaller",
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

    /// spec M1, I12: two million steps, compared with the sum in big integers.
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
                let time = i128::from(now - start);
                assert_eq!(time, rounded, "{limit} per {per_ms} ms: wrong time of start {n}");
            }
        }
    }

    /// spec M1, I12: the theoretical arrival time is exact after two million simultaneous arrivals.
    #[test]
    fn a_backlog_of_two_million_ends_exactly_when_it_should() {
        for (limit, per_ms) in [(3_u32, 1000_u64), (1_000_000, 1), (1_000_000, 31_536_000_000)] {
            let burst = 2_000_000;
            let rate = Rate { limit, per_ms, burst };
            let mut meter = None;
            for n in 0..2_000_000 {
                let admitted = admit(&mut meter, rate, 0);
                assert_eq!(admitted, Ok(()), "{limit} per {per_ms} ms: arrival {n} is refused");
            }
            let meter = meter.unwrap();
            let tat = i128::from(meter.tat) * i128::from(limit) + i128::from(meter.rest);
            assert_eq!(tat, 2_000_000 * i128::from(per_ms) * 1000);
        }
    }

    /// spec I14: the time that a refusal returns is the first one that conforms.
    #[test]
    fn the_moment_given_is_the_first_that_conforms() {
        for limit in 1..=1000 {
            let rate = Rate { limit, per_ms: 1000, burst: 1 };
            let mut meter = None;
            assert_eq!(admit(&mut meter, rate, 5), Ok(()), "the first arrival is refused");
            let when = conforms(meter, rate, 0, at(5)).unwrap_err().unwrap();
            assert!(conforms(meter, rate, 0, at(when.micros() - 1)).is_err(), "{limit}");
            assert!(conforms(meter, rate, 0, when).is_ok(), "{limit}");
        }
    }

    /// spec M2: a clock that goes back closes no key for longer than a period.
    #[test]
    fn a_clock_that_goes_back_shuts_no_key_for_long() {
        let rate = Rate { limit: 2, per_ms: 1000, burst: 2 };
        let mut meter = None;
        let hour = 3_600_000_000;
        for _ in 0..2 {
            admit(&mut meter, rate, hour).unwrap();
        }
        let when = conforms(meter, rate, 0, at(0)).unwrap_err().unwrap();
        assert!(when <= at(1_000_000), "the key stays closed until {when}");
        meter = meter.map(|meter| of_today(meter, rate, at(0)));
        let admitted = admit(&mut meter, rate, when.micros());
        assert_eq!(admitted, Ok(()), "an arrival at the returned time is refused");
    }

    /// spec M1: after a change of the limit, the gap after the last arrival is that of the new
    /// limit.
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

    /// spec M1, M2: a burst that was used under a fast rate is used up under a slow one, and vice
    /// versa.
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
        assert_eq!(admit(&mut meter, fast, 0), Ok(()), "the last arrival of the burst is refused");
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
