//! What people do about streams: unblock them, have them replayed from the start, put them off,
//! or have them served next.
//!
//! The streams are selected first, without locks and a page at a time
//! ([`Repair::find`]); then each page is changed, with everything that was asked of a stream
//! asked again under its lock ([`Repair::apply`]).

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

/// How many places are looked at first; four times as many as long as there are more.
const FIND_READ: u32 = 1000;

/// What is to be done with which streams of one reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub follower: Follower,
    /// What to do.
    pub remedy: Remedy,
    /// With which streams.
    pub which: StreamSelection,
}

/// What can be done with a stuck stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Go on after the last event that was acked. Only for those that are blocked.
    Unblock,
    /// Begin again with the first event, blocked or not.
    Reset,
    /// Claim it not before this moment. Only for those that nobody leases: a holder is at work.
    Defer(Timestamp),
    /// Claim it next, before all that wait. Only for those that nobody leases; once.
    Prioritize,
}

/// Selects streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamSelection {
    /// Exactly these; an empty list means none.
    Names(Vec<String>),
    /// All that pass the filter. An empty filter is refused for a reset.
    Where(Filter),
    /// All, said so on purpose (`all: true`).
    All,
}

/// Restricts streams; what is absent restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filter {
    /// By the stream's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Pattern>,
    /// By the reaction's source, as it is spelled in the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only those that are blocked, or only those that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

impl Filter {
    /// Whether a place is among them.
    pub fn passes(&self, sub: &Subscription, follower: &Follower) -> bool {
        let stream = self.stream.as_ref().is_none_or(|pattern| pattern.matches(&sub.stream));
        let source = self.source.as_ref();
        let source = source.is_none_or(|source| *source == follower.source.to_string());
        stream && source && self.blocked.is_none_or(|wanted| sub.blocked.is_some() == wanted)
    }
}

/// Literal text that a stream's name contains; `^` in front and `$` behind tie it to the ends.
///
/// Case counts. This much means the same to every store and to everybody who reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    at_start: bool,
    at_end: bool,
}

/// Text that may be meant as a pattern of some other kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A character that is special in regular expressions, globs or SQL.
    #[error(
        "stream filter `{text}`: `{letter}` is not taken literally everywhere; write plain text \
         with ^ in front or $ behind, or give the streams by name"
    )]
    Special {
        /// The filter.
        text: String,
        /// The character.
        letter: char,
    },
    /// Nothing to look for.
    #[error("stream filter `{text}`: must have at least 1 character besides ^ and $")]
    Empty {
        /// The filter.
        text: String,
    },
}

impl PatternError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "bad_stream_filter"
    }
}

/// What would be a pattern somewhere else. The dot and the underscore are not among them: too
/// many names have them, and taken literally they match less than the pattern, not more.
const SPECIAL: [char; 14] = ['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\', '%', '^', '$'];

impl Pattern {
    /// Reads a pattern, and refuses what might be meant as one of another kind.
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

    /// Whether a name is meant.
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
    /// The next streams that are meant, by name, after one. A hint: ask it apart from changes.
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

    /// Does it with those of `streams` that are still meant, and says with which.
    pub fn apply(
        &self,
        draft: &mut Draft,
        streams: &[String],
    ) -> Decided<Vec<String>, ReactionRefusal> {
        self.check()?;
        // A name given twice is one stream.
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
        // To the back: who unblocks one stream does not mean to hold up the others.
        to_back(sub, draft.now());
    }

    /// A filter left empty by mistake must not replay everything.
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

    /// At least the next `wanted` streams that are meant, or all that are left.
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

/// Unblocks exactly these streams, and says which of them were blocked.
pub fn unblock(
    draft: &mut Draft,
    ws: &Workspace,
    follower: &Follower,
    streams: &[String],
) -> Decided<Vec<String>, ReactionRefusal> {
    by_name(ws, follower, Remedy::Unblock, streams).apply(draft, streams)
}

/// Has exactly these streams replayed from their first event, and says which of them exist.
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
