//! The meter: a GCRA (generic cell rate algorithm) in exact arithmetic, used by `throttle` and
//! `rateLimit`.
//!
//! Arrivals conform if they are at least `per / limit` apart; up to `burst` of them may come at
//! once. The theoretical arrival time is stored in whole microseconds and a remainder in `1/limit`
//! of a microsecond. So no rate is rounded, and errors do not add up.

use super::{
    control::{Control, Reading},
    cost::Cost,
    from_data::Amount,
    key_source::KeySource,
};
use crate::{
    catalog::Limit,
    definition::{Code, Definition},
    row::{Costs, Event, GivenLimit, Meter, Meters, Number, Numbers, Turn},
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

impl Rate {
    /// Returns the problem of a burst that takes longer than [`LONGEST_REFILL_MS`] to refill.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { limit, per_ms, burst } = self;
        let refill = u128::from(*burst) * u128::from(*per_ms) / u128::from(*limit);
        (refill > LONGEST_REFILL_MS).then(|| {
            format!(
                "of {burst} takes more than 100 years to come back at {limit} in {per_ms} ms: \
                 make it smaller"
            )
        })
    }
}

/// Checks whether an arrival of `cost` units conforms at `now`, with `ahead` units of others
/// admitted but not stamped.
///
/// `Err` carries the time from which it conforms: exactly then it does, a microsecond before it
/// does not. `None` means not before one of those ahead is stamped. A cost above the burst conforms
/// when the whole burst is free.
pub fn conforms(
    meter: Option<Meter>,
    rate: Rate,
    (ahead, cost): (u64, u32),
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    if ahead > 0 && ahead + u64::from(cost) > u64::from(rate.burst) {
        return Err(None);
    }
    let turn = turn(meter, rate, (ahead, cost), now);
    if turn <= now { Ok(()) } else { Err(Some(turn)) }
}

/// As [`conforms`], for an arrival with `queued` units of others before it in the queue: `Err`
/// carries its own turn.
pub fn turn_in_queue(
    meter: Option<Meter>,
    rate: Rate,
    (through, queued, cost): (u64, u64, u32),
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    let own = turn(meter, rate, (through + queued, cost), now);
    conforms(meter, rate, (through, cost), now).map_err(|next| next.map(|_| own))?;
    // Those before it may take what is free now.
    if own <= now { Ok(()) } else { Err(Some(own)) }
}

/// Returns the earliest time at which an arrival of `cost` units conforms, with `ahead` units of
/// others stamped before it.
pub fn turn(
    meter: Option<Meter>,
    rate: Rate,
    (ahead, cost): (u64, u32),
    now: Timestamp,
) -> Timestamp {
    let scale = i128::from(rate.limit);
    let needed = i128::from(ahead) + i128::from(cost.min(rate.burst));
    let tolerance = (i128::from(rate.burst) - needed) * interval(rate);
    let earliest = theoretical(meter, rate, now) - tolerance;
    let earliest = earliest.max(i128::from(now.micros()) * scale);
    let micros = earliest.div_euclid(scale) + i128::from(earliest.rem_euclid(scale) > 0);
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Counts an arrival of `cost` units at `now`.
pub fn stamp(meter: Option<Meter>, rate: Rate, cost: u32, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let from = theoretical(meter, rate, now).max(i128::from(now.micros()) * scale);
    count(from, rate, cost, now)
}

/// Counts a start that was delayed until `now`. Returns the new meter.
///
/// A start within the microsecond in which it was due counts from its exact due time: rounding up
/// to the clock's unit must not add up over many starts.
pub fn stamp_turn(meter: Option<Meter>, rate: Rate, cost: u32, now: Timestamp) -> Meter {
    let scale = i128::from(rate.limit);
    let due = theoretical(meter, rate, now);
    let late = i128::from(now.micros()) * scale - due;
    if late < scale { count(due, rate, cost, now) } else { stamp(meter, rate, cost, now) }
}

/// Replaces `reserved` units that were counted before by the `actual` ones.
///
/// Further units are counted as an arrival now. Units that are given back make the next arrivals
/// earlier, but never allow more than a full burst: what a free time has given back already is not
/// given back twice.
pub fn correct(
    meter: Option<Meter>,
    rate: Rate,
    (reserved, actual): (u32, u32),
    now: Timestamp,
) -> Meter {
    if actual >= reserved {
        return stamp(meter, rate, actual - reserved, now);
    }
    let counted = theoretical(meter, rate, now);
    let free = i128::from(now.micros()) * i128::from(rate.limit);
    let less = counted - i128::from(reserved - actual) * interval(rate);
    count(less.max(free.min(counted)), rate, 0, now)
}

fn count(from: i128, rate: Rate, cost: u32, now: Timestamp) -> Meter {
    let next = from + i128::from(cost) * interval(rate);
    let beyond = next - furthest(rate, now);
    let debt = if beyond > 0 { -(-beyond).div_euclid(interval(rate)) } else { 0 };
    stored(next - debt * interval(rate), rate, u64::try_from(debt).unwrap_or(u64::MAX))
}

/// Returns the latest theoretical arrival time without debt, in `1/limit` of a microsecond: that of
/// a whole burst now.
fn furthest(rate: Rate, now: Timestamp) -> i128 {
    i128::from(now.micros()) * i128::from(rate.limit) + i128::from(rate.burst) * interval(rate)
}

/// Returns the stored form of a theoretical arrival time, given in `1/limit` of a microsecond.
fn stored(next: i128, rate: Rate, debt: u64) -> Meter {
    let scale = i128::from(rate.limit);
    Meter {
        tat: i64::try_from(next.div_euclid(scale)).unwrap_or(i64::MAX),
        rest: u32::try_from(next.rem_euclid(scale)).unwrap_or(0),
        limit: rate.limit,
        per_ms: rate.per_ms,
        debt,
    }
}

/// Returns the time from which on the meter has no effect, so that its row can be deleted.
pub fn forgets_at(meter: Meter) -> Timestamp {
    let paid = exact(meter) + i128::from(meter.debt) * i128::from(meter.per_ms) * 1000;
    let micros = paid.div_euclid(i128::from(meter.limit)) + 1;
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Returns the gap between two units, in `1/limit` of a microsecond.
fn interval(rate: Rate) -> i128 {
    i128::from(rate.per_ms) * 1000
}

/// Returns the theoretical arrival time under the current rate, its debt included, in `1/limit` of
/// a microsecond.
fn theoretical(meter: Option<Meter>, rate: Rate, now: Timestamp) -> i128 {
    match meter {
        Some(meter) => {
            let meter = of_today(meter, rate, now);
            exact(meter) + i128::from(meter.debt) * interval(rate)
        }
        None => i128::from(now.micros()) * i128::from(rate.limit),
    }
}

/// Converts a meter to the current rate and the current clock.
///
/// Units counted under another rate are counted again: the last arrival stays where it was, and
/// the gap after it is the current one. Units that were admitted early, on the burst, have all
/// happened by now: each of them costs one current gap.
///
/// No arrival moves the meter further ahead than the burst, apart from its debt. If it is further,
/// the clock has gone back, and the key must not stay closed for longer than one gap: a caller
/// that refuses an arrival has to store the result. As time passes, debt moves into the meter.
pub fn of_today(meter: Meter, rate: Rate, now: Timestamp) -> Meter {
    let (old, new) = (i128::from(meter.limit), i128::from(rate.limit));
    let micros = i128::from(now.micros());
    let next = if meter.limit == rate.limit && meter.per_ms == rate.per_ms {
        exact(meter)
    } else {
        let gap = i128::from(meter.per_ms) * 1000;
        let last = exact(meter) - gap;
        let early = ((last - micros * old).max(0) + gap - 1).div_euclid(gap);
        let since = ((last - early * gap) * new + old - 1).div_euclid(old);
        since + (early + 1) * interval(rate)
    };
    let next = next.min(furthest(rate, now));
    let room = (furthest(rate, now) - next).div_euclid(interval(rate));
    let paid = room.min(i128::from(meter.debt));
    let debt = meter.debt - u64::try_from(paid).unwrap_or(0);
    stored(next + paid * interval(rate), rate, debt)
}

fn exact(meter: Meter) -> i128 {
    i128::from(meter.tat) * i128::from(meter.limit) + i128::from(meter.rest)
}

/// As [`forgets_at`], for all meters of a key; none if there are none.
pub fn all_forget_at(meters: &Meters) -> Option<Timestamp> {
    meters.each.iter().copied().map(forgets_at).max()
}

/// Units before an arrival at the limits of one key, by their position.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// The costs of the runs that are admitted but not stamped.
    pub through: &'a [Turn],
    /// The runs before it in the queue. Their costs are not read: each counts as one unit.
    pub queued: u64,
}

impl Ahead<'_> {
    /// Nobody is before the arrival.
    pub const NOBODY: Ahead<'static> = Ahead { through: &[], queued: 0 };

    /// Returns the units of the runs that are admitted but not stamped.
    pub fn through(&self, position: usize) -> u64 {
        self.through.iter().map(|turn| u64::from(turn.costs.at(position))).sum()
    }
}

/// As [`turn_in_queue`], for all limits of one key: `Err` carries the latest of their times.
pub fn all_conform(
    meters: &Meters,
    rates: &[Rate],
    ahead: Ahead<'_>,
    costs: &Costs,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    let each = rates.iter().enumerate().map(|(n, rate)| {
        let units = (ahead.through(n), ahead.queued, costs.at(n));
        turn_in_queue(meters.at(n), *rate, units, now)
    });
    let refused: Vec<Option<Timestamp>> = each.filter_map(Result::err).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let times: Option<Vec<Timestamp>> = refused.into_iter().collect();
    Err(times.and_then(|times| times.into_iter().max()))
}

/// Counts one arrival in all meters of a key, each by `count`.
pub fn stamp_all(
    meters: &Meters,
    rates: &[Rate],
    costs: &Costs,
    now: Timestamp,
    count: fn(Option<Meter>, Rate, u32, Timestamp) -> Meter,
) -> Meters {
    let each = rates.iter().enumerate();
    meters.with(each.map(|(n, rate)| count(meters.at(n), *rate, costs.at(n), now)).collect())
}

/// As [`of_today`], for all meters of a key. Meters without a limit are dropped.
pub fn all_of_today(meters: &Meters, rates: &[Rate], now: Timestamp) -> Meters {
    let each = meters.each.iter().zip(rates);
    meters.with(each.map(|(meter, rate)| of_today(*meter, *rate, now)).collect())
}

/// Maximum time for a burst to refill: 100 years, well inside the range of a timestamp.
const LONGEST_REFILL_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1000;

/// One limit of a control that has meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metered<'a> {
    pub(super) limit: &'a Amount,
    pub(super) per_ms: u64,
    pub(super) burst: &'a Amount,
    pub(super) key: Option<&'a KeySource>,
    pub(super) cost: Option<&'a Cost>,
}

impl Metered<'_> {
    /// Returns the rate of the limit at a position of its row.
    pub(super) fn rate(&self, numbers: Numbers<'_>, position: usize) -> Rate {
        let Self { limit, per_ms, burst, .. } = *self;
        let (limit, burst) =
            (limit.number(numbers.limit(position)), burst.number(numbers.burst(position)));
        Rate { limit, per_ms, burst }
    }

    /// Returns the rate whose burst takes the longest to refill.
    pub(crate) fn slowest(&self) -> Rate {
        let (limit, burst) =
            (self.limit.number(Number::Lowest), self.burst.number(Number::Highest));
        Rate { limit, per_ms: self.per_ms, burst }
    }

    /// Returns the numbers that an input has for this limit.
    pub(super) fn given(&self, event: &Event) -> Result<GivenLimit, String> {
        let limit = self.limit.given("limit", event)?;
        let burst = self.burst.given("burst", event)?;
        Ok(GivenLimit { limit, burst })
    }
}

/// Returns the different keys of a list of limits. Limits with one key share a row, with a meter
/// each.
pub(super) fn keys<'a>(
    all: impl Iterator<Item = Option<&'a KeySource>>,
) -> Vec<Option<&'a KeySource>> {
    let mut keys = Vec::new();
    for key in all {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Returns the limits of the row with this slot. A row whose key the current release does not use
/// has the limits of the first key, so that its queue goes on at their rate.
pub(super) fn limit(limits: &[Metered<'_>], slot: &str, numbers: Numbers<'_>) -> Limit {
    let is = |limit: &&Metered<'_>| limit.key.map(KeySource::slot).unwrap_or_default() == slot;
    let named = limits.iter().find(is).or(limits.first());
    let Some(key) = named.map(|limit| limit.key) else { return Limit::Open };
    let alike = limits.iter().filter(|limit| limit.key == key).enumerate();
    Limit::Rates(alike.map(|(n, limit)| limit.rate(numbers, n)).collect())
}

/// Refuses a burst that takes too long to refill ([`Rate::problem`]), and a limit that counts
/// the same units over the same period as another one.
pub(super) fn check(
    reading: &mut Reading<'_>,
    control: &Control,
    limits: fn(&Definition) -> Vec<Metered<'_>>,
) {
    let Reading { definition, places, problems } = reading;
    let limits = limits(definition);
    for (n, limit) in limits.iter().enumerate() {
        let place = Reading::place(places, control, n);
        if let Some(message) = limit.slowest().problem() {
            problems.error(Code::OutOfRange, &format!("{place}.burst"), message);
        }
        let same = |other: &Metered<'_>| {
            (other.key, other.cost, other.per_ms) == (limit.key, limit.cost, limit.per_ms)
        };
        if let Some(m) = limits[..n].iter().position(same) {
            let other = Reading::place(places, control, m);
            let message = format!("counts the same as {other} over the same period: keep one");
            problems.error(Code::Conflict, &place, message);
        }
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
        conforms(*meter, rate, (0, 1), at(now))?;
        *meter = Some(stamp(*meter, rate, 1, at(now)));
        Ok(())
    }

    /// spec L10: with every use settled to what it took, a meter is where it would be had the actual
    /// units been reserved.
    /// The turn of a run behind others is later than the token that is free now.
    #[test]
    fn a_free_token_belongs_to_the_first_in_the_queue() {
        let rate = Rate { limit: 5, per_ms: 1000, burst: 1 };
        let now = Timestamp::from_ms(0);
        let turns = [0, 1, 9].map(|queued| turn_in_queue(None, rate, (0, queued, 1), now));
        let at = |ms| Err(Some(Timestamp::from_ms(ms)));
        assert_eq!(turns, [Ok(()), at(200), at(1800)]);
        let burst = Rate { burst: 3, ..rate };
        let turns = [2, 3].map(|queued| turn_in_queue(None, burst, (0, queued, 1), now));
        assert_eq!(turns, [Ok(()), at(200)]);
    }

    #[test]
    fn settled_units_count_as_if_they_had_been_reserved() {
        let rate = Rate { limit: 7, per_ms: 1000, burst: 50 };
        for (reserved, actual) in [(5, 2), (2, 5), (5, 0), (3, 3), (50, 80), (80, 1)] {
            let now = at(1_700_000_000_000_003);
            let before = Some(stamp(None, rate, 20, now));
            let settled =
                correct(Some(stamp(before, rate, reserved, now)), rate, (reserved, actual), now);
            assert_eq!(settled, stamp(before, rate, actual, now), "{reserved} to {actual}");
        }
    }

    /// spec L10: units that are given back late are free already, and are not given back twice.
    #[test]
    fn units_are_not_given_back_twice() {
        let rate = Rate { limit: 1, per_ms: 1, burst: 3 };
        let meter = stamp(None, rate, 3, at(0));
        let late = correct(Some(meter), rate, (3, 0), at(10_000));
        let mut meter = Some(late);
        for _ in 0..3 {
            assert_eq!(admit(&mut meter, rate, 10_000), Ok(()));
        }
        assert!(admit(&mut meter, rate, 10_000).is_err(), "more than a burst is admitted");
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
                if let Err(when) = conforms(meter, rate, (0, 1), at(now)) {
                    now = when.unwrap().micros();
                }
                meter = Some(stamp_turn(meter, rate, 1, at(now)));
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
            assert_eq!(admit(&mut meter, rate, 5), Ok(()), "a lone arrival always conforms");
            let when = conforms(meter, rate, (0, 1), at(5)).unwrap_err().unwrap();
            assert!(conforms(meter, rate, (0, 1), at(when.micros() - 1)).is_err(), "{limit}");
            assert!(conforms(meter, rate, (0, 1), when).is_ok(), "{limit}");
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
        let when = conforms(meter, rate, (0, 1), at(0)).unwrap_err().unwrap();
        assert!(when <= at(1_000_000), "shut until {when}");
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
        assert_eq!(conforms(meter, slow, (0, 1), at(50_000)), Err(Some(at(1_000_000))));
        let mut meter = None;
        admit(&mut meter, slow, 0).unwrap();
        assert_eq!(conforms(meter, fast, (0, 1), at(50_000)), Err(Some(at(100_000))));
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
        assert_eq!(conforms(meter, slow, (0, 1), at(0)), Err(Some(at(1_000_000))));
        let mut meter = None;
        for _ in 0..9 {
            admit(&mut meter, slow, 0).unwrap();
        }
        assert_eq!(admit(&mut meter, fast, 0), Ok(()), "one was left");
        assert_eq!(conforms(meter, fast, (0, 1), at(0)), Err(Some(at(10_000))));
    }

    /// spec L9: a cost above the burst starts when the meter is full, and delays the next start by
    /// its whole cost.
    #[test]
    fn a_cost_above_the_burst_waits_for_a_full_meter_and_is_paid_in_full() {
        let rate = Rate { limit: 1, per_ms: 1000, burst: 3 };
        let meter = Some(stamp(None, rate, 1, at(0)));
        assert_eq!(conforms(meter, rate, (0, 2), at(0)), Ok(()), "two units are left");
        assert_eq!(conforms(meter, rate, (0, 9), at(0)), Err(Some(at(1_000_000))));
        assert_eq!(
            conforms(meter, rate, (1, 9), at(1_000_000)),
            Err(None),
            "another run has a turn"
        );
        let last = stamp_turn(meter, rate, 9, at(1_000_000));
        assert_eq!((last.debt, forgets_at(last)), (6, at(10_000_001)));
        let meter = Some(last);
        assert_eq!(conforms(meter, rate, (0, 1), at(1_000_000)), Err(Some(at(8_000_000))));
        assert_eq!(conforms(meter, rate, (0, 3), at(1_000_000)), Err(Some(at(10_000_000))));
        assert_eq!(conforms(meter, rate, (0, 1), at(8_000_000)), Ok(()));
    }

    /// spec L9: a clock that goes back forgives what is further ahead than the burst, but no debt.
    #[test]
    fn a_clock_that_goes_back_forgives_no_debt() {
        let rate = Rate { limit: 1, per_ms: 1000, burst: 2 };
        let hour = 3_600_000_000;
        let meter = stamp(None, rate, 10, at(hour));
        let meter = of_today(meter, rate, at(0));
        assert_eq!((meter.tat, meter.debt), (2_000_000, 8));
        assert_eq!(conforms(Some(meter), rate, (0, 1), at(0)), Err(Some(at(9_000_000))));
    }

    /// spec L11: several limits of a key agree at the latest of their times.
    #[test]
    fn all_limits_of_a_key_have_to_agree() {
        let rates = [
            Rate { limit: 1, per_ms: 1000, burst: 1 },
            Rate { limit: 100, per_ms: 60_000, burst: 100 },
        ];
        let costs = Costs::new(vec![1, 60]);
        let meters = stamp_all(&Meters::default(), &rates, &costs, at(0), stamp);
        let conform = |costs: Vec<u32>| {
            all_conform(&meters, &rates, Ahead::NOBODY, &Costs::new(costs), at(0))
        };
        assert_eq!(conform(vec![1, 1]), Err(Some(at(1_000_000))), "the first decides");
        assert_eq!(conform(vec![1, 60]), Err(Some(at(12_000_000))), "the second decides");
        let through = [Turn { run: crate::id::Seq(1), costs: Costs::new(vec![1, 60]) }];
        let ahead = Ahead { through: &through, queued: 0 };
        let conform = all_conform(&Meters::default(), &rates, ahead, &Costs::default(), at(0));
        assert_eq!(conform, Err(None), "the run that has a turn starts first");
    }

    proptest! {
        /// spec L9: in any interval of length w at most max(burst, greatest cost) + ⌊w·limit/per⌋
        /// units start.
        #[test]
        fn no_window_starts_more_units_than_promised(
            limit in 1_u32..50, per_ms in 1_u64..2000, burst in 1_u32..20,
            arrivals in prop::collection::vec((0_i64..200_000, 1_u32..40), 1..100),
        ) {
            let rate = Rate { limit, per_ms, burst };
            let (mut meter, mut now) = (None, 0);
            let mut started: Vec<(i64, u32)> = Vec::new();
            for (gap, cost) in arrivals {
                now += gap;
                if let Err(when) = conforms(meter, rate, (0, cost), at(now)) {
                    now = when.unwrap().micros();
                }
                meter = Some(stamp_turn(meter, rate, cost, at(now)));
                started.push((now, cost));
            }
            for i in 0..started.len() {
                let (mut units, mut greatest) = (0, i128::from(burst));
                for (last, cost) in &started[i..] {
                    units += i128::from(*cost);
                    greatest = greatest.max(i128::from(*cost));
                    // Starts are rounded up to the next microsecond, the first one too.
                    let window = i128::from(last - started[i].0) + 1;
                    let period = i128::from(per_ms) * 1000;
                    prop_assert!(units <= greatest + window * i128::from(limit) / period);
                }
            }
        }

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
