//! Errors of expressions, in definitions and in evaluations.

/// Error of an expression: its kind, its offset, and a message with the rule, the value and the
/// fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expression at offset {at}: {message}")]
pub struct ExprError {
    /// The kind of the error.
    pub kind: ExprErrorKind,
    /// The offset in the expression's text, in bytes from 0.
    pub at: usize,
    /// The rule, the value and the fix.
    pub message: String,
}

/// Kind of an [`ExprError`]. The first five are errors of a text, the others of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExprErrorKind {
    /// The text is not a valid expression.
    Syntax,
    /// A function has an unknown name, or the wrong number of arguments.
    UnknownFunction,
    /// The text has more than [`super::MAX_CHARS`] characters.
    TooLong,
    /// The expression has more than [`super::MAX_NODES`] nodes, or is nested deeper than
    /// [`super::MAX_DEPTH`].
    TooComplex,
    /// The pattern of `matches` is not a regular expression, or is too large.
    BadPattern,
    /// There is no variable of this name.
    UnknownVariable,
    /// An operator or function does not take a value of this type.
    WrongType,
    /// A division by zero.
    DivisionByZero,
    /// A value has the right type but cannot be converted: `int("x")`, or half a surrogate pair.
    BadValue,
    /// The evaluation took more than [`super::MAX_STEPS`] steps.
    TooManySteps,
    /// The evaluation built more than [`super::MAX_BUILT_BYTES`].
    TooLarge,
}

impl ExprError {
    pub(super) fn new(kind: ExprErrorKind, at: usize, message: impl Into<String>) -> ExprError {
        ExprError { kind, at, message: message.into() }
    }

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self.kind {
            ExprErrorKind::Syntax => "expression_syntax",
            ExprErrorKind::UnknownFunction => "expression_unknown_function",
            ExprErrorKind::TooLong => "expression_too_long",
            ExprErrorKind::TooComplex => "expression_too_complex",
            ExprErrorKind::BadPattern => "expression_bad_pattern",
            ExprErrorKind::UnknownVariable => "expression_unknown_variable",
            ExprErrorKind::WrongType => "expression_wrong_type",
            ExprErrorKind::DivisionByZero => "expression_division_by_zero",
            ExprErrorKind::BadValue => "expression_bad_value",
            ExprErrorKind::TooManySteps => "expression_too_many_steps",
            ExprErrorKind::TooLarge => "expression_too_large",
        }
    }
}
