//! Waiting times: a histogram fine enough for percentiles.
//!
//! Each power of two of microseconds has sixteen buckets, and a bucket stores the count and the sum
//! of its values. A percentile is the mean of the bucket in which its rank is. So it differs by at
//! most a sixteenth from the exact value. It is never above the longest waiting time and never
//! below the shortest, also for the difference of two snapshots ([`Waits::since`]).

/// Each power of two has `1 << FINE` buckets.
const FINE: u32 = 4;

/// Number of buckets: one for each small value, and sixteen for each larger power of two.
const BUCKETS: usize = ((64 - FINE as usize) + 1) << FINE;

/// Histogram of waiting times.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    /// Count, and sum in microseconds, of each bucket.
    buckets: Box<[(u64, u64); BUCKETS]>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { buckets: Box::new([(0, 0); BUCKETS]) }
    }
}

fn bucket(micros: u64) -> usize {
    let power = micros.checked_ilog2().unwrap_or_default();
    let Some(shift) = power.checked_sub(FINE) else { return usize::try_from(micros).unwrap_or(0) };
    // The shifted value is from 16 to 31: its leading bit adds 16, so the buckets of the next power
    // follow without a gap.
    let within = usize::try_from(micros >> shift).unwrap_or(0);
    ((shift as usize) << FINE) + within
}

impl Waits {
    /// Records a waiting time.
    pub(crate) fn record(&mut self, seconds: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast saturates, and no wait is negative or longer than centuries"
        )]
        let micros = (seconds * 1e6).round() as u64;
        let (count, sum) = &mut self.buckets[bucket(micros)];
        *count += 1;
        *sum = sum.saturating_add(micros);
    }

    /// Returns the waiting times recorded since an earlier snapshot of this histogram.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let mut new = self.clone();
        for ((count, sum), (counted, summed)) in new.buckets.iter_mut().zip(&*then.buckets) {
            *count = count.saturating_sub(*counted);
            *sum = sum.saturating_sub(*summed);
        }
        new
    }

    /// Returns the percentile in seconds: `per_mille` of a thousand waiting times are not longer.
    /// `None` if there are no waiting times.
    pub(crate) fn percentile(&self, per_mille: u64) -> Option<f64> {
        let all: u64 = self.buckets.iter().map(|(count, _)| count).sum();
        let mut rank = (all * per_mille).div_ceil(1000).max(1);
        let bucket = self.buckets.iter().find(|(count, _)| {
            let reached = rank <= *count;
            rank = rank.saturating_sub(*count);
            reached
        });
        let (count, sum) = bucket.filter(|(count, _)| *count > 0)?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a float holds the microseconds of centuries exactly"
        )]
        let seconds = (sum / count) as f64 / 1e6;
        Some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Waits, bucket};

    /// Pseudo-random number generator with a seed, so that a failure can be repeated.
    fn draw(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 11
    }

    fn record(waits: &mut Waits, micros: &[u64]) {
        for micros in micros {
            #[expect(clippy::cast_precision_loss, reason = "they are small")]
            waits.record(*micros as f64 / 1e6);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "microseconds of hours"
    )]
    fn check(what: &str, micros: &[u64], waits: &Waits) {
        let mut sorted = micros.to_vec();
        sorted.sort_unstable();
        for per_mille in [0, 1, 10, 250, 500, 900, 950, 990, 999, 1000] {
            let rank = (sorted.len() as u64 * per_mille).div_ceil(1000).max(1) as usize;
            let (exact, longest) = (sorted[rank - 1], sorted[sorted.len() - 1]);
            let percentile = (waits.percentile(per_mille).unwrap() * 1e6).round() as u64;
            let case = format!(
                "{what}: percentile {per_mille} ‰ of {} values is {percentile}, exact {exact}",
                sorted.len()
            );
            assert!(
                percentile.abs_diff(exact) <= exact / 16,
                "{case}: it differs by more than a sixteenth"
            );
            assert!(percentile <= longest, "{case}: it is above the longest time, {longest}");
            assert!(
                percentile >= sorted[0],
                "{case}: it is below the shortest time, {}",
                sorted[0]
            );
        }
    }

    #[test]
    fn percentiles_are_within_a_sixteenth_and_the_waits_seen() {
        const MINUTE: u64 = 60_000_000;
        let mut seed = 7;
        let mut drawn = |count: usize, of: &dyn Fn(u64) -> u64| -> Vec<u64> {
            (0..count).map(|_| of(draw(&mut seed))).collect()
        };
        let cases = [
            ("one", vec![1_234_567]),
            ("none at all", vec![0; 9]),
            ("all alike", vec![35 * MINUTE; 1000]),
            ("twenty minutes", drawn(1000, &|n| 19 * MINUTE + n % MINUTE)),
            ("two lengths", [vec![900; 50], vec![MINUTE; 50]].concat()),
            ("even", drawn(5000, &|n| n % (30 * MINUTE))),
            ("a long tail", drawn(5000, &|n| 1 << (n % 40))),
            ("tiny", drawn(500, &|n| n % 40)),
            ("around powers", drawn(500, &|n| (1 << (4 + n % 38)) + n / 64 % 3 - 1)),
        ];
        for (what, micros) in &cases {
            let mut waits = Waits::default();
            record(&mut waits, micros);
            check(what, micros, &waits);
        }
        // The charts show the difference of two snapshots: waiting times before the first one must
        // not count.
        let (mut sum, mut before) = (Waits::default(), Waits::default());
        for (what, micros) in &cases {
            record(&mut sum, micros);
            check(&format!("then {what}"), micros, &sum.since(&before));
            before.clone_from(&sum);
        }
        assert_eq!(sum.since(&before).percentile(500), None);
    }

    #[test]
    fn without_waits_there_is_no_percentile() {
        for per_mille in [0, 500, 1000] {
            assert_eq!(Waits::default().percentile(per_mille), None);
        }
    }

    #[test]
    fn buckets_follow_each_other() {
        let powers = (0..64).flat_map(|power| {
            let value = 1_u64 << power;
            [value - 1, value, value + value / 16, value + (value - 1)]
        });
        let mut values: Vec<u64> = powers.chain(0..4096).collect();
        values.sort_unstable();
        let places: Vec<usize> = values.iter().map(|value| bucket(*value)).collect();
        assert!(places.is_sorted() && places.windows(2).all(|two| two[1] - two[0] <= 16));
        assert_eq!((places[0], bucket(u64::MAX)), (0, BUCKETS - 1));
        let mut odd = Waits::default();
        for seconds in [f64::NAN, f64::INFINITY, -1.0] {
            odd.record(seconds);
        }
        assert!(odd.percentile(1000).is_some());
    }
}
