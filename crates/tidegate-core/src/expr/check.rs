//! Checks of an expression that need no event: the parts that are the same for every event.

use super::{
    Mode,
    error::{ExprError, ExprErrorKind},
    eval::{Evaluator, Outcome},
    node::{Kind, Node, Operator},
    number,
    value::Value,
};

/// Evaluates the parts without a variable. One that fails would fail for every event.
pub(super) fn constants(node: &Node) -> Outcome<()> {
    if node.variables().is_empty() {
        return value(node).map(|_| ());
    }
    node.children.iter().try_for_each(constants)?;
    let divides = matches!(node.kind, Kind::Binary(Operator::Divide | Operator::Remainder));
    if divides
        && let Some(divisor) = node.children.get(1).filter(|it| it.variables().is_empty())
        && let Value::Number(divisor) = value(divisor)?
        && number::sign(&divisor) == 0
    {
        let message = format!("`{node}` divides by zero: write another divisor");
        return Err(ExprError::new(ExprErrorKind::DivisionByZero, node.at, message));
    }
    Ok(())
}

fn value(node: &Node) -> Outcome<Value<'_>> {
    Evaluator::new(&[], Mode::Strict).eval(node)
}

#[cfg(test)]
mod tests {
    use crate::expr::Expr;

    // spec L15
    #[test]
    fn a_constant_part_that_fails_is_refused_with_its_value() {
        let list = format!("[{}]", vec!["1"; 20].join(","));
        let loops = format!("{list}.map(a, {list}.map(b, {list}.map(c, {list}.map(d, 1))))");
        for (text, expected) in [
            ("event.data.n / 2 > 1", "ok"),
            ("event.data.n / event.data.m > 1", "ok"),
            ("2 / 1 == 2", "ok"),
            ("[1, 2].map(n, n / event.data.m).size() > 0", "ok"),
            ("false && 1 / 0 == 1", "ok"),
            ("1/0", "expression_division_by_zero: `1 / 0` divides by zero: test the divisor first"),
            (
                "event.data.n % (2 - 2)",
                "expression_division_by_zero: `event.data.n % (2 - 2)` divides by zero: write \
                 another divisor",
            ),
            (
                "event.data.n > 1 || 1 < \"x\"",
                "expression_wrong_type: `<` does not take a number `1` and a text `\"x\"`: convert \
                 one of them",
            ),
            ("event.data.n == -\"a\"", "expression_wrong_type: "),
            ("int(\"x\")", "expression_bad_value: "),
            (&loops, "expression_too_many_steps: "),
        ] {
            let checked = Expr::parse(text).and_then(|expr| expr.check());
            let said = match checked {
                Ok(()) => "ok".to_owned(),
                Err(error) => format!("{}: {}", error.code(), error.message),
            };
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }
}
