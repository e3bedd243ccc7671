//! Meters in exact fractions: used tokens, and the time of the next one.

use std::cmp::Ordering;

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

    fn cmp(self, other: Ratio) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }
}

/// Limit, period and burst of a meter, by the current release.
struct Rate {
    limit: i128,
    per: i128,
    burst: i128,
}

impl Reference {
    fn rate(&self, control: &str, workflow: &str) -> Option<Rate> {
        let def = self.current(workflow).get(control)?;
        let limit = fields::number(def, "limit").expect("given");
        let per = fields::ms(def, "perMs").expect("given");
        let default = if control == "throttle" { 1 } else { limit };
        Some(Rate { limit, per, burst: fields::number(def, "burst").unwrap_or(default) })
    }

    /// Returns the number of tokens that are used now.
    fn used(&self, place: &Place, rate: &Rate) -> Ratio {
        let Some(meter) = self.meters.get(place) else { return Ratio(0, 1) };
        let left = meter.debt.plus(Ratio(-(self.now - meter.at) * rate.limit, rate.per));
        if left.0 < 0 { Ratio(0, 1) } else { left }
    }

    /// Whether one more token is free now, after `ahead` others.
    pub(super) fn conforms(&self, place: &Place, control: &str, name: &str, ahead: i128) -> bool {
        let Some(rate) = self.rate(control, name) else { return true };
        self.used(place, &rate).cmp(Ratio(rate.burst - 1 - ahead, 1)).is_le()
    }

    /// Uses one token.
    pub(super) fn spend(&mut self, place: &Place, control: &str, name: &str) {
        let Some(rate) = self.rate(control, name) else { return };
        let debt = self.used(place, &rate).plus(Ratio(1, 1));
        self.meters.insert(place.clone(), Meter { at: self.now, debt });
    }

    /// Returns the first microsecond at which one more token is free after `ahead` others; `None`
    /// if it does not depend on time alone.
    pub(super) fn fits_at(&self, place: &Place, name: &str, ahead: i128) -> Option<Time> {
        let rate = self.rate("throttle", name)?;
        if ahead >= rate.burst {
            return None;
        }
        let over = self.used(place, &rate).plus(Ratio(1 + ahead - rate.burst, 1));
        let wait = Ratio(over.0 * rate.per, over.1 * rate.limit);
        Some(self.now + wait.0.div_euclid(wait.1) + i128::from(wait.0.rem_euclid(wait.1) != 0))
    }
}
