//! The known name that is nearest to an unknown one, for error messages.

/// Suggests a replacement for `unknown`: the nearest known name, or all known names.
pub(crate) fn suggest(unknown: &str, known: &[&str]) -> String {
    match nearest(unknown, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", list(known)),
    }
}

/// Returns the names in backticks, separated by commas.
pub(crate) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the nearest known name, if it is near enough to be what the author meant.
pub(crate) fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let unknown = plain(unknown);
    known
        .iter()
        .map(|name| (distance(&unknown, &plain(name)), *name))
        // At most a third of the letters may differ, or the known name begins with the unknown
        // one: `limt` suggests `limit`, but `foo` does not suggest `key`.
        .filter(|(distance, name)| {
            let begins = unknown.len() >= 3 && plain(name).starts_with(&unknown);
            begins || distance * 3 <= name.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the letters and digits of a name in lower case, so that `per_ms` equals `perMs`.
fn plain(name: &str) -> Vec<char> {
    // A limit, because the distance takes quadratic time and the name comes from outside.
    let letters = name.chars().filter(|letter| letter.is_alphanumeric()).take(64);
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the edit distance: the number of letters to add, remove or change to get from one name
/// to the other.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (n, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (m, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[m + 1];
            row[m + 1] = changed.min(diagonal + 1).min(row[m] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        let known = ["limit", "perMs", "key", "onNewVersion", "rateLimit"];
        let cases = [
            ("limt", Some("limit")),
            ("limits", Some("limit")),
            ("per_ms", Some("perMs")),
            ("permS", Some("perMs")),
            ("on-new-version", Some("onNewVersion")),
            ("rate_limits", Some("rateLimit")),
            ("rat", Some("rateLimit")),
            ("on", None),
            ("foo", None),
            ("", None),
            ("burst", None),
        ];
        for (unknown, expected) in cases {
            assert_eq!(nearest(unknown, &known), expected, "{unknown}");
        }
    }
}
