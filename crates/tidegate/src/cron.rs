//! When schedules occur, and what becomes of occurrences that nobody was there for.
//!
//! An expression has five fields (minute, hour, day, month, weekday), six with seconds in front, or
//! is one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`. It is read in a time zone of
//! the IANA database. Where clocks change:
//!
//! - what the clock jumps over (`30 2 * * *` in spring) occurs at the first moment after the jump,
//!   once however much there was; with `*` or `*/n` for the hour it is left out, as the next hour
//!   is there already;
//! - what comes twice (in autumn) occurs the first time; with `*` or `*/n` for the hour, the minute
//!   or the second it occurs both times, as a frequency has no pause.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use tidegate_core::{definition::CATCH_UP_MS, definition::Code, schedule::Missed, time::Timestamp};

/// An expression in a time zone.
#[derive(Clone, Debug)]
pub struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

/// An expression or a time zone that cannot be used, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCron {
    /// The expression cannot be read.
    #[error(
        "cron `{cron}` cannot be read ({reason}): write five fields (minute hour day month \
         weekday), six with seconds in front, or a word such as `@daily`"
    )]
    Expression {
        /// The expression.
        cron: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No moment fits.
    #[error("cron `{cron}` never occurs: no date fits its day and month, give it others")]
    Never {
        /// The expression.
        cron: String,
    },
    /// There is no such zone.
    #[error(
        "time zone `{zone}` of cron `{cron}` is not known: write a name of the IANA database such \
         as `Europe/Berlin`, or leave it out for UTC"
    )]
    Zone {
        /// The expression.
        cron: String,
        /// The zone.
        zone: String,
    },
}

impl BadCron {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.kind().as_str()
    }

    /// The kind of problem of a definition with it.
    pub(crate) fn kind(&self) -> Code {
        match self {
            Self::Expression { .. } => Code::BadCron,
            Self::Never { .. } => Code::CronNeverOccurs,
            Self::Zone { .. } => Code::UnknownTimeZone,
        }
    }
}

impl Cron {
    /// Reads an expression and finds its time zone.
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

    /// The first occurrence after a moment, never at it; none beyond the end of the calendar.
    ///
    /// The calendar is asked for what clocks show, between one change of clocks and the next: its
    /// own answer at changes is not ours (it lets `0 1 * * *` occur again after a jump at 02:00).
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

    /// The next occurrence as if clocks never changed: what they show, and when they do.
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

    /// Whether it says how often rather than when.
    fn is_frequent(&self) -> bool {
        let fields = &self.pattern.pattern;
        [&fields.hours, &fields.minutes, &fields.seconds].iter().any(|field| field.from_wildcard)
    }

    /// What to do about a planned occurrence at a moment.
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
            // Halving finds the latest of many without counting all of them.
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

    /// How many occurrences there are from one to a moment, counted no further than `most`.
    fn count(&self, first: Option<Timestamp>, until: Timestamp, most: u32) -> u32 {
        let (mut at, mut count) = (first, 0);
        while let Some(occurrence) = at.filter(|at| *at <= until && count < most) {
            count += 1;
            at = self.next(occurrence);
        }
        count
    }
}

/// How far missed occurrences are counted: a schedule of every second has millions in a year.
const MAX_COUNTED: u32 = 1000;

/// Which occurrences still run that nobody was there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// How late one may be.
    pub window_ms: u64,
    /// How many run one after another; of more, the latest do.
    pub most: u32,
}

impl Default for CatchUp {
    /// A hundred keeps a schedule of every second from flooding its workflow.
    fn default() -> Self {
        Self { window_ms: CATCH_UP_MS, most: 100 }
    }
}

/// What to do about a planned occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is not due.
    Wait,
    /// It runs.
    Start {
        /// The one after it.
        next: Option<Timestamp>,
    },
    /// It came too late, and all before the next one did.
    Miss {
        /// The first that did not.
        next: Option<Timestamp>,
        /// How many did.
        missed: Missed,
    },
}

fn micros(at: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().saturating_sub(1))
}

/// The library's words, in our form.
fn plain(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim_end_matches('.');
    let text = text.split_once(": ").map_or(text, |(_, reason)| reason);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
