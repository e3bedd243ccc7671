//! Expressions of definitions: stored as the author's text, and compiled when they are read.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Expr, ExprError, Mode};

/// Expression of a definition: its text, and the parsed form of it.
///
/// A text is evaluated in strict mode, `{"lenient": text}` in lenient mode. Parsing takes place when
/// a definition is checked, and once when a catalog is read; not for each event. Copies share both
/// parts. Formulas are equal if their texts and modes are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Formula {
    text: Arc<str>,
    expr: Arc<Expr>,
    mode: Mode,
}

/// The stored form, which is the author's.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Strict(String),
    Lenient { lenient: String },
}

impl Formula {
    /// Parses the text of an expression.
    pub fn parse(text: &str, mode: Mode) -> Result<Formula, ExprError> {
        Ok(Formula { expr: Arc::new(Expr::parse(text)?), text: text.into(), mode })
    }

    /// Returns the text as the author wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the parsed form.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Returns the mode in which it is evaluated.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        (&self.text, self.mode) == (&other.text, other.mode)
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

impl From<Formula> for Written {
    fn from(formula: Formula) -> Written {
        let text = (*formula.text).to_owned();
        match formula.mode {
            Mode::Strict => Written::Strict(text),
            Mode::Lenient => Written::Lenient { lenient: text },
        }
    }
}

impl TryFrom<Written> for Formula {
    type Error = ExprError;

    fn try_from(written: Written) -> Result<Formula, ExprError> {
        match written {
            Written::Strict(text) => Formula::parse(&text, Mode::Strict),
            Written::Lenient { lenient } => Formula::parse(&lenient, Mode::Lenient),
        }
    }
}
