//! Limits of commits.

use super::{Commit, NewLogged, StreamRefusal};
use crate::json::MAX_EVENT_BYTES;

/// Maximum length of the name of a stream, a reaction or an event, in characters.
pub const MAX_NAME_CHARS: usize = 256;

/// Maximum number of events in one commit. All of them are written in one transaction.
pub const MAX_COMMIT_EVENTS: usize = 1000;

/// Maximum size of one commit, names, data and meta together.
pub const MAX_COMMIT_BYTES: usize = 4 * 1024 * 1024;

/// Checks all rules for a commit that need no rows.
pub fn check(commit: &Commit) -> Result<(), StreamRefusal> {
    check_stream(&commit.stream)?;
    let (stream, count) = (&commit.stream, commit.events.len());
    if count == 0 || count > MAX_COMMIT_EVENTS {
        return Err(StreamRefusal::Count { stream: stream.clone(), count });
    }
    let mut total = 0;
    for event in &commit.events {
        check_event(stream, event)?;
        total += size(event);
    }
    fits(stream, "a commit", total, MAX_COMMIT_BYTES)
}

pub(super) fn check_stream(name: &str) -> Result<(), StreamRefusal> {
    is_name(name).map_err(|rule| bad_name("stream", name, rule))
}

/// Checks the size of one event. Also used for events of Tidegate itself, whose names begin with
/// `$`.
pub(super) fn check_size(stream: &str, event: &NewLogged) -> Result<(), StreamRefusal> {
    fits(stream, "an event", size(event), MAX_EVENT_BYTES)
}

fn check_event(stream: &str, event: &NewLogged) -> Result<(), StreamRefusal> {
    is_name(&event.name).map_err(|rule| bad_name("event", &event.name, rule))?;
    if event.name.starts_with('$') {
        let rule = "names that begin with $ are reserved".to_owned();
        return Err(bad_name("event", &event.name, rule));
    }
    check_size(stream, event)
}

/// Checks a name. An error is the rule that it breaks.
///
/// Control characters are refused, because not every database can store them and they are
/// invisible.
pub(crate) fn is_name(name: &str) -> Result<(), String> {
    let chars = name.chars().count();
    if chars == 0 || chars > MAX_NAME_CHARS {
        return Err(format!("must have 1 to {MAX_NAME_CHARS} characters, got {chars}"));
    }
    match name.chars().find(|letter| letter.is_control()) {
        Some(letter) => Err(format!("must have no control characters, got {letter:?}")),
        None => Ok(()),
    }
}

fn bad_name(what: &'static str, name: &str, rule: String) -> StreamRefusal {
    let name = name.chars().take(64).flat_map(char::escape_debug).collect();
    StreamRefusal::BadName { what, name, rule }
}

/// Returns the number of bytes that an event counts towards [`MAX_COMMIT_BYTES`].
pub fn size(event: &NewLogged) -> usize {
    event.name.len() + event.data.as_str().len() + event.meta.as_str().len()
}

pub(super) fn fits(
    stream: &str,
    what: &'static str,
    size: usize,
    limit: usize,
) -> Result<(), StreamRefusal> {
    if size > limit {
        return Err(StreamRefusal::TooLarge { stream: stream.to_owned(), what, limit, size });
    }
    Ok(())
}
