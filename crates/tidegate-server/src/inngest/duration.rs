//! Durations as Inngest's SDKs write them: `300ms`, `5s`, `2h45m`, `1d`, `1.5h`.

/// The units, in milliseconds.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("µs", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 6e4),
    ("h", 3.6e6),
    ("d", 8.64e7),
    ("w", 6.048e8),
];

/// Parses a duration. Returns whole milliseconds; none if the text is no duration.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the sum is positive, and a cast of a larger number saturates"
)]
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let (mut sum, mut parts) = (0.0, 0);
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, next) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        sum += number.parse::<f64>().ok()? * ms;
        (rest, parts) = (next, parts + 1);
    }
    (parts > 0).then(|| sum.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn durations_are_read_in_every_spelling() {
        for (text, ms) in [
            ("300ms", 300),
            ("5s", 5000),
            ("1m", 60_000),
            ("2h45m", 9_900_000),
            ("1h0m0s", 3_600_000),
            ("1d", 86_400_000),
            ("1w", 604_800_000),
            ("1.5h", 5_400_000),
            ("1d 12h", 129_600_000),
            ("0s", 0),
            ("0", 0),
            ("1500us", 2),
        ] {
            assert_eq!(milliseconds(text), Some(ms), "{text}");
        }
        for text in ["", "5", "s", "5x", "-5s", "5 minutes", "1..5s", "1h5"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
