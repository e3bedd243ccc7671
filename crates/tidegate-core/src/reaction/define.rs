//! Definitions of reactions.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::stream::is_name;

/// Default of `maxLostLeases`.
pub const DEFAULT_MAX_LOST_LEASES: u32 = 10;

const MAX_DURATION_MS: u64 = 365 * 24 * 60 * 60 * 1000;
const HOUR_MS: u64 = 60 * 60 * 1000;

/// Definition of a reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// The reaction's name, unique in the workspace.
    pub name: String,
    /// The streams that the reaction follows.
    pub source: Source,
    /// Whether the reaction gets only events that are committed after it was defined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_head: bool,
    /// Maximum number of retries of one event: n retries are n + 1 attempts.
    pub max_retries: u32,
    /// Whether a stream is blocked after the last retry has failed. If not, it is retried without
    /// end.
    pub block_on_error: bool,
    /// The delay before an event is retried; none means no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The duration of a lease, in milliseconds.
    pub lease_ms: u64,
    /// Maximum number of events in one call of the handler.
    pub batch: u32,
    /// A stream is blocked after this many consecutive claims without progress.
    pub max_lost_leases: u32,
}

/// The part of a reaction's definition that a commit to a stream needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The reaction's name.
    pub reaction: String,
    /// The streams that the reaction follows.
    pub source: Source,
    /// Whether the reaction gets only events that are committed after it was defined.
    pub from_head: bool,
}

impl From<&Reaction> for Follower {
    fn from(reaction: &Reaction) -> Self {
        let (reaction, source, from_head) =
            (reaction.name.clone(), reaction.source.clone(), reaction.from_head);
        Self { reaction, source, from_head }
    }
}

/// Streams that a reaction follows, written `orders-1`, `orders-*` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One stream.
    Stream(String),
    /// All streams whose name begins with this prefix.
    Family(String),
    /// All streams.
    All,
}

impl Source {
    /// Parses the notation. An error is the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        is_name(text)?;
        let (name, family) = match text.strip_suffix('*') {
            Some("") => return Ok(Self::All),
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err(format!("may have one * at its end, got `{text}`"));
        }
        Ok(if family { Self::Family(name.to_owned()) } else { Self::Stream(name.to_owned()) })
    }

    /// Whether the reaction follows a stream with this name.
    pub fn covers(&self, stream: &str) -> bool {
        match self {
            Self::Stream(name) => name == stream,
            Self::Family(prefix) => stream.starts_with(prefix.as_str()),
            Self::All => true,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(name) => f.write_str(name),
            Self::Family(prefix) => write!(f, "{prefix}*"),
            Self::All => f.write_str("*"),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// Delay before an event is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// How the delay grows with consecutive failures.
    #[serde(rename = "type")]
    pub kind: BackoffKind,
    /// The delay after the first failure.
    pub ms: u64,
    /// The maximum delay, before jitter.
    pub max_ms: u64,
    /// Whether a random time is added to delays, so that events that failed together are not
    /// retried together. It is never subtracted: an event is not retried before its delay is over.
    pub jitter: bool,
}

/// Growth of the delay with consecutive failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum BackoffKind {
    /// The delay does not grow.
    Fixed,
    /// The delay grows by `ms` with each failure.
    Linear,
    /// The delay doubles with each failure.
    Exponential,
}

impl Backoff {
    /// Returns the delay after a number of consecutive failures.
    ///
    /// `chance` is a random number, new for each failure. With jitter it makes the delay longer by
    /// up to a half.
    pub fn wait_ms(&self, failures: u32, chance: u32) -> u64 {
        let wait_ms = match self.kind {
            BackoffKind::Fixed => self.ms,
            BackoffKind::Linear => self.ms.saturating_mul(u64::from(failures)),
            BackoffKind::Exponential => {
                let doublings = failures.saturating_sub(1);
                self.ms.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            }
        };
        let wait_ms = wait_ms.min(self.max_ms);
        if !self.jitter {
            return wait_ms;
        }
        let more = (u128::from(wait_ms) * u128::from(chance)) >> 33;
        wait_ms.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// All problems of a reaction's definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionErrors(pub Vec<ReactionProblem>);

/// One problem of a reaction's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionProblem {
    /// The stable code.
    pub code: &'static str,
    /// The kind and name of the definition: ``reaction `mail` ``.
    pub subject: String,
    /// The field in the author's notation: `backoff.ms`.
    pub field: String,
    /// The rule, the value and the fix.
    pub message: String,
}

impl fmt::Display for ReactionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.subject, self.field, self.message)
    }
}

impl fmt::Display for ReactionErrors {
    /// Writes one problem per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ReactionErrors {}

impl Reaction {
    /// Creates a reaction with the defaults.
    pub fn new(name: &str, source: Source) -> Self {
        Self {
            name: name.to_owned(),
            source,
            from_head: false,
            max_retries: 3,
            block_on_error: true,
            backoff: None,
            lease_ms: 30_000,
            batch: 100,
            max_lost_leases: DEFAULT_MAX_LOST_LEASES,
        }
    }

    /// Parses a definition and reports all of its problems.
    pub fn parse(value: &Value) -> Result<Self, ReactionErrors> {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut read = Reader { subject: format!("reaction `{name}`"), problems: Vec::new() };
        let reaction = read.reaction(value);
        match reaction {
            Some(reaction) if read.problems.is_empty() => Ok(reaction),
            Some(_) | None => Err(ReactionErrors(read.problems)),
        }
    }
}

/// Reader that continues after a problem, so that all problems are found.
struct Reader {
    subject: String,
    problems: Vec<ReactionProblem>,
}

impl Reader {
    const FIELDS: [&str; 9] = [
        "name",
        "source",
        "fromHead",
        "maxRetries",
        "blockOnError",
        "backoff",
        "leaseMs",
        "batch",
        "maxLostLeases",
    ];

    fn reaction(&mut self, value: &Value) -> Option<Reaction> {
        let map = self.object("", value, &Self::FIELDS)?;
        let name = self.text(map, "name", "1 to 256 characters", |text| {
            is_name(text).map(|()| text.to_owned())
        });
        let rule = "a stream, a family such as `orders-*`, or `*`";
        let source = self.text(map, "source", rule, Source::parse);
        let from_head = self.flag(map, "", "fromHead");
        let max_retries = self.number(map, "", "maxRetries", 0..=u64::from(u32::MAX));
        let block_on_error = self.flag(map, "", "blockOnError");
        let lease_ms = self.number(map, "", "leaseMs", 1..=MAX_DURATION_MS);
        let batch = self.number(map, "", "batch", 1..=10_000);
        let lost = self.number(map, "", "maxLostLeases", 1..=u64::from(u32::MAX));
        let backoff = map.get("backoff").filter(|value| !value.is_null());
        let backoff = backoff.map(|value| self.backoff(value));
        let default = Reaction::new(&name?, source?);
        Some(Reaction {
            from_head: from_head.unwrap_or(default.from_head),
            max_retries: narrow(max_retries).unwrap_or(default.max_retries),
            block_on_error: block_on_error.unwrap_or(default.block_on_error),
            backoff: backoff.flatten(),
            lease_ms: lease_ms.unwrap_or(default.lease_ms),
            batch: narrow(batch).unwrap_or(default.batch),
            max_lost_leases: narrow(lost).unwrap_or(default.max_lost_leases),
            ..default
        })
    }

    fn backoff(&mut self, value: &Value) -> Option<Backoff> {
        let map = self.object("backoff", value, &["type", "ms", "maxMs", "jitter"])?;
        let kind = match map.get("type").map(|value| value.as_str().unwrap_or_default()) {
            Some("fixed") => BackoffKind::Fixed,
            Some("linear") => BackoffKind::Linear,
            Some("exponential") | None => BackoffKind::Exponential,
            Some(_) => {
                let known = "must be `fixed`, `linear` or `exponential`, got";
                self.error("unknown_value", "backoff.type", &format!("{known} {}", map["type"]));
                BackoffKind::Fixed
            }
        };
        let jitter = self.flag(map, "backoff.", "jitter").unwrap_or(true);
        let max_ms = self.number(map, "backoff.", "maxMs", 1..=MAX_DURATION_MS);
        let Some(ms) = self.number(map, "backoff.", "ms", 1..=MAX_DURATION_MS) else {
            if !map.contains_key("ms") {
                let rule = "is required: milliseconds, at least 1";
                self.error("missing_field", "backoff.ms", rule);
            }
            return None;
        };
        if let Some(most) = max_ms.filter(|most| *most < ms) {
            let rule = format!("must be at least backoff.ms ({ms}), got {most}");
            self.error("out_of_range", "backoff.maxMs", &rule);
        }
        Some(Backoff { kind, ms, max_ms: max_ms.unwrap_or(ms.max(HOUR_MS)), jitter })
    }

    /// Opens an object, and reports unknown fields.
    fn object<'a>(
        &mut self,
        at: &str,
        value: &'a Value,
        known: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let fields = known.join(", ");
        let place = if at.is_empty() { "definition" } else { at };
        let Some(map) = value.as_object() else {
            let rule = format!("must be an object of {fields}, got {}", shorten(value));
            self.error("wrong_type", place, &rule);
            return None;
        };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let field = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            self.error("unknown_field", &field, &format!("is not known: use one of {fields}"));
        }
        Some(map)
    }

    /// Reads a required string and converts it with `read`.
    fn text<T>(
        &mut self,
        map: &Map<String, Value>,
        field: &str,
        rule: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let problem = match map.get(field) {
            None => ("missing_field", format!("is required: {rule}")),
            Some(Value::String(text)) => match read(text) {
                Ok(value) => return Some(value),
                Err(broken) => ("bad_name", broken),
            },
            Some(other) => ("wrong_type", format!("must be {rule}, got {}", shorten(other))),
        };
        self.error(problem.0, field, &problem.1);
        None
    }

    /// Reads an optional integer.
    fn number(
        &mut self,
        map: &Map<String, Value>,
        at: &str,
        field: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = map.get(field)?;
        let (least, most) = (range.start(), range.end());
        let (code, rule) = match (value.as_u64(), value.as_f64()) {
            (Some(number), _) if range.contains(&number) => return Some(number),
            (Some(number), _) if number > *most => {
                let days = if *most == MAX_DURATION_MS { " (365 days)" } else { "" };
                ("out_of_range", format!("must be at most {most}{days}"))
            }
            (Some(_), _) => ("out_of_range", format!("must be at least {least}")),
            (None, Some(number)) if number < 0.0 => {
                ("out_of_range", format!("must be at least {least}"))
            }
            (None, _) => ("wrong_type", "must be a whole number".to_owned()),
        };
        self.error(code, &format!("{at}{field}"), &format!("{rule}, got {}", shorten(value)));
        None
    }

    fn flag(&mut self, map: &Map<String, Value>, at: &str, field: &str) -> Option<bool> {
        let value = map.get(field)?;
        if value.as_bool().is_none() {
            let rule = format!("must be true or false, got {}", shorten(value));
            self.error("wrong_type", &format!("{at}{field}"), &rule);
        }
        value.as_bool()
    }

    fn error(&mut self, code: &'static str, field: &str, message: &str) {
        let (subject, field) = (self.subject.clone(), field.to_owned());
        self.problems.push(ReactionProblem { code, subject, field, message: message.to_owned() });
    }
}

fn narrow(number: Option<u64>) -> Option<u32> {
    number.map(|number| u32::try_from(number).expect("number() checked the range"))
}

/// Shortens a value for an error message.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    let cut = text.floor_char_boundary(60);
    if cut < text.len() { format!("{}…", &text[..cut]) } else { text }
}
