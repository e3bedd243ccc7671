//! Meters in exact fractions: used tokens, and the time of the next one.

use serde_json::Value;

use super::{Place, Reference, Time, fields};

/// State of a meter: `debt` tokens are used at the time `at`; they refill at the meter's rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    at: Time,
    debt: Ratio,
}

/// A fraction with a positive denominator.
#[derive(Clone, Copy, Debug)]
struct Ratio(i128, i128);

impl Ratio {
    fn plus(self, other: Ratio) -> Ratio {
        let (over, under) = (self.0 * other.1 + other.0 * self.1, self.1 * other.1);
        let (mut a, mut b) = (over.abs(), under);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Ratio(over / a, under / a)
    }
}

/// Limit, period and burst of a meter, by the current release.
struct Rate {
    limit: i128,
    per: i128,
    burst: i128,
}

impl Reference {
    /// Returns the rates of a meter, by the current release.
    fn rates(&self, place: &Place) -> Vec<Rate> {
        let limits = fields::metered(self.current(&place.owner), &place.control).into_iter();
        let rate = |def: &Value| {
            let limit = fields::number(def, "limit").expect("given");
            let per = fields::ms(def, "perMs").expect("given");
            let default = if place.control.starts_with("throttle") { 1 } else { limit };
            Rate { limit, per, burst: fields::number(def, "burst").unwrap_or(default) }
        };
        let mut rates: Vec<Rate> = limits.map(rate).collect();
        if let Some(first) = rates.first_mut() {
            first.burst = self.burst_in_force(place, first.burst);
        }
        rates
    }

    /// Returns the number of tokens of the limit `n` that are used now.
    fn used(&self, place: &Place, n: usize, rate: &Rate) -> Ratio {
        let Some(meter) = self.meters.get(&(place.clone(), n)) else { return Ratio(0, 1) };
        let left = meter.debt.plus(Ratio(-(self.now - meter.at) * rate.limit, rate.per));
        if left.0 < 0 { Ratio(0, 1) } else { left }
    }

    /// Whether all limits have room now for `costs`, after the units of others `ahead`.
    pub(super) fn conforms(&self, place: &Place, ahead: &[i128], costs: &[i128]) -> bool {
        self.fits_at(place, ahead, costs).is_some_and(|at| at <= self.now)
    }

    /// Uses tokens of all limits.
    pub(super) fn spend(&mut self, place: &Place, costs: &[i128]) {
        for (n, rate) in self.rates(place).iter().enumerate() {
            let debt = self.used(place, n, rate).plus(Ratio(at(costs, n, 1), 1));
            self.meters.insert((place.clone(), n), Meter { at: self.now, debt });
        }
    }

    /// Returns the first microsecond at which all limits have room for `costs`, after the units of
    /// others `ahead`; `None` if it does not depend on time alone. A cost above the burst needs the
    /// whole burst.
    pub(super) fn fits_at(&self, place: &Place, ahead: &[i128], costs: &[i128]) -> Option<Time> {
        let mut latest = self.now;
        for (n, rate) in self.rates(place).iter().enumerate() {
            let (before, cost) = (at(ahead, n, 0), at(costs, n, 1).min(rate.burst));
            if before + cost > rate.burst {
                return None;
            }
            let over = self.used(place, n, rate).plus(Ratio(cost + before - rate.burst, 1));
            let wait = Ratio(over.0 * rate.per, over.1 * rate.limit);
            let wait = wait.0.div_euclid(wait.1) + i128::from(wait.0.rem_euclid(wait.1) != 0);
            latest = latest.max(self.now + wait);
        }
        Some(latest)
    }

    /// Whether an event could never be admitted by a rate limit.
    pub(super) fn exceeds_burst(&self, place: &Place, costs: &[i128]) -> bool {
        self.rates(place).iter().enumerate().any(|(n, rate)| at(costs, n, 1) > rate.burst)
    }
}

fn at(list: &[i128], n: usize, default: i128) -> i128 {
    list.get(n).copied().unwrap_or(default)
}
