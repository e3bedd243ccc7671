//! Retry delays of failed steps.

use crate::definition::Retry;

impl Retry {
    /// Returns the delay after a number of failures; none if no attempts are left.
    ///
    /// `jitter` is a random number from 0 to 1, given by the caller. It makes the delay longer by
    /// up to a tenth, so that steps that failed together are not retried together. It never makes
    /// the delay shorter than the author's setting.
    pub fn delay_ms(&self, failures: u32, jitter: f64) -> Option<u64> {
        if failures >= self.max_attempts {
            return None;
        }
        let growth = u64::from(self.factor).saturating_pow(failures.saturating_sub(1));
        let delay = self.backoff_ms.saturating_mul(growth).min(self.max_backoff_ms);
        let share = if self.jitter { jitter.clamp(0.0, 1.0) } else { 0.0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a tenth of at most a year in milliseconds, of which the fraction is dropped"
        )]
        let extra = (delay as f64 / 10.0 * share) as u64;
        Some(delay.saturating_add(extra))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec N20: total attempts are `maxAttempts`, delays grow and are bounded.
    #[test]
    fn attempts_are_counted_and_delays_grow_to_their_bound() {
        let retry = Retry {
            max_attempts: 5,
            backoff_ms: 100,
            factor: 2,
            max_backoff_ms: 300,
            jitter: true,
        };
        let delays: Vec<_> = (1..=5).map(|failures| retry.delay_ms(failures, 0.0)).collect();
        assert_eq!(delays, [Some(100), Some(200), Some(300), Some(300), None]);
        assert_eq!(retry.delay_ms(1, 1.0), Some(110));
        assert_eq!(retry.delay_ms(1, -7.0), Some(100), "jitter has shortened the delay");
    }
}
