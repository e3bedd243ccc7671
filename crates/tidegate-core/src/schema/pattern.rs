//! Regular expressions of schemas. The time to match is linear in the length of the text.
//!
//! JSON Schema uses the dialect of ECMAScript. The `regex` crate supports neither look-around nor
//! backreferences, because they need backtracking. Only look-ahead at the beginning is supported,
//! because generated patterns for email addresses and passwords have it: `^(?!a)(?=b)c` is split
//! into three expressions, all anchored at the same position.

use regex_lite::{Regex, RegexBuilder};

/// Maximum size of a compiled expression, in bytes. The time to match grows with it. The largest
/// pattern that zod writes, for IPv6 addresses, needs at most 48 KiB.
const MAX_COMPILED_BYTES: usize = 64 * 1024;

/// Compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    main: Regex,
    /// The look-ahead expressions at the beginning, each with whether it must match or must not.
    ahead: Vec<(Regex, bool)>,
}

impl Pattern {
    /// Compiles a pattern. The error is the reason why it is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let compile = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            builder.size_limit(MAX_COMPILED_BYTES).build().map_err(|error| error.to_string())
        };
        let (mut rest, mut ahead) = (text, Vec::new());
        while let Some((inner, wanted, after)) = look_ahead(rest) {
            ahead.push((compile(&translate(&format!("^(?:{inner})")))?, wanted));
            rest = after;
        }
        if ahead.is_empty() {
            return Ok(Self { main: compile(&translate(text))?, ahead });
        }
        if has_alternatives(rest) {
            return Err("look-ahead is supported only at the beginning".to_owned());
        }
        Ok(Self { main: compile(&translate(&format!("^{rest}")))?, ahead })
    }

    /// Whether a part of the text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.ahead.iter().all(|(ahead, wanted)| ahead.is_match(text) == *wanted)
            && self.main.is_match(text)
    }
}

/// Splits a look-ahead off the beginning of a pattern. Returns its expression, whether it must
/// match, and the remaining pattern. A `^` before the look-ahead is removed.
fn look_ahead(text: &str) -> Option<(&str, bool, &str)> {
    let text = text.strip_prefix('^').unwrap_or(text);
    let (inner, wanted) = match (text.strip_prefix("(?="), text.strip_prefix("(?!")) {
        (Some(inner), _) => (inner, true),
        (_, Some(inner)) => (inner, false),
        (None, None) => return None,
    };
    let mut depth = 0;
    let end = tokens(inner).find(|token| {
        depth += token.nesting();
        depth < 0
    })?;
    Some((&inner[..end.at], wanted, &inner[end.at + 1..]))
}

/// Whether an expression has alternatives outside of all groups.
fn has_alternatives(text: &str) -> bool {
    let mut depth = 0;
    tokens(text).any(|token| {
        depth += token.nesting();
        depth == 0 && !token.in_class && token.text == "|"
    })
}

/// Converts an ECMAScript expression for the `regex` crate, in which `[`, `&&` and `~~` are
/// operators inside of a character class.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for token in tokens(text) {
        if token.in_class && ["[", "&", "~"].contains(&token.text) {
            out.push('\\');
        }
        out.push_str(token.text);
    }
    out
}

/// A character of an expression, or the first two characters of an escape sequence.
struct Token<'a> {
    at: usize,
    text: &'a str,
    /// Whether the token is inside of a character class. The brackets do not count.
    in_class: bool,
}

impl Token<'_> {
    /// Returns the change of the nesting depth of groups: 1, 0 or -1.
    fn nesting(&self) -> i32 {
        match self.text {
            "(" if !self.in_class => 1,
            ")" if !self.in_class => -1,
            _ => 0,
        }
    }
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut chars = text.char_indices().peekable();
    let mut in_class = false;
    std::iter::from_fn(move || {
        let (at, first) = chars.next()?;
        let last = if first == '\\' { chars.next() } else { None };
        let end = last.map_or(at + first.len_utf8(), |(at, last)| at + last.len_utf8());
        let was_in_class = in_class;
        match first {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        Some(Token { at, text: &text[at..end], in_class: was_in_class && in_class })
    })
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_of_ecmascript_match_as_they_do_there() {
        for (pattern, fits, unfit) in [
            ("b+", "abc", "ac"),
            ("^a.c$", "abc", "xabc"),
            (r"^\d{3}-\w+$", "123-ab_", "12-ab"),
            // `\d` and `\w` match only ASCII.
            (r"^\d$", "7", "\u{661}"),
            (r"^[\w.+-]+$", "a.b+c-d", "a b"),
            (r"^[^/\\[]+$", "abc", "a[c"),
            ("^[a&&b]+$", "a&b", "c"),
            (r"^\u0061\/\x62$", "a/b", "ab"),
            ("^(?:x|y)|z$", "az", "a"),
            // Look-ahead at the beginning, as in zod's patterns for email addresses and passwords.
            (r"^(?!\.)(?!.*\.\.)[a-z.]+$", "a.b", "a..b"),
            (r"^(?!\.)(?!.*\.\.)[a-z.]+$", "ab", ".ab"),
            (r"^(?=.*[A-Z])(?=.*\d).{4,}$", "aB3d", "ab3d"),
            (r"^(?=.*[A-Z])(?=.*\d).{4,}$", "aB3d", "aB3"),
            (r"^(?!(?:con|[)]x)$)[a-z)]+$", "cons", "con"),
        ] {
            let read = Pattern::parse(pattern).unwrap();
            assert!(read.is_match(fits), "{pattern} does not match {fits}");
            assert!(!read.is_match(unfit), "{pattern} matches {unfit}");
        }
    }

    #[test]
    fn patterns_that_need_backtracking_are_refused_with_the_reason() {
        for (pattern, reason) in [
            (r"^P(?!$)\d+$", "look-around is not supported"),
            (r"^(?!a)b|c$", "only at the beginning"),
            (r"^(.)\1$", "backreferences are not supported"),
            (r"^\p{L}$", "Unicode character classes are not supported"),
            ("^(a", "without closing"),
            ("^(?!a", "look-around is not supported"),
            ("(((a{100}){100}){100})", "size limit"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.contains(reason), "{pattern}: wrong error {error}");
        }
    }
}
