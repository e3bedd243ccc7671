//! Source of a control's key: a path, several paths, or an expression.
//!
//! Every control with a key reads it through [`KeySource`]. A plain path is stored as before there
//! were other sources, and its gates have the same keys.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    definition::{Code, Fields, Kind, Problems, Reported, shorten_text},
    expr::{self, Expr, ExprError, Formula},
    key::{Key, MAX_CHARS, Path, Scalar},
    row::Event,
};

/// Maximum number of paths of one key. Each path costs a scan of the payload.
pub const MAX_PATHS: usize = 8;

/// Maximum size of an expression in the key of a gate. A longer one is named by its digest, so that
/// gate keys fit into an index page of both databases.
const MAX_SLOT_BYTES: usize = 256;

/// Where the value of a key is read in an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeySource {
    /// The value at a path.
    Path(Path),
    /// The values at several paths (spec L13).
    Paths {
        /// The paths: at least two.
        paths: Vec<Path>,
    },
    /// The result of an expression (spec L15).
    Expr {
        /// The expression.
        expr: Formula,
    },
}

impl KeySource {
    /// Reads `{"paths": […]}` or `{"expr": "…"}`.
    pub(crate) fn read(
        value: &Value,
        at: &str,
        problems: &mut Problems,
    ) -> Result<KeySource, Reported> {
        let mut fields = Fields::open(value, at, &["paths", "expr"], problems)?;
        if fields.problems().kind == Kind::Pool && fields.get("expr").is_some() {
            let rule = "is an expression, but the workflows of a pool have different variables";
            let message = format!("{rule}: write a path, or give a use a `key` of its own");
            return Err(fields.error(Code::Misplaced, "expr", message));
        }
        let expr = fields.formula("expr")?;
        match (fields.get("paths"), expr) {
            (Some(paths), None) => {
                read_paths(paths, &mut fields).map(|paths| KeySource::Paths { paths })
            }
            (None, Some(expr)) => Ok(KeySource::Expr { expr }),
            (Some(_), Some(_)) => {
                Err(fields.error(Code::Conflict, "expr", "cannot be beside `paths`: keep one"))
            }
            (None, None) => {
                Err(fields.missing("paths", "an array of paths, or `expr`, an expression"))
            }
        }
    }

    /// Returns the key of an input, or the reason why it cannot be read. None if the result of a
    /// lenient expression is `false`: then the control does not apply to the input.
    pub fn of(&self, event: &Event) -> Result<Option<Key>, String> {
        match self {
            KeySource::Path(path) => {
                let key = Key::of(Some(path), &event.data);
                key.map(Some).map_err(|error| error.to_string())
            }
            KeySource::Paths { paths } => {
                let values = paths.iter().map(|path| event.data.scalar(path));
                let values: Result<Option<Vec<Scalar>>, _> = values.collect();
                let values = values.map_err(|error| error.to_string())?;
                Ok(Some(values.map_or(Key::Missing, Key::of_values)))
            }
            KeySource::Expr { expr } => {
                let key =
                    with_variables(event, |variables| expr.expr().key(variables, expr.mode()));
                key.map_err(|error| failed("key", expr, &error))
            }
        }
    }

    /// Returns the text that tells the gates of this key from gates of other keys: a path, or the
    /// stored form of another source.
    pub fn slot(&self) -> String {
        match self {
            KeySource::Path(path) => path.to_string(),
            KeySource::Expr { expr } if expr.text().len() > MAX_SLOT_BYTES => {
                let digest = HEXLOWER.encode(&Sha256::digest(expr.text().as_bytes()));
                json!({ "expr": shorten_text(expr.text()), "sha256": digest }).to_string()
            }
            KeySource::Paths { .. } | KeySource::Expr { .. } => json!(self).to_string(),
        }
    }

    /// Returns the paths whose values are the key; none for an expression.
    pub fn paths(&self) -> &[Path] {
        match self {
            KeySource::Path(path) => std::slice::from_ref(path),
            KeySource::Paths { paths } => paths,
            KeySource::Expr { .. } => &[],
        }
    }

    /// Returns the names of the values of a key, for display, from the slot of its gate.
    pub fn names_in(slot: &str) -> Vec<String> {
        let json = slot.find('{').map_or("", |at| &slot[at..]);
        // A version may follow the source.
        match serde_json::Deserializer::from_str(json).into_iter::<KeySource>().next() {
            Some(Ok(KeySource::Paths { paths })) => paths.iter().map(Path::to_string).collect(),
            Some(_) | None => Vec::new(),
        }
    }
}

impl fmt::Display for KeySource {
    /// Writes the source for messages: paths with a comma between them, or the expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Path(path) => path.fmt(f),
            KeySource::Paths { paths } => {
                let paths: Vec<_> = paths.iter().map(Path::to_string).collect();
                f.write_str(&paths.join(", "))
            }
            KeySource::Expr { expr } => f.write_str(&shorten_text(expr.text())),
        }
    }
}

fn read_paths(value: &Value, fields: &mut Fields<'_>) -> Result<Vec<Path>, Reported> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    if !(2..=MAX_PATHS).contains(&list.len()) {
        let fix = "write a key with one path as a text";
        let rule = format!("must be an array of 2 to {MAX_PATHS} paths: {fix}");
        return Err(fields.error(Code::BadPath, "paths", rule));
    }
    let mut paths = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let name = format!("paths[{n}]");
        let path = fields.path_of(&name, value)?;
        if paths.contains(&path) {
            let message = format!("repeats `{path}`: remove it");
            return Err(fields.error(Code::Conflict, &name, message));
        }
        paths.push(path);
    }
    let chars: usize = paths.iter().map(|path| path.to_string().chars().count()).sum();
    if chars > MAX_CHARS {
        let rule = format!("must have at most {MAX_CHARS} characters together, got {chars}");
        return Err(fields.error(Code::BadPath, "paths", rule));
    }
    Ok(paths)
}

/// Variables of expressions in definitions of workflows. Actions have `request`.
pub(crate) const EVENT: &str = "event";

/// Variable of expressions in definitions of actions: session, user, input and metadata.
pub(crate) const REQUEST: &str = "request";

/// Evaluates the condition `if` of a trigger or a batch for an event.
pub(crate) fn holds(condition: &Formula, event: &Event) -> Result<bool, String> {
    let holds =
        with_variables(event, |variables| condition.expr().condition(variables, condition.mode()));
    holds.map_err(|error| failed("if", condition, &error))
}

/// Evaluates an expression for an event. Returns its result as JSON.
pub(crate) fn value_of(formula: &Formula, event: &Event) -> Result<String, String> {
    with_variables(event, |variables| {
        let value = formula.expr().evaluate(variables, formula.mode());
        value.map(|value| value.to_json()).map_err(|error| failed("expr", formula, &error))
    })
}

/// Replaces the variables of an input in an expression by their values.
pub(crate) fn bind(formula: &Formula, event: &Event) -> Result<Expr, String> {
    with_variables(event, |variables| {
        let mut bound = formula.expr().clone();
        for (name, value) in variables {
            let next = bound.bind(name, value, formula.mode());
            bound = next.map_err(|error| failed("if", formula, &error))?;
        }
        Ok(bound)
    })
}

/// Calls `evaluate` with the variables of an input. A definition is allowed to name only the one of
/// its kind.
fn with_variables<T>(event: &Event, evaluate: impl FnOnce(&[(&str, expr::Value<'_>)]) -> T) -> T {
    if event.attributes.is_some() {
        let whole = event.whole();
        let request = (REQUEST, expr::Value::of(&event.data));
        return evaluate(&[(EVENT, expr::Value::of(&whole)), request]);
    }
    let ts = event.ts.unwrap_or(event.at).micros().div_euclid(1000);
    let fields = [
        ("name", expr::Value::text(&event.name)),
        ("data", expr::Value::of(&event.data)),
        ("id", expr::Value::text(event.id.to_string())),
        ("ts", expr::Value::number(ts)),
    ];
    evaluate(&[(EVENT, expr::Value::Record(&fields)), (REQUEST, expr::Value::of(&event.data))])
}

fn failed(field: &str, formula: &Formula, error: &ExprError) -> String {
    format!("{field} `{}`: {error} ({})", shorten_text(formula.text()), error.code())
}
