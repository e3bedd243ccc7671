//! Definitions and what can be wrong with them.
//!
//! A definition is checked when it is registered, and everything that is wrong with it is said at
//! once: which control, which field, which value, and what to write instead.

mod fields;
pub(crate) mod nearest;

use std::fmt;

use serde::Serialize;

pub(crate) use fields::{Fields, Reported, shorten};

/// The longest duration that a definition may hold: 365 days.
pub const MAX_DURATION_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// The longest name of an app, workflow, flow, action or event, in characters.
pub const MAX_NAME_CHARS: usize = 256;

/// The longest description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 4000;

/// The most problems told of one definition. More help nobody, and the text comes from outside.
pub const MAX_PROBLEMS: usize = 100;

/// A definition that holds, and what its author may want to know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The definition.
    pub value: T,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Problem>,
}

/// Everything that is wrong with a definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefinitionErrors(pub Vec<Problem>);

/// One thing that is wrong with a definition, or probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What is defined: ``workflow `sync.account` ``.
    pub subject: String,
    /// Control and field, as the author spells them: `throttle.limit`, `concurrency[1].key`.
    pub field: String,
    /// The rule, the value and the fix.
    pub message: String,
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A required field is absent.
    MissingField,
    /// The value has another type than the field.
    WrongType,
    /// The number is too small or too large.
    OutOfRange,
    /// Nothing of this name exists here.
    UnknownField,
    /// The field knows no such value.
    UnknownValue,
    /// The key's path cannot be read.
    BadPath,
    /// The name, trigger or address cannot be used.
    BadName,
    /// The expression of a schedule cannot be read.
    BadCron,
    /// No date fits the day and month of a schedule.
    CronNeverOccurs,
    /// The time zone of a schedule is not known.
    UnknownTimeZone,
    /// Two parts of the definition exclude each other.
    Conflict,
    /// The control exists, but not for this kind of definition.
    Misplaced,
    /// Warning: another limit is always reached first.
    NeverBinds,
    /// Warning: what is written changes nothing.
    NoEffect,
}

impl Code {
    /// The code as it is sent and documented.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::MissingField => "missing_field",
            Code::WrongType => "wrong_type",
            Code::OutOfRange => "out_of_range",
            Code::UnknownField => "unknown_field",
            Code::UnknownValue => "unknown_value",
            Code::BadPath => "bad_path",
            Code::BadName => "bad_name",
            Code::BadCron => "bad_cron",
            Code::CronNeverOccurs => "cron_never_occurs",
            Code::UnknownTimeZone => "unknown_time_zone",
            Code::Conflict => "conflict",
            Code::Misplaced => "misplaced",
            Code::NeverBinds => "never_binds",
            Code::NoEffect => "no_effect",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.subject, self.field, self.message)
    }
}

impl fmt::Display for DefinitionErrors {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for DefinitionErrors {}

/// What kind of definition is read. It decides where keys begin and which controls exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Workflow,
    Flow,
    Action,
}

/// What has been found so far while one definition is read.
#[derive(Debug)]
pub(crate) struct Problems {
    pub(crate) kind: Kind,
    subject: String,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(kind: Kind, name: &str) -> Problems {
        let word = match kind {
            Kind::Workflow => "workflow",
            Kind::Flow => "flow",
            Kind::Action => "action",
        };
        let shown: String = name.chars().take(80).collect();
        let subject = format!("{word} `{shown}`");
        Problems { kind, subject, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn error(
        &mut self,
        code: Code,
        field: &str,
        message: impl Into<String>,
    ) -> Reported {
        if self.errors.len() < MAX_PROBLEMS {
            let problem = self.problem(code, field, message.into());
            self.errors.push(problem);
        }
        Reported(())
    }

    pub(crate) fn warn(&mut self, code: Code, field: &str, message: impl Into<String>) {
        let problem = self.problem(code, field, message.into());
        self.warnings.push(problem);
    }

    fn problem(&self, code: Code, field: &str, message: String) -> Problem {
        Problem { code, subject: self.subject.clone(), field: field.to_owned(), message }
    }

    /// Takes over what was found in a part of the definition.
    pub(crate) fn adopt(&mut self, part: Problems) {
        self.errors.extend(part.errors);
        self.errors.truncate(MAX_PROBLEMS);
        self.warnings.extend(part.warnings);
    }

    /// The definition, if nothing is wrong with it.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<Parsed<T>, DefinitionErrors> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(Parsed { value, warnings: self.warnings }),
            Some(_) | None => {
                assert!(!self.errors.is_empty(), "a definition is refused only with a reason");
                Err(DefinitionErrors(self.errors))
            }
        }
    }
}
