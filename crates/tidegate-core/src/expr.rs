//! Expressions over events: a pure, limited subset of CEL (Common Expression Language).
//!
//! An expression is parsed once, when it is defined, and evaluated for each event. It reads only
//! the parts of the payload that it names. Numbers are exact decimals as in [`crate::key`]. An
//! expression has no access to a clock or to randomness. Every evaluation ends, because the number
//! of steps, the number of built bytes and the depth of the syntax tree are limited.
//!
//! ```
//! use tidegate_core::{
//!     expr::{Expr, Mode, Value},
//!     json::Payload,
//! };
//!
//! let expr = Expr::parse("event.data.plan == 'pro' && event.data.seats > 3")?;
//! let data = Payload::parse(br#"{"plan": "pro", "seats": 5}"#, 1000)?;
//! let event = [("name", Value::text("a/b")), ("data", Value::of(&data))];
//! assert!(expr.condition(&[("event", Value::Record(&event))], Mode::Strict)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bind;
mod check;
mod error;
mod eval;
mod formula;
mod functions;
mod json;
mod lex;
mod node;
mod number;
mod operators;
mod parse;
mod value;

use std::{collections::BTreeSet, fmt};

pub use bind::IndexedEquality;
pub use error::{ExprError, ExprErrorKind};
pub use formula::Formula;
pub use json::Json;
pub use number::QUOTIENT_DIGITS;
pub use value::{Type, Value};

use crate::key::{Key, Path, Scalar};
use eval::Evaluator;
use node::Node;

/// Maximum number of characters in an expression. Longer rules should be written in code.
pub const MAX_CHARS: usize = 1000;

/// Maximum number of nodes of an expression: literals, variables, operators and calls.
pub const MAX_NODES: usize = 256;

/// Maximum nesting depth. Parser and evaluator recurse this deep, so the stack of any thread must
/// be large enough for it.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of steps of one evaluation. A step is a node, an element, 256 bytes of scanned
/// text, or 16 digits of a calculation. The maximum takes 10 to 40 ms, measured with expressions
/// that were written to be slow.
pub const MAX_STEPS: usize = 100_000;

/// Maximum size of all texts, lists and maps that one evaluation builds: twice the largest event.
pub const MAX_BUILT_BYTES: usize = 2 * crate::json::MAX_EVENT_BYTES;

/// Maximum size of an expression after [`Expr::bind`] has replaced a variable by its value.
pub const MAX_BOUND_BYTES: usize = 64 * 1024;

/// Parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    root: Node,
}

/// Rules for values of unexpected types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Operands of different types and unknown variables are errors. For Tidegate's definitions.
    Strict,
    /// Null counts as the zero of the other operand's type, and every value can be used as a
    /// condition. For definitions of Inngest's SDKs.
    Lenient,
}

impl Expr {
    /// Parses the text of an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        let size = text.chars().count();
        if size > MAX_CHARS {
            let message =
                format!("an expression must have at most {MAX_CHARS} characters, got {size}");
            return Err(ExprError::new(ExprErrorKind::TooLong, 0, message));
        }
        Ok(Expr { root: parse::parse(text, MAX_NODES)? })
    }

    /// Checks that no part fails that is the same for every event, such as `1 / 0`. Values of
    /// different types are errors, as in [`Mode::Strict`].
    pub fn check(&self) -> Result<(), ExprError> {
        check::constants(&self.root)
    }

    /// Evaluates the expression with these variables.
    pub fn evaluate<'a>(
        &'a self,
        variables: &'a [(&'a str, Value<'a>)],
        mode: Mode,
    ) -> Result<Value<'a>, ExprError> {
        Evaluator::new(variables, mode).eval(&self.root)
    }

    /// Evaluates the expression as a condition. In lenient mode the result may have any type, and
    /// is converted to a boolean.
    pub fn condition(
        &self,
        variables: &[(&str, Value<'_>)],
        mode: Mode,
    ) -> Result<bool, ExprError> {
        Evaluator::new(variables, mode).condition(&self.root)
    }

    /// Evaluates the expression as a key. In lenient mode, `false` returns none: the control does
    /// not apply to this event.
    ///
    /// Null is [`Key::Missing`]. Lists and maps are allowed in lenient mode only; their canonical
    /// text is the key.
    pub fn key(
        &self,
        variables: &[(&str, Value<'_>)],
        mode: Mode,
    ) -> Result<Option<Key>, ExprError> {
        let mut evaluator = Evaluator::new(variables, mode);
        let value = evaluator.eval(&self.root)?;
        let scalar = match value {
            Value::Null => return Ok(Some(Key::Missing)),
            Value::Bool(false) if mode == Mode::Lenient => return Ok(None),
            Value::Bool(value) => Scalar::Bool(value),
            Value::Number(number) => Scalar::number(number.into_owned()),
            Value::Text(text) => Scalar::text(text.into_owned()),
            Value::Json(_) | Value::Record(_) if mode == Mode::Lenient => {
                Scalar::text(evaluator.canonical(&value)?)
            }
            Value::Json(_) | Value::Record(_) => {
                let types = "a text, a number or a boolean";
                return Err(evaluator.wrong_type("a key", types, &value));
            }
        };
        Ok(Some(Key::Value(scalar)))
    }

    /// Returns the path `a.b`, if the expression is `event.data.a.b`.
    pub fn as_path(&self) -> Option<Path> {
        bind::data_path(&self.root, "event")
    }

    /// Returns the pairs of paths of `other.data.a == own.data.b && …`, each with the path in `other`
    /// first; none if the expression has another form.
    pub fn equal_paths(&self, other: &str, own: &str) -> Option<Vec<(Path, Path)>> {
        bind::equal_paths(&self.root, other, own)
    }

    /// Returns the names of all variables that an evaluation needs.
    pub fn variables(&self) -> BTreeSet<&str> {
        self.root.variables()
    }
}

impl fmt::Display for Expr {
    /// Writes the expression in a normal form, which can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

#[cfg(test)]
mod tests;
