//! Binary operators on values.

use std::{borrow::Cow, cmp::Ordering};

use super::{
    error::{ExprError, ExprErrorKind},
    eval::{DETAILS_A_STEP, Evaluator, Outcome},
    json::Json,
    node::Operator,
    number,
    value::{Type, Value},
};
use crate::key::Decimal;

impl<'a> Evaluator<'a> {
    /// Applies an operator other than `&&` and `||`, which do not always evaluate both operands.
    pub(super) fn operate(
        &mut self,
        operator: Operator,
        left: Value<'a>,
        right: Value<'a>,
    ) -> Outcome<Value<'a>> {
        let accepts: fn(Ordering) -> bool = match operator {
            Operator::Equal => return self.equal(&left, &right).map(Value::Bool),
            Operator::Unequal => return self.equal(&left, &right).map(|it| Value::Bool(!it)),
            Operator::In => return self.contains(&left, &right).map(Value::Bool),
            Operator::Add => return self.sum(left, right),
            Operator::Less => Ordering::is_lt,
            Operator::LessOrEqual => Ordering::is_le,
            Operator::Greater => Ordering::is_gt,
            Operator::GreaterOrEqual => Ordering::is_ge,
            Operator::And
            | Operator::Or
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => return self.arithmetic(operator.row().0, &left, &right),
        };
        let order = self.order(operator.row().0, left, right)?;
        Ok(Value::Bool(order.is_some_and(accepts)))
    }

    fn equal(&mut self, left: &Value<'_>, right: &Value<'_>) -> Outcome<bool> {
        let types = [left.kind(), right.kind()];
        if types[0] == types[1] {
            return self.same(left, right);
        }
        match (types.contains(&Type::Null), self.is_lenient()) {
            (true, true) => Ok(left.is_zero() && right.is_zero()),
            (true, false) | (false, true) => Ok(false),
            (false, false) => Err(self.unlike("==", left, right)),
        }
    }

    /// Whether two values of the same type are equal. Numbers are equal if they are equal as keys.
    fn same(&mut self, left: &Value<'_>, right: &Value<'_>) -> Outcome<bool> {
        Ok(match (left, right) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::Number(left), Value::Number(right)) => left == right,
            (Value::Text(left), Value::Text(right)) => {
                self.scan(left.len().min(right.len()))?;
                left == right
            }
            _ => self.canonical(left)? == self.canonical(right)?,
        })
    }

    /// Compares two values. If they have no order, the result is none in lenient mode and an error
    /// in strict mode.
    fn order(
        &mut self,
        sign: &str,
        left: Value<'a>,
        right: Value<'a>,
    ) -> Outcome<Option<Ordering>> {
        let (left, right) = match (left, right) {
            (Value::Null, right) if self.is_lenient() => (right.kind().zero(), right),
            (left, Value::Null) if self.is_lenient() => {
                let zero = left.kind().zero();
                (left, zero)
            }
            both => both,
        };
        match (&left, &right) {
            (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
            (Value::Number(left), Value::Number(right)) => Ok(Some(number::compare(left, right))),
            (Value::Text(left), Value::Text(right)) => {
                self.scan(left.len().min(right.len()))?;
                Ok(Some(left.cmp(right)))
            }
            (Value::Null, Value::Null) if self.is_lenient() => Ok(Some(Ordering::Equal)),
            _ if self.is_lenient() => Ok(None),
            _ => Err(self.unlike(sign, &left, &right)),
        }
    }

    /// Whether a list contains an equal element, or a map has a member of this name. Values of
    /// different types are not equal.
    fn contains(&mut self, item: &Value<'a>, all: &Value<'a>) -> Outcome<bool> {
        for text in self.items(all)? {
            let other = self.read(text)?;
            if other.kind() == item.kind() && self.same(item, &other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sum(&mut self, left: Value<'a>, right: Value<'a>) -> Outcome<Value<'a>> {
        match (&left, &right) {
            (Value::Number(left), Value::Number(right)) => {
                self.exact("+", [left, right], left.plus(right))
            }
            (Value::Text(left), Value::Text(right)) => self.build(format!("{left}{right}")),
            (Value::Null, _) if self.is_lenient() => Ok(right),
            (_, Value::Null) if self.is_lenient() => Ok(left),
            (Value::Text(text), Value::Number(_) | Value::Bool(_)) if self.is_lenient() => {
                self.build(format!("{text}{}", right.to_json()))
            }
            (Value::Number(_) | Value::Bool(_), Value::Text(text)) if self.is_lenient() => {
                self.build(format!("{}{text}", left.to_json()))
            }
            (Value::Json(first), Value::Json(second)) if first.is_list() && second.is_list() => {
                let mut items = self.items(&left)?;
                items.extend(self.items(&right)?);
                let text = format!("[{}]", items.join(","));
                self.charge(text.len())?;
                Ok(Value::Json(Json::trusted(text)))
            }
            _ => Err(self.unlike("+", &left, &right)),
        }
    }

    fn arithmetic(
        &mut self,
        sign: &str,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Outcome<Value<'a>> {
        let (left, right) = (self.number(sign, left)?, self.number(sign, right)?);
        if matches!(sign, "/" | "%") && number::sign(&right) == 0 {
            let message = format!("`{left} {sign} 0` divides by zero: test the divisor first");
            return Err(self.error(ExprErrorKind::DivisionByZero, message));
        }
        let result = match sign {
            "-" => left.plus(&number::negated(&right)),
            "*" => number::product(&left, &right),
            "/" => number::quotient(&left, &right),
            _ => number::remainder(&left, &right),
        };
        self.exact(sign, [&left, &right], result)
    }

    /// Returns the result of a calculation, and counts steps for its digits.
    fn exact(
        &mut self,
        sign: &str,
        operands: [&Decimal; 2],
        result: Option<Decimal>,
    ) -> Outcome<Value<'a>> {
        let digits = operands.into_iter().chain(&result).map(|number| number.parts().2.len());
        self.spend(digits.sum::<usize>() / DETAILS_A_STEP)?;
        result.map(Value::number).ok_or_else(|| {
            let message = format!("the result of `{sign}` has too many digits to be exact");
            self.error(ExprErrorKind::BadValue, message)
        })
    }

    /// Returns an operand as a number; in lenient mode null counts as 0.
    pub(super) fn number<'v>(&self, name: &str, value: &Value<'v>) -> Outcome<Cow<'v, Decimal>> {
        match value {
            Value::Number(number) => Ok(number.clone()),
            Value::Null if self.is_lenient() => Ok(Cow::Owned(Decimal::from(0))),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::Json(_) | Value::Record(_) => {
                Err(self.wrong_type(&format!("an operand of `{name}`"), "a number", value))
            }
        }
    }

    fn unlike(&self, sign: &str, left: &Value<'_>, right: &Value<'_>) -> ExprError {
        let is_null = left.kind() == Type::Null || right.kind() == Type::Null;
        let fix = if is_null { "test for null before" } else { "convert one of them" };
        let message = format!("`{sign}` does not take {left} and {right}: {fix}");
        self.error(ExprErrorKind::WrongType, message)
    }
}
