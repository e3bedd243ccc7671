//! Times that SDKs write: durations such as `2h45m`, and dates of RFC 3339.

use std::time::Duration;

use tidegate_core::{run::record::Until, time::Timestamp};

use super::duration::milliseconds;

/// Maximum length of a sleep and of a timeout: a year. A longer one is probably a wrong unit.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Reads the end of a sleep or of a wait: a duration from now on, or a date. An empty text and a
/// negative duration are times that have passed.
pub(super) fn until(text: &str, now: Timestamp) -> Result<Until, String> {
    let text = text.trim();
    let end = if text.is_empty() {
        return Ok(Until::In(0));
    } else if let Some(at) = Timestamp::parse_rfc3339(text) {
        let ahead = Duration::from_millis(now.ms_until(at));
        (ahead <= MAX_WAIT).then_some(Until::At(at))
    } else {
        // The SDK for Go writes the duration until a moment, also of one that has passed.
        let passed = text.strip_prefix('-').and_then(milliseconds).map(|_| 0);
        let ms = passed.or_else(|| milliseconds(text)).ok_or_else(|| {
            format!("`{text}` is neither a duration, such as `2h45m`, nor an RFC 3339 date")
        })?;
        (u128::from(ms) <= MAX_WAIT.as_millis()).then_some(Until::In(ms))
    };
    let days = MAX_WAIT.as_secs() / 86_400;
    end.ok_or_else(|| format!("`{text}` is more than {days} days ahead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_time_is_read() {
        let now = Timestamp::parse_rfc3339("2030-01-01T00:00:00Z").unwrap();
        let at = |text| Ok(Until::At(Timestamp::parse_rfc3339(text).unwrap()));
        for (text, expected) in [
            ("2s", Ok(Until::In(2_000))),
            ("300ms", Ok(Until::In(300))),
            ("2h45m", Ok(Until::In(9_900_000))),
            ("1w1d", Ok(Until::In(691_200_000))),
            ("1.5s", Ok(Until::In(1_500))),
            // Go writes every smaller unit.
            ("1h0m0s", Ok(Until::In(3_600_000))),
            ("0s", Ok(Until::In(0))),
            // JS writes this for a moment that has passed.
            ("", Ok(Until::In(0))),
            // Go writes a duration in every case.
            ("1s499ms990us123ns", Ok(Until::In(1_500))),
            ("-1h2ms5ns", Ok(Until::In(0))),
            ("2030-01-02T03:04:05.000Z", at("2030-01-02T03:04:05Z")),
            ("2029-01-02T03:04:05+01:00", at("2029-01-02T02:04:05Z")),
        ] {
            assert_eq!(until(text, now), expected, "{text}");
        }
        for text in ["soon", "5", "h", "-", "--1s", "-1y", "1y", "367d", "2031-06-01T00:00:00Z"] {
            assert!(until(text, now).is_err(), "`{text}` must be refused");
        }
    }
}
