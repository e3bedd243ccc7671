//! Occurrences of schedules, and the catch-up of missed ones.
//!
//! An expression has five fields (minute, hour, day, month, weekday), six with seconds in front, or
//! is one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`. It is read in a time zone of
//! the IANA database. Where clocks change:
//!
//! - If the clock jumps over occurrences (`30 2 * * *` in spring), one occurrence happens at the
//!   first moment after the jump. With `*` or `*/n` as the hour they are left out, because the
//!   schedule continues with the next matching hour.
//! - If a local time comes twice (in autumn), the occurrence happens the first time. With `*` or
//!   `*/n` as the hour, the minute or the second it happens both times, because such an expression
//!   is a frequency.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use tidegate_core::{definition::CATCH_UP_MS, definition::Code, schedule::Missed, time::Timestamp};

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

/// Error for an invalid cron expression or time zone; its text says how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCron {
    /// The expression cannot be parsed.
    #[error(
        "cron `{cron}` cannot be read ({reason}): write five fields (minute hour day month \
         weekday), six with seconds in front, or a word such as `@daily`"
    )]
    Expression {
        /// Cron expression.
        cron: String,
        /// Reason why the expression cannot be parsed.
        reason: String,
    },
    /// No date matches the expression.
    #[error("cron `{cron}` never occurs: no date matches its day and month, change them")]
    Never {
        /// Cron expression.
        cron: String,
    },
    /// The time zone is unknown.
    #[error(
        "time zone `{zone}` of cron `{cron}` is not known: write a name of the IANA database such \
         as `Europe/Berlin`, or leave it out for UTC"
    )]
    Zone {
        /// Cron expression.
        cron: String,
        /// Name of the time zone.
        zone: String,
    },
}

impl BadCron {
    /// Returns the stable code of this error.
    pub fn code(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Returns the code under which a definition's problem is reported.
    pub(crate) fn kind(&self) -> Code {
        match self {
            Self::Expression { .. } => Code::BadCron,
            Self::Never { .. } => Code::CronNeverOccurs,
            Self::Zone { .. } => Code::UnknownTimeZone,
        }
    }
}

impl Cron {
    /// Parses an expression and resolves its time zone.
    pub fn parse(cron: &str, time_zone: &str) -> Result<Self, BadCron> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
        let pattern = parser.build().parse(cron).map_err(|error| BadCron::Expression {
            cron: cron.to_owned(),
            reason: plain(&error),
        })?;
        let zone = TimeZone::get(time_zone)
            .map_err(|_| BadCron::Zone { cron: cron.to_owned(), zone: time_zone.to_owned() })?;
        let it = Self { pattern, zone };
        match it.next(Timestamp::from_micros(0)) {
            Some(_) => Ok(it),
            None => Err(BadCron::Never { cron: cron.to_owned() }),
        }
    }

    /// Returns the first occurrence strictly after a time; `None` beyond the end of the calendar.
    ///
    /// The cron library only computes local times between two clock changes. Its own results at
    /// clock changes differ from our rules: after a jump at 02:00 it lets `0 1 * * *` occur again.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        // Occurrences are at whole seconds.
        let second = after.micros().div_euclid(1_000_000);
        let mut from = jiff::Timestamp::from_second(second).ok()?;
        let mut offset = self.zone.to_offset(from);
        let mut inclusive = false;
        for change in self.zone.following(from) {
            let (end, new) = (change.timestamp(), change.offset());
            let (shows, at) = self.next_shown(offset, offset.to_datetime(from), inclusive)?;
            if at < end {
                return Some(micros(at));
            }
            let jumped_over = shows < new.to_datetime(end);
            if jumped_over && !self.pattern.pattern.hours.from_wildcard {
                return Some(micros(end));
            }
            (from, offset, inclusive) = (end, new, true);
        }
        let (_, at) = self.next_shown(offset, offset.to_datetime(from), inclusive)?;
        Some(micros(at))
    }

    /// Returns the next occurrence as a local time, as if clocks never changed, and its timestamp.
    fn next_shown(
        &self,
        offset: Offset,
        mut from: DateTime,
        mut inclusive: bool,
    ) -> Option<(DateTime, jiff::Timestamp)> {
        loop {
            let shows = self.pattern.find_next_occurrence(&from, inclusive).ok()?;
            let again = match self.zone.to_ambiguous_timestamp(shows).offset() {
                AmbiguousOffset::Fold { after, .. } => after == offset,
                AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => false,
            };
            if !again || self.is_frequent() {
                return Some((shows, offset.to_timestamp(shows).ok()?));
            }
            (from, inclusive) = (shows, false);
        }
    }

    /// Returns whether the expression is a frequency (`*` in hours, minutes or seconds) rather than
    /// a time of day.
    fn is_frequent(&self) -> bool {
        let fields = &self.pattern.pattern;
        [&fields.hours, &fields.minutes, &fields.seconds].iter().any(|field| field.from_wildcard)
    }

    /// Decides whether a planned occurrence waits, starts or is missed at the time `now`.
    pub fn turn(&self, planned: Timestamp, now: Timestamp, catch_up: CatchUp) -> Turn {
        if planned > now {
            return Turn::Wait;
        }
        let most = catch_up.most.max(1);
        let missed = |next: Option<Timestamp>| {
            let until = next.map_or(now, just_before);
            let count = self.count(Some(planned), until, MAX_COUNTED + 1);
            Missed { count: count.min(MAX_COUNTED), at_least: count > MAX_COUNTED }
        };
        let mut window = catch_up.window_ms;
        loop {
            let since = now.minus_ms(window);
            let kept = if planned >= since { Some(planned) } else { self.next(just_before(since)) };
            // Too many occurrences are within the window: halve it until at most `most` are left,
            // without counting all of them.
            if self.count(kept, now, most + 1) > most && window > 0 {
                window /= 2;
                continue;
            }
            return if kept == Some(planned) {
                Turn::Start { next: self.next(planned) }
            } else {
                Turn::Miss { next: kept, missed: missed(kept) }
            };
        }
    }

    /// Counts the occurrences from `first` up to `until`, and stops at `most`.
    fn count(&self, first: Option<Timestamp>, until: Timestamp, most: u32) -> u32 {
        let (mut at, mut count) = (first, 0);
        while let Some(occurrence) = at.filter(|at| *at <= until && count < most) {
            count += 1;
            at = self.next(occurrence);
        }
        count
    }
}

/// Number at which the count of missed occurrences stops. A schedule with an occurrence every
/// second misses millions in a year.
const MAX_COUNTED: u32 = 1000;

/// Limits for running missed occurrences later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// Maximum lateness of an occurrence.
    pub window_ms: u64,
    /// Maximum number of missed occurrences that run; if there are more, only the latest run.
    pub most: u32,
}

impl Default for CatchUp {
    /// A maximum of 100 prevents a schedule with an occurrence every second from flooding its
    /// workflow.
    fn default() -> Self {
        Self { window_ms: CATCH_UP_MS, most: 100 }
    }
}

/// Decision about a planned occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The occurrence is not due.
    Wait,
    /// The occurrence starts now.
    Start {
        /// Next occurrence.
        next: Option<Timestamp>,
    },
    /// The occurrence and all others before `next` are too late to run.
    Miss {
        /// First occurrence that is not too late.
        next: Option<Timestamp>,
        /// Number of missed occurrences.
        missed: Missed,
    },
}

fn micros(at: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().saturating_sub(1))
}

/// Converts the text of the cron library's error to the style of our errors.
fn plain(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim_end_matches('.');
    let text = text.split_once(": ").map_or(text, |(_, reason)| reason);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
