//! Expressions of definitions: stored as the author's text, and compiled when they are read.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Expr, ExprError};

/// Expression of a definition: its text, and the parsed form of it.
///
/// Parsing takes place when a definition is checked, and once when a catalog is read; not for each
/// event. Copies share both parts. Formulas are equal if their texts are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Formula {
    text: Arc<str>,
    expr: Arc<Expr>,
}

impl Formula {
    /// Parses the text of an expression.
    pub fn parse(text: &str) -> Result<Formula, ExprError> {
        Ok(Formula { expr: Arc::new(Expr::parse(text)?), text: text.into() })
    }

    /// Returns the text as the author wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the parsed form.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        self.text == other.text
    }
}

impl Eq for Formula {}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Formula> for String {
    fn from(formula: Formula) -> String {
        (*formula.text).to_owned()
    }
}

impl TryFrom<String> for Formula {
    type Error = ExprError;

    fn try_from(text: String) -> Result<Formula, ExprError> {
        Formula::parse(&text)
    }
}
