//! Manual repair of subscriptions: unblock, reset to the first event, defer, or prioritize.
//!
//! [`Repair::find`] selects the streams, a page at a time and without locks. [`Repair::apply`]
//! changes the streams of a page, after it has checked all conditions again under lock.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Follower, ReactionRefusal};
use crate::{
    draft::{Decided, Draft, Stop},
    reads::Scan,
    row::{Row, Subscription, Workspace},
    stream::{ask, rewind, sub_key, to_back},
    time::Timestamp,
};

/// Number of subscriptions that are read at first. The next reads are four times as large, until
/// enough are found.
const FIND_READ: u32 = 1000;

/// Repair of selected streams of one reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub follower: Follower,
    /// What to do with the streams.
    pub remedy: Remedy,
    /// The selected streams.
    pub which: StreamSelection,
}

/// What a repair does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Continues after the last acked event. Only for blocked streams.
    Unblock,
    /// Starts again with the first event. For blocked and other streams.
    Reset,
    /// The stream is not claimed before this time. Only for streams without a lease.
    Defer(Timestamp),
    /// The stream is claimed next, once. Only for streams without a lease.
    Prioritize,
}

/// Selection of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamSelection {
    /// The streams with these names; an empty list means no stream.
    Names(Vec<String>),
    /// All streams that match the filter. An empty filter is refused for a reset.
    Where(Filter),
    /// All streams, requested explicitly (`all: true`).
    All,
}

/// Filter of streams; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filter {
    /// Streams whose name matches this pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Pattern>,
    /// Streams of reactions with this source, as written in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `true` for only blocked streams, `false` for only streams that are not blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

impl Filter {
    /// Whether a subscription matches.
    pub fn passes(&self, sub: &Subscription, follower: &Follower) -> bool {
        let stream = self.stream.as_ref().is_none_or(|pattern| pattern.matches(&sub.stream));
        let source = self.source.as_ref();
        let source = source.is_none_or(|source| *source == follower.source.to_string());
        stream && source && self.blocked.is_none_or(|wanted| sub.blocked.is_some() == wanted)
    }
}

/// Pattern for the names of streams: a text that the name must contain. `^` in front means that the
/// name begins with it, `$` at the end that the name ends with it.
///
/// Case-sensitive. Other special characters are refused, because their meaning differs between
/// stores and between users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    at_start: bool,
    at_end: bool,
}

/// Reason why a text is not a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text has a character that is special in regular expressions, globs or SQL.
    #[error(
        "stream filter `{text}`: the special character `{letter}` is not allowed; write plain \
         text with ^ in front or $ at the end, or give the streams by name"
    )]
    Special {
        /// The filter.
        text: String,
        /// The character.
        letter: char,
    },
    /// The text is empty, except for `^` and `$`.
    #[error("stream filter `{text}`: must have at least 1 character besides ^ and $")]
    Empty {
        /// The filter.
        text: String,
    },
}

impl PatternError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        "bad_stream_filter"
    }
}

/// Characters that are special in other kinds of patterns. Dot and underscore are allowed, because
/// many names have them. As literal characters they only match fewer names than as wildcards.
const SPECIAL: [char; 14] = ['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\', '%', '^', '$'];

impl Pattern {
    /// Parses a pattern. Refuses text that may be meant as another kind of pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (rest, at_start) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
        let (rest, at_end) = rest.strip_suffix('$').map_or((rest, false), |rest| (rest, true));
        if let Some(letter) = rest.chars().find(|letter| SPECIAL.contains(letter)) {
            return Err(PatternError::Special { text: text.to_owned(), letter });
        }
        if rest.is_empty() {
            return Err(PatternError::Empty { text: text.to_owned() });
        }
        Ok(Self { text: rest.to_owned(), at_start, at_end })
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        match (self.at_start, self.at_end) {
            (true, true) => name == self.text,
            (true, false) => name.starts_with(&self.text),
            (false, true) => name.ends_with(&self.text),
            (false, false) => name.contains(&self.text),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        let start = if pattern.at_start { "^" } else { "" };
        let end = if pattern.at_end { "$" } else { "" };
        format!("{start}{}{end}", pattern.text)
    }
}

impl Repair {
    /// Returns the next matching streams by name, after the stream `after`. The result is only a
    /// hint, because it is read without locks.
    pub fn find(
        &self,
        draft: &Draft,
        after: Option<&str>,
        limit: usize,
    ) -> Decided<Vec<String>, ReactionRefusal> {
        self.check()?;
        let mut streams = match &self.which {
            StreamSelection::Names(names) => names.clone(),
            StreamSelection::Where(_) | StreamSelection::All => self.scan(draft, after, limit)?,
        };
        streams.retain(|stream| after.is_none_or(|after| stream.as_str() > after));
        streams.sort_unstable();
        streams.dedup();
        streams.truncate(limit);
        Ok(streams)
    }

    /// Applies the repair to those of `streams` that still match, and returns them.
    pub fn apply(
        &self,
        draft: &mut Draft,
        streams: &[String],
    ) -> Decided<Vec<String>, ReactionRefusal> {
        self.check()?;
        // A set, because the list may contain a name twice.
        let streams: BTreeSet<&String> = streams.iter().collect();
        let key = |stream: &String| sub_key(&self.ws, &self.follower.reaction, stream);
        ask(draft, streams.iter().map(|stream| key(stream)))?;
        let mut done = Vec::new();
        for stream in streams {
            let Some(Row::Subscription(sub)) = draft.row(&key(stream))? else { continue };
            if self.means(sub, draft.now()) {
                let mut sub = sub.clone();
                self.mend(&mut sub, draft);
                draft.put(sub);
                done.push(stream.clone());
            }
        }
        Ok(done)
    }

    fn mend(&self, sub: &mut Subscription, draft: &Draft) {
        let at = match self.remedy {
            Remedy::Unblock => sub.at,
            Remedy::Reset => -1,
            Remedy::Defer(until) => {
                sub.due = Some(until);
                return;
            }
            Remedy::Prioritize => {
                sub.since = Timestamp::default();
                return;
            }
        };
        rewind(sub, at);
        // To the back of the queue, so that the repaired stream does not delay other streams.
        to_back(sub, draft.now());
    }

    /// Refuses a reset with an empty filter: it may be a mistake, and would replay all streams.
    fn check(&self) -> Decided<(), ReactionRefusal> {
        match (self.remedy, &self.which) {
            (Remedy::Reset, StreamSelection::Where(filter)) if *filter == Filter::default() => {
                let reaction = self.follower.reaction.clone();
                Err(Stop::Refused(ReactionRefusal::NeedsAll { reaction }))
            }
            (Remedy::Reset | Remedy::Unblock | Remedy::Defer(_) | Remedy::Prioritize, _) => Ok(()),
        }
    }

    fn means(&self, sub: &Subscription, now: Timestamp) -> bool {
        let wanted = match &self.which {
            StreamSelection::Names(names) => names.contains(&sub.stream),
            StreamSelection::Where(filter) => filter.passes(sub, &self.follower),
            StreamSelection::All => true,
        };
        let fits = match self.remedy {
            Remedy::Unblock => sub.blocked.is_some(),
            Remedy::Reset => true,
            Remedy::Defer(_) | Remedy::Prioritize => sub.holder(now).is_none(),
        };
        wanted && fits && sub.ws == self.ws && sub.reaction == self.follower.reaction
    }

    /// Returns at least the next `wanted` matching streams, or all remaining ones.
    fn scan(
        &self,
        draft: &Draft,
        after: Option<&str>,
        wanted: usize,
    ) -> Decided<Vec<String>, ReactionRefusal> {
        let (reaction, after) = (self.follower.reaction.clone(), after.unwrap_or_default());
        let scan = Scan::Subs(self.ws.clone(), reaction.clone(), after.to_owned());
        let mut limit = FIND_READ;
        loop {
            let found = draft.found(&scan, limit)?;
            let subs = found
                .iter()
                .filter_map(|row| if let Row::Subscription(sub) = row { Some(sub) } else { None });
            let complete =
                found.len() < limit as usize || subs.clone().any(|sub| sub.reaction > reaction);
            let meant = subs.filter(|sub| self.means(sub, draft.now()));
            let streams: Vec<String> = meant.map(|sub| sub.stream.clone()).collect();
            if complete || streams.len() >= wanted {
                return Ok(streams);
            }
            limit = limit.saturating_mul(4);
        }
    }
}

/// Unblocks the given streams. Returns those of them that were blocked.
pub fn unblock(
    draft: &mut Draft,
    ws: &Workspace,
    follower: &Follower,
    streams: &[String],
) -> Decided<Vec<String>, ReactionRefusal> {
    by_name(ws, follower, Remedy::Unblock, streams).apply(draft, streams)
}

/// Resets the given streams to their first event. Returns those of them that exist.
pub fn reset(
    draft: &mut Draft,
    ws: &Workspace,
    follower: &Follower,
    streams: &[String],
) -> Decided<Vec<String>, ReactionRefusal> {
    by_name(ws, follower, Remedy::Reset, streams).apply(draft, streams)
}

fn by_name(ws: &Workspace, follower: &Follower, remedy: Remedy, streams: &[String]) -> Repair {
    let which = StreamSelection::Names(streams.to_vec());
    Repair { ws: ws.clone(), follower: follower.clone(), remedy, which }
}
