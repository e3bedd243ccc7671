//! Problems of definitions: errors and warnings.
//!
//! A definition is checked when it is registered, and all its problems are reported at once: the
//! control, the field, the value, and the fix.

mod fields;
pub(crate) mod nearest;

use std::fmt;

use serde::Serialize;

use crate::expr::ExprErrorKind;

pub(crate) use fields::{Fields, Reported, shorten, shorten_text, whole};

/// Maximum duration in a definition: 365 days.
pub const MAX_DURATION_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// Maximum length of the name of an app, workflow, flow, action or event, in characters.
pub const MAX_NAME_CHARS: usize = 256;

/// Maximum length of a description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 4000;

/// Maximum number of problems reported for one definition: the definition comes from outside, and
/// the report must not grow with it.
pub const MAX_PROBLEMS: usize = 100;

/// Valid definition, with warnings for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The definition.
    pub value: T,
    /// Settings that are allowed but probably a mistake.
    pub warnings: Vec<Problem>,
}

/// All errors of a definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefinitionErrors(pub Vec<Problem>);

/// Error in a definition, or a warning of a setting that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemars",
    derive(schemars::JsonSchema),
    schemars(rename = "DefinitionProblem")
)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// The kind and name of the definition: ``workflow `sync.account` ``.
    pub subject: String,
    /// The control and field, as the author spells them: `throttle.limit`, `concurrency[1].key`.
    pub field: String,
    /// The rule, the value and the fix.
    pub message: String,
}

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "DefinitionCode"))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A required field is absent.
    MissingField,
    /// The value has another type than the field.
    WrongType,
    /// The number is too small or too large.
    OutOfRange,
    /// No field of this name exists here.
    UnknownField,
    /// The value is not one of the field's known values.
    UnknownValue,
    /// The path of a key cannot be parsed.
    BadPath,
    /// The text is not an expression.
    ExpressionSyntax,
    /// An expression calls an unknown function, or has the wrong number of arguments.
    ExpressionUnknownFunction,
    /// An expression has too many characters.
    ExpressionTooLong,
    /// An expression has too many parts, or is nested too deep.
    ExpressionTooComplex,
    /// The pattern of `matches` in an expression is not valid.
    ExpressionBadPattern,
    /// An expression names a variable that does not exist here.
    ExpressionUnknownVariable,
    /// An operator of an expression does not take a constant of this type.
    ExpressionWrongType,
    /// An expression divides by the constant zero.
    ExpressionDivisionByZero,
    /// A constant of an expression cannot be converted or computed.
    ExpressionBadValue,
    /// The constants of an expression take too many steps.
    ExpressionTooManySteps,
    /// The constants of an expression are too large.
    ExpressionTooLarge,
    /// The name, trigger or URL is not allowed.
    BadName,
    /// The cron expression of a schedule cannot be parsed.
    BadCron,
    /// No date matches the day and month of a schedule.
    CronNeverOccurs,
    /// The time zone of a schedule is not known.
    UnknownTimeZone,
    /// Two parts of the definition are not allowed together.
    Conflict,
    /// The control is not allowed in this kind of definition.
    Misplaced,
    /// Warning: the limit is never reached, because another limit is always reached first.
    NeverBinds,
    /// Warning: the setting has no effect.
    NoEffect,
}

impl Code {
    /// Returns the code as it is sent and documented.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::MissingField => "missing_field",
            Code::WrongType => "wrong_type",
            Code::OutOfRange => "out_of_range",
            Code::UnknownField => "unknown_field",
            Code::UnknownValue => "unknown_value",
            Code::BadPath => "bad_path",
            Code::ExpressionSyntax => "expression_syntax",
            Code::ExpressionUnknownFunction => "expression_unknown_function",
            Code::ExpressionTooLong => "expression_too_long",
            Code::ExpressionTooComplex => "expression_too_complex",
            Code::ExpressionBadPattern => "expression_bad_pattern",
            Code::ExpressionUnknownVariable => "expression_unknown_variable",
            Code::ExpressionWrongType => "expression_wrong_type",
            Code::ExpressionDivisionByZero => "expression_division_by_zero",
            Code::ExpressionBadValue => "expression_bad_value",
            Code::ExpressionTooManySteps => "expression_too_many_steps",
            Code::ExpressionTooLarge => "expression_too_large",
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

impl From<ExprErrorKind> for Code {
    fn from(kind: ExprErrorKind) -> Code {
        match kind {
            ExprErrorKind::UnknownFunction => Code::ExpressionUnknownFunction,
            ExprErrorKind::TooLong => Code::ExpressionTooLong,
            ExprErrorKind::TooComplex => Code::ExpressionTooComplex,
            ExprErrorKind::BadPattern => Code::ExpressionBadPattern,
            ExprErrorKind::UnknownVariable => Code::ExpressionUnknownVariable,
            ExprErrorKind::Syntax => Code::ExpressionSyntax,
            ExprErrorKind::WrongType => Code::ExpressionWrongType,
            ExprErrorKind::DivisionByZero => Code::ExpressionDivisionByZero,
            ExprErrorKind::BadValue => Code::ExpressionBadValue,
            ExprErrorKind::TooManySteps => Code::ExpressionTooManySteps,
            ExprErrorKind::TooLarge => Code::ExpressionTooLarge,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.subject, self.field, self.message)
    }
}

impl fmt::Display for DefinitionErrors {
    /// Writes one problem per line.
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

/// Kind of the definition being read. The kind decides where the paths of keys begin and which
/// controls are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Workflow,
    Flow,
    Action,
    Pool,
}

/// Problems found so far in one definition.
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
            Kind::Pool => "pool",
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

    /// Adds the problems that were found in a part of the definition.
    pub(crate) fn adopt(&mut self, part: Problems) {
        self.errors.extend(part.errors);
        self.errors.truncate(MAX_PROBLEMS);
        self.warnings.extend(part.warnings);
    }

    /// Returns the definition, if it has no errors.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<Parsed<T>, DefinitionErrors> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(Parsed { value, warnings: self.warnings }),
            Some(_) | None => {
                assert!(!self.errors.is_empty(), "a definition without a value has no error");
                Err(DefinitionErrors(self.errors))
            }
        }
    }
}
