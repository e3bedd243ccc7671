//! Arithmetic on exact decimals. Only division rounds.

use std::cmp::Ordering;

use crate::key::Decimal;

/// Number of significant digits of a quotient, the same as in IEEE 754 decimal128. Quotients are
/// rounded half to even.
pub const QUOTIENT_DIGITS: u32 = 34;

/// Maximum number of digits of a divisor: a remainder with one more digit still fits into 128
/// bits.
const DIVISOR_DIGITS: usize = 36;

/// Compares two numbers by value.
pub(super) fn compare(left: &Decimal, right: &Decimal) -> Ordering {
    let by_sign = sign(left).cmp(&sign(right));
    if by_sign != Ordering::Equal || sign(left) == 0 {
        return by_sign;
    }
    // The digits have no zeros at either end, so digits of the same magnitude compare as texts.
    let magnitude = |number: &Decimal| {
        let (_, exponent, digits) = number.parts();
        digits.len() as i128 + i128::from(exponent)
    };
    let by_size = magnitude(left).cmp(&magnitude(right));
    let by_size = by_size.then_with(|| left.parts().2.cmp(right.parts().2));
    if sign(left) < 0 { by_size.reverse() } else { by_size }
}

/// Returns the sign of a number: -1, 0 or 1.
pub(super) fn sign(number: &Decimal) -> i8 {
    match number.parts() {
        (_, _, "0") => 0,
        (negative, _, _) => {
            if negative {
                -1
            } else {
                1
            }
        }
    }
}

pub(super) fn negated(number: &Decimal) -> Decimal {
    let text = number.to_string();
    let text = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
    Decimal::parse(&text).expect("the negated text is a number")
}

/// Returns the exact product; none if it does not fit in 128 bits.
pub(super) fn product(left: &Decimal, right: &Decimal) -> Option<Decimal> {
    let ((left, left_exponent), (right, right_exponent)) = (scaled(left)?, scaled(right)?);
    decimal(left.checked_mul(right)?, left_exponent + right_exponent)
}

/// Returns the quotient. The divisor must not be 0. None if a number has too many digits.
pub(super) fn quotient(left: &Decimal, right: &Decimal) -> Option<Decimal> {
    let ((left, left_exponent), (right, right_exponent)) = (scaled(left)?, scaled(right)?);
    if right.unsigned_abs().to_string().len() > DIVISOR_DIGITS {
        return None;
    }
    let mut exponent = left_exponent - right_exponent;
    let (negative, left, right) =
        ((left < 0) != (right < 0), left.unsigned_abs(), right.unsigned_abs());
    let (mut quotient, mut rest) = (left / right, left % right);
    while rest != 0 && quotient < 10_u128.pow(QUOTIENT_DIGITS - 1) {
        rest *= 10;
        quotient = quotient * 10 + rest / right;
        rest %= right;
        exponent -= 1;
    }
    let up = match (rest * 2).cmp(&right) {
        Ordering::Less => false,
        Ordering::Equal => quotient % 2 == 1,
        Ordering::Greater => true,
    };
    let quotient = i128::try_from(quotient + u128::from(up)).ok()?;
    decimal(if negative { -quotient } else { quotient }, exponent)
}

/// Returns the remainder, with the sign of `left`. The divisor must not be 0.
pub(super) fn remainder(left: &Decimal, right: &Decimal) -> Option<Decimal> {
    let ((left, left_exponent), (right, right_exponent)) = (scaled(left)?, scaled(right)?);
    let exponent = left_exponent.min(right_exponent);
    let raised = |digits: i128, from: i64| {
        let power = u32::try_from(from - exponent).ok()?;
        digits.checked_mul(10_i128.checked_pow(power)?)
    };
    let (left, right) = (raised(left, left_exponent)?, raised(right, right_exponent)?);
    decimal(left.checked_rem(right)?, exponent)
}

/// Returns the number without the digits after the decimal point.
pub(super) fn whole(number: &Decimal) -> Decimal {
    let (negative, exponent, digits) = number.parts();
    let Ok(places @ 1..) = usize::try_from(-i64::from(exponent)) else { return number.clone() };
    let left = digits.get(..digits.len().saturating_sub(places)).filter(|left| !left.is_empty());
    let sign = if negative { "-" } else { "" };
    let text = format!("{sign}{}", left.unwrap_or("0"));
    Decimal::parse(&text).expect("the digits before the decimal point are a number")
}

/// Returns the number as an index; none if it is negative, not whole or too large.
pub(super) fn index(number: &Decimal) -> Option<usize> {
    number.to_string().parse().ok()
}

/// Returns the digits as an integer, and the exponent of ten.
fn scaled(number: &Decimal) -> Option<(i128, i64)> {
    let (negative, exponent, digits) = number.parts();
    let digits = digits.parse::<i128>().ok()?;
    Some((if negative { -digits } else { digits }, i64::from(exponent)))
}

fn decimal(digits: i128, exponent: i64) -> Option<Decimal> {
    Decimal::parse(&format!("{digits}e{exponent}")).ok()
}
