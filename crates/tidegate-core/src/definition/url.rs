//! URLs in definitions: how they are checked, and how they are displayed without user info.

use std::net::Ipv6Addr;

use crate::definition::{Code, Fields, Reported};

/// Placeholder for hidden user info.
const HIDDEN: &str = "***";

/// Reads the optional field `url`.
pub(super) fn read_url(fields: &mut Fields<'_>) -> Result<Option<String>, Reported> {
    let Some(url) = fields.text("url")? else { return Ok(None) };
    match check(url) {
        Ok(()) => Ok(Some(url.to_owned())),
        Err(rule) => {
            let shown: String = without_user(url).escape_debug().take(200).collect();
            Err(fields.error(Code::BadName, "url", format!("{rule}, got `{shown}`")))
        }
    }
}

/// Checks a URL that will be called. A line break or a space in it could change the HTTP request
/// or add another one.
fn check(url: &str) -> Result<(), String> {
    if url.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("must not contain spaces, control characters or backslashes".to_owned());
    }
    let (user, place) =
        parts(url).ok_or("must begin with `http://` or `https://` and a host".to_owned())?;
    if user == Some(HIDDEN) {
        return Err(format!("must have its user info written out, not `{HIDDEN}`"));
    }
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("must close the `[` of its host")?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err("must have an IPv6 address between `[` and `]`".to_owned());
            }
            (host, port)
        }
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let is_host = |c: char| c.is_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("must begin with `http://` or `https://` and a host".to_owned());
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) && is_port(digits) => Ok(()),
        Some(_) | None => Err("must have a port from 1 to 65535, or none".to_owned()),
    }
}

fn is_port(digits: &str) -> bool {
    digits.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns the user info of a URL, and its host with the port; none if it is not an HTTP URL.
fn parts(url: &str) -> Option<(Option<&str>, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Some(match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    })
}

/// Returns a URL for display. The part before the `@` is hidden, because it may contain a
/// password.
pub(super) fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://{HIDDEN}@{place}{path}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, without_user};

    #[test]
    fn urls_are_checked_when_they_are_defined() {
        for url in [
            "http://a",
            "HTTPS://example.com/a?b=c#d",
            "hTTp://user:p%40ss@127.0.0.1:8080/",
            "http://[::1]:80/x",
            "http://[::ffff:1.2.3.4]",
            "http://grün.example:65535",
            "http://a_b.internal/@x",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for (url, said) in [
            ("", "must begin with"),
            ("a", "must begin with"),
            ("ftp://a", "must begin with"),
            ("http:/a", "must begin with"),
            ("http://", "a host"),
            ("http:///path", "a host"),
            ("http://@/x", "a host"),
            ("http://a<b", "a host"),
            ("http://a\r\nx: y", "control characters"),
            ("http://a/\u{7f}", "control characters"),
            ("http://a/b c", "spaces"),
            ("http://a\\@b", "backslashes"),
            ("http://a:99999/", "a port from 1 to 65535"),
            ("http://a:0", "a port from 1 to 65535"),
            ("http://a:", "a port from 1 to 65535"),
            ("http://a:+80", "a port from 1 to 65535"),
            ("http://[::1", "must close the `[`"),
            ("http://[a]", "an IPv6 address"),
            ("http://[::1]x", "a port"),
            ("http://***@a", "written out"),
        ] {
            let error = check(url).unwrap_err();
            assert!(error.contains(said), "{url}: {error}");
        }
    }

    #[test]
    fn user_info_is_not_shown() {
        for (url, shown) in [
            ("http://me:secret@a:1/b@c?d", "http://***@a:1/b@c?d"),
            ("http://secret@a", "http://***@a"),
            ("http://a/b@c", "http://a/b@c"),
            ("http://a", "http://a"),
            ("ftp://me:se@cret@a", "ftp://***@a"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
