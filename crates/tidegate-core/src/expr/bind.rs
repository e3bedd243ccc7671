//! Partial evaluation for waits: one variable is replaced by its value when the wait begins; the
//! remaining condition is evaluated for each event.

use super::{
    Expr, MAX_BOUND_BYTES, Mode,
    error::{ExprError, ExprErrorKind},
    eval::Evaluator,
    json::Json,
    node::{Kind, Node, Operator},
    parse,
    value::{Type, Value},
};
use crate::key::{Path, Scalar};

/// An equality that can be looked up in an index, and the remaining condition.
#[derive(Clone, Debug)]
pub struct IndexedEquality {
    /// The path in the field `data` of the variable.
    pub path: Path,
    /// The value that must be at this path.
    pub value: Scalar,
    /// The remaining condition for an event that has the value; none if there is no other
    /// condition.
    pub rest: Option<Expr>,
}

impl Expr {
    /// Replaces a variable by its value, and evaluates all parts that need no other variable.
    ///
    /// A part whose evaluation fails is kept, and fails again when the result is evaluated, if it
    /// is needed there. The result has at most [`MAX_BOUND_BYTES`] and has its own offsets;
    /// [`Expr::parse_bound`] parses its text.
    pub fn bind(&self, name: &str, value: &Value<'_>, mode: Mode) -> Result<Expr, ExprError> {
        let variables = [(name, value.borrowed())];
        let binding = Binding { variables: &variables, mode };
        Expr::parse_bound(&binding.apply(&self.root, true)?.to_string())
    }

    /// Parses the text of a bound expression, which may be longer than [`Expr::parse`] allows.
    pub fn parse_bound(text: &str) -> Result<Expr, ExprError> {
        if text.len() > MAX_BOUND_BYTES {
            let rule = format!("a bound expression must have at most {MAX_BOUND_BYTES} bytes");
            let message = format!("{rule}, got {}", text.len());
            return Err(ExprError::new(ExprErrorKind::TooLarge, 0, message));
        }
        Ok(Expr { root: parse::parse(text, MAX_BOUND_BYTES)? })
    }

    /// Finds a condition `variable.data.path == constant` without which the whole expression cannot
    /// be true.
    ///
    /// In lenient mode constants that are zero or empty are ignored, because a missing value is
    /// equal to them.
    pub fn indexed_equality(&self, variable: &str, mode: Mode) -> Option<IndexedEquality> {
        let is_and = matches!(self.root.kind, Kind::Binary(Operator::And));
        let conjuncts = if is_and { &self.root.children } else { std::slice::from_ref(&self.root) };
        let (n, (path, value)) = conjuncts
            .iter()
            .enumerate()
            .find_map(|(n, conjunct)| Some((n, equality(conjunct, variable, mode)?)))?;
        let mut rest: Vec<Node> = conjuncts.to_vec();
        rest.remove(n);
        let root = match rest.len() {
            0 | 1 => rest.pop(),
            _ => Some(Node::new(self.root.at, self.root.kind.clone(), rest)),
        };
        Some(IndexedEquality { path, value, rest: root.map(|root| Expr { root }) })
    }
}

/// Returns the path and the constant of `variable.data.path == constant`, in either order.
fn equality(node: &Node, variable: &str, mode: Mode) -> Option<(Path, Scalar)> {
    let Kind::Binary(Operator::Equal) = node.kind else { return None };
    let (left, right) = (&node.children[0], &node.children[1]);
    let (path, value) = match (left.literal(), right.literal()) {
        (None, Some(value)) => (left, value),
        (Some(value), None) => (right, value),
        _ => return None,
    };
    if mode == Mode::Lenient && value.is_zero() {
        return None;
    }
    let scalar = match value {
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Number(number) => Scalar::number(number.clone().into_owned()),
        Value::Text(text) => Scalar::text(text.clone().into_owned()),
        Value::Null | Value::Json(_) | Value::Record(_) => return None,
    };
    Some((data_path(path, variable)?, scalar))
}

/// Returns the path `a.b` of `variable.data.a.b`.
pub(super) fn data_path(node: &Node, variable: &str) -> Option<Path> {
    let Kind::Select(names) = &node.kind else { return None };
    let is_variable = matches!(&node.children[0].kind, Kind::Variable(name) if name == variable);
    let (first, rest) = names.split_first()?;
    (is_variable && first == "data").then(|| Path::from_names(rest.to_vec()).ok())?
}

/// Returns the pairs of paths that a conjunction of equalities compares.
pub(super) fn equal_paths(node: &Node, other: &str, own: &str) -> Option<Vec<(Path, Path)>> {
    let Kind::Binary(operator) = node.kind else { return None };
    if operator == Operator::And {
        let parts = node.children.iter().map(|child| equal_paths(child, other, own));
        return Some(parts.collect::<Option<Vec<_>>>()?.concat());
    }
    let (left, right) = (&node.children[0], &node.children[1]);
    let pair = |a, b| Some((data_path(a, other)?, data_path(b, own)?));
    let pair = pair(left, right).or_else(|| pair(right, left))?;
    (operator == Operator::Equal).then(|| vec![pair])
}

struct Binding<'a> {
    variables: &'a [(&'a str, Value<'a>)],
    mode: Mode,
}

impl Binding<'_> {
    /// Replaces the bound variable in a node. `visible` is false inside a loop whose element has
    /// the same name as the variable.
    fn apply(&self, node: &Node, visible: bool) -> Result<Node, ExprError> {
        if self.is_closed(node, visible) {
            match self.value(node) {
                Ok(value) => return Ok(Node::new(node.at, Kind::Literal(value), Vec::new())),
                Err(error) if node.children.is_empty() || is_limit(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let children = node.children.iter().enumerate().map(|(n, child)| {
            let is_hidden = n == 1 && matches!(&node.kind, Kind::Loop(_, name) if self.has(name));
            self.apply(child, visible && !is_hidden)
        });
        let children = children.collect::<Result<_, _>>()?;
        Ok(self.simplify(Node::new(node.at, node.kind.clone(), children)))
    }

    fn has(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable.0 == name)
    }

    /// Whether the node needs no variable other than the bound one.
    fn is_closed(&self, node: &Node, visible: bool) -> bool {
        let variables = node.variables();
        variables.is_empty() || visible && variables.iter().all(|name| self.has(name))
    }

    fn value(&self, node: &Node) -> Result<Value<'static>, ExprError> {
        let mut evaluator = Evaluator::new(self.variables, self.mode);
        let value = evaluator.eval(node)?;
        Ok(match value {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(number) => Value::number(number.into_owned()),
            Value::Text(text) => Value::text(text.into_owned()),
            Value::Json(_) | Value::Record(_) => {
                Value::Json(Json::trusted(evaluator.canonical(&value)?))
            }
        })
    }

    /// Removes operands of `&&` and `||` that cannot change the result, and branches of `?:` that
    /// are never taken.
    fn simplify(&self, mut node: Node) -> Node {
        let truth = |node: &Node| {
            let value = node.literal()?;
            let is_known = self.mode == Mode::Lenient || value.kind() == Type::Bool;
            is_known.then(|| value.is_truthy())
        };
        if let Kind::Choose = node.kind {
            return match truth(&node.children[0]) {
                Some(value) => node.children.swap_remove(if value { 1 } else { 2 }),
                None => node,
            };
        }
        let Kind::Binary(operator @ (Operator::And | Operator::Or)) = node.kind else {
            return node;
        };
        let end = operator == Operator::Or;
        let decided = node.children.iter().position(|child| truth(child) == Some(end));
        node.children.truncate(decided.map_or(usize::MAX, |n| n + 1));
        node.children.retain(|child| truth(child) != Some(!end));
        match node.children.as_slice() {
            [] => Node { kind: Kind::Literal(Value::Bool(!end)), ..node },
            [only] if truth(only) == Some(end) => {
                Node::new(node.at, Kind::Literal(Value::Bool(end)), Vec::new())
            }
            [only] if only.is_boolean() => only.clone(),
            [_] => {
                let neutral = Kind::Literal(Value::Bool(!end));
                node.children.push(Node::new(node.at, neutral, Vec::new()));
                node
            }
            _ => node,
        }
    }
}

fn is_limit(error: &ExprError) -> bool {
    matches!(error.kind, ExprErrorKind::TooManySteps | ExprErrorKind::TooLarge)
}
