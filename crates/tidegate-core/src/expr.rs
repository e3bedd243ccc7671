//! Expressions over events: a pure, bounded subset of CEL.
//!
//! An expression is parsed once, when it is defined, and evaluated for each event. It reads only
//! the parts of the payload that it names, numbers are exact decimals as in [`crate::key`], and
//! neither clock nor randomness can be reached. Every evaluation ends: steps and built bytes are
//! bounded, and there is no recursion but over the tree, whose depth is bounded, too.
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
mod error;
mod eval;
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
pub use json::Json;
pub use number::QUOTIENT_DIGITS;
pub use value::{Type, Value};

use crate::key::{Key, Path, Scalar};
use eval::Evaluator;
use node::Node;

/// Maximum number of characters in an expression. Longer rules belong into code.
pub const MAX_CHARS: usize = 1000;

/// Maximum number of parts: literals, variables, operators and calls.
pub const MAX_NODES: usize = 256;

/// Maximum nesting. Parser and evaluator recurse this deep, on any thread's stack.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of steps of one evaluation: parts, elements, 256 bytes of scanned text, 16 digits
/// of a calculation. All of them take 10 to 40 ms, as measured with expressions made for it.
pub const MAX_STEPS: usize = 100_000;

/// Maximum size of all texts, lists and maps that one evaluation builds: twice the largest event.
pub const MAX_BUILT_BYTES: usize = 2 * crate::json::MAX_EVENT_BYTES;

/// Maximum size of an expression after [`Expr::bind`] has put values in.
pub const MAX_BOUND_BYTES: usize = 64 * 1024;

/// Parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    root: Node,
}

/// Rules for values that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Unlike types and unknown variables are errors. For definitions of our own.
    Strict,
    /// Null stands for the zero of the other side, and every value has a truth. For definitions of
    /// Inngest's SDKs.
    Lenient,
}

impl Expr {
    /// Parses a definition's expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        let size = text.chars().count();
        if size > MAX_CHARS {
            let message =
                format!("an expression must have at most {MAX_CHARS} characters, got {size}");
            return Err(ExprError::new(ExprErrorKind::TooLong, 0, message));
        }
        Ok(Expr { root: parse::parse(text, MAX_NODES)? })
    }

    /// Evaluates with these variables.
    pub fn evaluate<'a>(
        &'a self,
        variables: &'a [(&'a str, Value<'a>)],
        mode: Mode,
    ) -> Result<Value<'a>, ExprError> {
        Evaluator::new(variables, mode).eval(&self.root)
    }

    /// Evaluates to a condition: a boolean, or in lenient mode the truth of any value.
    pub fn condition(
        &self,
        variables: &[(&str, Value<'_>)],
        mode: Mode,
    ) -> Result<bool, ExprError> {
        Evaluator::new(variables, mode).condition(&self.root)
    }

    /// Evaluates to a key. None if the control is switched off for this event, which `false` does
    /// in lenient mode.
    ///
    /// Null is [`Key::Missing`]. Lists and maps are keys in lenient mode only, by canonical text.
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

    /// Returns the names of all variables that the caller must give.
    pub fn variables(&self) -> BTreeSet<&str> {
        self.root.variables()
    }
}

impl fmt::Display for Expr {
    /// Writes the expression in one spelling, which can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

#[cfg(test)]
mod tests;
