//! Evaluation of the syntax tree, with limits on steps and on built bytes.

use std::borrow::Cow;

use super::{
    MAX_BUILT_BYTES, MAX_STEPS, Mode,
    error::{ExprError, ExprErrorKind},
    functions::Call,
    json::{self, Json},
    node::{Kind, Loop, Node, Operator},
    number,
    value::{Type, Value},
};
use crate::definition::nearest;

/// Number of bytes of JSON or text whose scanning counts as one step.
const BYTES_A_STEP: usize = 256;

/// Number of digits of a calculation, or of sorted and written bytes, that count as one step.
pub(super) const DETAILS_A_STEP: usize = 16;

pub(super) type Outcome<T> = Result<T, ExprError>;

pub(super) struct Evaluator<'a> {
    mode: Mode,
    variables: &'a [(&'a str, Value<'a>)],
    /// The current elements of the enclosing loops, innermost last.
    locals: Vec<(&'a str, Value<'a>)>,
    /// The offset of the node that is being evaluated, for errors.
    at: usize,
    /// The numbers of steps and bytes that are left.
    steps: usize,
    bytes: usize,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(variables: &'a [(&'a str, Value<'a>)], mode: Mode) -> Evaluator<'a> {
        let (steps, bytes) = (MAX_STEPS, MAX_BUILT_BYTES);
        Evaluator { mode, variables, locals: Vec::new(), at: 0, steps, bytes }
    }

    pub(super) fn eval(&mut self, node: &'a Node) -> Outcome<Value<'a>> {
        self.at = node.at;
        self.spend(1)?;
        Ok(match &node.kind {
            Kind::Literal(value) => value.borrowed(),
            Kind::Variable(name) => self.variable(name)?,
            Kind::Select(_) | Kind::Index => self.path(node)?.unwrap_or(Value::Null),
            Kind::Has => Value::Bool(self.path(&node.children[0])?.is_some()),
            Kind::List | Kind::Map => {
                let numbers = 0..node.children.len();
                let values = numbers.map(|n| self.child(node, n)).collect::<Outcome<Vec<_>>>()?;
                self.collect(matches!(node.kind, Kind::Map), &values)?
            }
            Kind::Not => Value::Bool(!self.truth(node, 0)?),
            Kind::Negate => {
                let value = self.child(node, 0)?;
                Value::number(number::negated(&*self.number("-", &value)?))
            }
            Kind::Binary(operator @ (Operator::And | Operator::Or)) => {
                let end = *operator == Operator::Or;
                for n in 0..node.children.len() {
                    if self.truth(node, n)? == end {
                        return Ok(Value::Bool(end));
                    }
                }
                Value::Bool(!end)
            }
            Kind::Binary(operator) => {
                let (left, right) = (self.child(node, 0)?, self.child(node, 1)?);
                self.operate(*operator, left, right)?
            }
            Kind::Choose => {
                let chosen = if self.truth(node, 0)? { 1 } else { 2 };
                self.child(node, chosen)?
            }
            Kind::Call(function, pattern) => {
                let first = self.child(node, 0)?;
                let has_second = node.children.len() > 1;
                let second = if has_second { self.child(node, 1)? } else { Value::text("") };
                let call = Call { name: function.name, first, second, pattern: pattern.as_ref() };
                (function.run)(self, call)?
            }
            Kind::Loop(kind, name) => self.repeat(*kind, name, node)?,
        })
    }

    /// Evaluates child `n` of a node. Errors after it have the node's offset again.
    fn child(&mut self, node: &'a Node, n: usize) -> Outcome<Value<'a>> {
        let value = self.eval(&node.children[n]);
        self.at = node.at;
        value
    }

    fn truth(&mut self, node: &'a Node, n: usize) -> Outcome<bool> {
        let value = self.condition(&node.children[n]);
        self.at = node.at;
        value
    }

    /// Evaluates a node as a condition. In lenient mode any value is converted to a boolean.
    pub(super) fn condition(&mut self, node: &'a Node) -> Outcome<bool> {
        let value = self.eval(node)?;
        if self.is_lenient() || value.kind() == Type::Bool {
            return Ok(value.is_truthy());
        }
        self.at = node.at;
        Err(self.wrong_type("a condition", "a boolean", &value))
    }

    fn variable(&mut self, name: &str) -> Outcome<Value<'a>> {
        if let Some((_, value)) = self.locals.iter().rev().find(|local| local.0 == name) {
            let value = value.clone();
            self.scan(value.owned_bytes())?;
            return Ok(value);
        }
        let variables = self.variables;
        match variables.iter().find(|variable| variable.0 == name) {
            // A payload may be a single text or number; `select` converts it as it converts a part.
            Some((_, value)) => Ok(self.select(value.borrowed(), &[])?.unwrap_or(Value::Null)),
            None if self.is_lenient() => Ok(Value::Null),
            None => {
                let names: Vec<&str> = variables.iter().map(|variable| variable.0).collect();
                let fix = nearest::suggest(name, &names);
                let message = format!("there is no variable `{name}`: {fix}");
                Err(self.error(ExprErrorKind::UnknownVariable, message))
            }
        }
    }

    /// Returns the value of a `Select` or an `Index`; none if there is no such member or element.
    fn path(&mut self, node: &'a Node) -> Outcome<Option<Value<'a>>> {
        let base = self.child(node, 0)?;
        if let Kind::Select(names) = &node.kind {
            return self.select(base, names);
        }
        let index = self.child(node, 1)?;
        match index.as_name() {
            Some(name) => {
                self.scan(name.len())?;
                self.select(base, &[name])
            }
            None if self.is_lenient() => Ok(None),
            None => Err(self.wrong_type("an index", "a text or a whole number", &index)),
        }
    }

    /// Returns the value at the path `names`; none if there is none.
    fn select(&mut self, mut value: Value<'a>, mut names: &[String]) -> Outcome<Option<Value<'a>>> {
        while let (Value::Record(fields), [name, rest @ ..]) = (&value, names) {
            let Some((_, field)) = fields.iter().find(|field| field.0 == name) else {
                return Ok(None);
            };
            (value, names) = (field.borrowed(), rest);
        }
        let Value::Json(json) = &value else {
            return Ok(names.is_empty().then_some(value));
        };
        self.scan(json.as_str().len() * (names.len() + 1))?;
        json.get(names).map(|text| self.read(text)).transpose()
    }

    fn repeat(&mut self, kind: Loop, name: &'a str, node: &'a Node) -> Outcome<Value<'a>> {
        let list = self.child(node, 0)?;
        let mut results = Vec::new();
        for item in self.items(&list)? {
            let item = self.read(item)?;
            self.locals.push((name, item.clone()));
            let stop = match kind {
                Loop::Exists => self.truth(node, 1)?,
                Loop::All => !self.truth(node, 1)?,
                Loop::Map => {
                    results.push(self.child(node, 1)?);
                    false
                }
                Loop::Filter => {
                    results.extend(self.truth(node, 1)?.then_some(item));
                    false
                }
            };
            self.locals.pop();
            if stop {
                return Ok(Value::Bool(kind == Loop::Exists));
            }
        }
        match kind {
            Loop::Exists | Loop::All => Ok(Value::Bool(kind == Loop::All)),
            Loop::Map | Loop::Filter => self.collect(false, &results),
        }
    }

    /// Returns the elements of a list, or the sorted names of a map, as JSON texts.
    pub(super) fn items(&mut self, value: &Value<'a>) -> Outcome<Vec<Cow<'a, str>>> {
        let items = match value {
            Value::Json(json) => {
                self.scan(json.as_str().len())?;
                let items = json.items();
                items.map_err(|reason| self.error(ExprErrorKind::BadValue, reason))?
            }
            // In the order of a map's names: a record that is bound becomes a map.
            Value::Record(fields) => {
                let mut names: Vec<&str> = fields.iter().map(|field| field.0).collect();
                names.sort_unstable();
                names.into_iter().map(|name| json::quote(name).into()).collect()
            }
            Value::Null if self.is_lenient() => Vec::new(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
                return Err(self.wrong_type("a collection", "a list or a map", value));
            }
        };
        self.spend(items.len())?;
        Ok(items)
    }

    /// Builds a list, or a map from alternating names and values.
    fn collect(&mut self, is_map: bool, values: &[Value<'a>]) -> Outcome<Value<'a>> {
        if let Some(json) = json::collect(is_map, values) {
            self.charge(json.as_str().len())?;
            return Ok(Value::Json(json));
        }
        let wrong = values.iter().step_by(2).find(|name| name.kind() != Type::Text);
        Err(self.wrong_type("a map's name", "a text", wrong.unwrap_or(&Value::Null)))
    }

    pub(super) fn read(&mut self, text: Cow<'a, str>) -> Outcome<Value<'a>> {
        let value = json::read(text);
        let value = value.map_err(|reason| self.error(ExprErrorKind::BadValue, reason))?;
        self.charge(value.owned_bytes())?;
        Ok(value)
    }

    /// Returns the canonical JSON text of a value.
    pub(super) fn canonical(&mut self, value: &Value<'_>) -> Outcome<String> {
        let text = if let Value::Json(json) = value {
            json.canonical()
        } else {
            Json::trusted(value.to_json()).canonical()
        };
        let text = text.map_err(|reason| self.error(ExprErrorKind::BadValue, reason))?;
        self.charge(text.len())?;
        self.spend(text.len() / DETAILS_A_STEP)?;
        Ok(text)
    }

    pub(super) fn build(&mut self, text: String) -> Outcome<Value<'a>> {
        self.charge(text.len())?;
        Ok(Value::text(text))
    }

    pub(super) fn is_lenient(&self) -> bool {
        self.mode == Mode::Lenient
    }

    /// Subtracts from the steps that are left; fails if there are too few.
    pub(super) fn spend(&mut self, steps: usize) -> Outcome<()> {
        let Some(left) = self.steps.checked_sub(steps) else {
            let message = format!("an evaluation must take at most {MAX_STEPS} steps: simplify it");
            return Err(self.error(ExprErrorKind::TooManySteps, message));
        };
        self.steps = left;
        Ok(())
    }

    /// Counts the steps for scanning a text.
    pub(super) fn scan(&mut self, bytes: usize) -> Outcome<()> {
        self.spend(bytes / BYTES_A_STEP)
    }

    /// Counts built bytes, and the steps for building them.
    pub(super) fn charge(&mut self, bytes: usize) -> Outcome<()> {
        let Some(left) = self.bytes.checked_sub(bytes) else {
            let message = format!("an evaluation must build at most {MAX_BUILT_BYTES} bytes");
            return Err(self.error(ExprErrorKind::TooLarge, message));
        };
        self.bytes = left;
        self.scan(bytes)
    }

    pub(super) fn error(&self, kind: ExprErrorKind, message: impl Into<String>) -> ExprError {
        ExprError::new(kind, self.at, message)
    }

    pub(super) fn wrong_type(&self, subject: &str, types: &str, value: &Value<'_>) -> ExprError {
        let is_null = value.kind() == Type::Null;
        let fix = if is_null { ": test for null before" } else { "" };
        let message = format!("{subject} must be {types}, got {value}{fix}");
        self.error(ExprErrorKind::WrongType, message)
    }
}
