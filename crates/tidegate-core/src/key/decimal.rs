//! Numbers as keys: exact decimal values, with one representation per value.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Exact value of a JSON number.
///
/// `1`, `1.0`, `1e0` and `10e-1` are the same value, `-0` is `0`, and no value is rounded. The
/// order is only for sorted maps; it is not the numeric order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Decimal {
    negative: bool,
    /// ASCII digits without leading or trailing zeros; `"0"` for zero, with exponent 0.
    digits: String,
    /// The value is `digits` times ten to this power.
    exponent: i32,
}

/// Maximum number of digits of a sum. No counter needs more, and it limits the cost.
pub const MAX_SUM_DIGITS: usize = 1024;

/// Reason why a text is not a [`Decimal`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is not a number in the grammar of JSON.
    #[error("`{0}` is not a JSON number")]
    Syntax(String),
    /// The exponent does not fit in 32 bits.
    #[error("the exponent of `{0}` does not fit in 32 bits")]
    Exponent(String),
}

impl Decimal {
    /// Parses a JSON number literal.
    pub fn parse(literal: &str) -> Result<Decimal, DecimalError> {
        let parts = split(literal).ok_or_else(|| DecimalError::Syntax(shorten(literal)))?;
        let all = [parts.whole, parts.fraction].concat();
        let digits = all.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Decimal { negative: false, digits: "0".to_owned(), exponent: 0 });
        }
        let trimmed = digits.trim_end_matches('0');
        let shift = distance(digits.len() - trimmed.len()) - distance(parts.fraction.len());
        let exponent = i32::try_from(parts.exponent.saturating_add(shift))
            .map_err(|_| DecimalError::Exponent(shorten(literal)))?;
        Ok(Decimal { negative: parts.negative, digits: trimmed.to_owned(), exponent })
    }

    /// Returns the exact sum; none if it has more than [`MAX_SUM_DIGITS`] digits.
    pub fn plus(&self, other: &Decimal) -> Option<Decimal> {
        let zero = |it: &Decimal| it.digits == "0";
        if zero(self) || zero(other) {
            return Some(if zero(self) { other.clone() } else { self.clone() });
        }
        let exponent = self.exponent.min(other.exponent);
        let (left, right) = (self.digits_at(exponent)?, other.digits_at(exponent)?);
        let width = left.len().max(right.len());
        let (left, right) = (padded(left, width), padded(right, width));
        let (negative, sum) = if self.negative == other.negative {
            (self.negative, sum(&left, &right))
        } else if left >= right {
            (self.negative, difference(&left, &right))
        } else {
            (other.negative, difference(&right, &left))
        };
        let sign = if negative { "-" } else { "" };
        let digits = sum.trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        Decimal::parse(&format!("{sign}{digits}e{exponent}")).ok()
    }

    /// Returns the digits for a smaller exponent, with zeros added; none if there are too many.
    fn digits_at(&self, exponent: i32) -> Option<String> {
        let zeros = usize::try_from(i64::from(self.exponent) - i64::from(exponent)).ok()?;
        let width = self.digits.len().checked_add(zeros)?;
        (width <= MAX_SUM_DIGITS).then(|| format!("{}{}", self.digits, "0".repeat(zeros)))
    }

    /// Returns the parts of the encoding: whether the number is negative, exponent and digits.
    pub(crate) fn parts(&self) -> (bool, i32, &str) {
        (self.negative, self.exponent, &self.digits)
    }

    /// Creates a value from its parts; `None` if they are not the canonical representation.
    pub(super) fn from_parts(negative: bool, exponent: i32, digits: &str) -> Option<Decimal> {
        let zero = digits == "0" && exponent == 0 && !negative;
        let trimmed = digits.trim_matches('0') == digits && !digits.is_empty();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = plain && (zero || trimmed);
        canonical.then(|| Decimal { negative, digits: digits.to_owned(), exponent })
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Decimal {
        Decimal::parse(&number.to_string()).expect("an integer is a JSON number")
    }
}

impl fmt::Display for Decimal {
    /// Writes plain digits if that is short enough, otherwise digits with an exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        match self.exponent {
            0 => f.write_str(&self.digits),
            zeros @ 1..=20 => {
                write!(f, "{}{:0<2$}", self.digits, "", zeros.unsigned_abs() as usize)
            }
            places @ -20..=-1 => {
                let places = places.unsigned_abs() as usize;
                let padded = format!("{:0>1$}", self.digits, places + 1);
                let (whole, fraction) = padded.split_at(padded.len() - places);
                write!(f, "{whole}.{fraction}")
            }
            power => write!(f, "{}e{power}", self.digits),
        }
    }
}

impl From<Decimal> for String {
    fn from(decimal: Decimal) -> String {
        decimal.to_string()
    }
}

impl TryFrom<String> for Decimal {
    type Error = DecimalError;

    fn try_from(text: String) -> Result<Decimal, DecimalError> {
        Decimal::parse(&text)
    }
}

/// Pads digits with leading zeros.
fn padded(digits: String, width: usize) -> Vec<u8> {
    let zeros = std::iter::repeat_n(0, width - digits.len());
    zeros.chain(digits.bytes().map(|digit| digit - b'0')).collect()
}

/// Returns the sum of two numbers with the same number of digits.
fn sum(left: &[u8], right: &[u8]) -> String {
    let mut carry = 0;
    let mut digits: Vec<u8> = Vec::with_capacity(left.len() + 1);
    for (a, b) in left.iter().zip(right).rev() {
        let digit = a + b + carry;
        carry = digit / 10;
        digits.push(digit % 10);
    }
    digits.push(carry);
    digits.into_iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// Returns `left` minus `right`. Both have the same number of digits, and `left` is not smaller.
fn difference(left: &[u8], right: &[u8]) -> String {
    let mut borrow = 0;
    let mut digits: Vec<u8> = Vec::with_capacity(left.len());
    for (a, b) in left.iter().zip(right).rev() {
        let taken = b + borrow;
        borrow = u8::from(*a < taken);
        digits.push(a + 10 * borrow - taken);
    }
    digits.into_iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// Parts of a number literal.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

/// Splits a literal into its parts by the grammar of JSON; none if it is not a number.
fn split(literal: &str) -> Option<Parts<'_>> {
    let (negative, rest) = match literal.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, power(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    (is_digits(whole) && !leading_zero).then_some(Parts { negative, whole, fraction, exponent })
}

/// Parses the exponent after the `e`. A very large exponent is replaced by a smaller one, which is
/// still out of range.
fn power(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !is_digits(digits) {
        return None;
    }
    // Half of the range of `i64`: adding the number of digits can neither overflow nor bring the
    // exponent back into the range of keys.
    let size = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
    Some(if text.starts_with('-') { -size } else { size })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn distance(length: usize) -> i64 {
    i64::try_from(length).expect("a text is shorter than 2^63 bytes")
}

/// Returns the beginning of a literal, so that a reader can find it in a payload.
fn shorten(literal: &str) -> String {
    literal.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    // spec keys: numbers compare by exact decimal value.
    #[test]
    fn every_spelling_of_a_number_is_one_value() {
        let same: [&[&str]; 7] = [
            &["1", "1.0", "1e0", "10e-1", "0.1e1", "1E+0", "1.000", "0.01E2", "1e-0"],
            &["0", "-0", "0.0", "-0.00e5", "0e99999999999999999999", "0e-99999999999999999999"],
            &["9007199254740993", "9007199254740993.0", "9.007199254740993e15"],
            &["1e400", "10e399", "0.1e401", "1e0000000400"],
            &["-2.5", "-25e-1", "-0.25e1"],
            &["1e2147483647", "0.1e2147483648", "10e2147483646"],
            &["1e-2147483648", "0.1e-2147483647"],
        ];
        for group in same {
            let first = Decimal::parse(group[0]).unwrap();
            for literal in group {
                assert_eq!(Decimal::parse(literal).as_ref(), Ok(&first), "{literal}");
            }
        }
    }

    #[test]
    fn numbers_that_a_double_confuses_stay_apart() {
        let apart = [
            ("9007199254740992", "9007199254740993"),
            ("0.1", "0.1000000000000000000000000000000000000001"),
            ("1e400", "1e401"),
            ("1e-400", "0"),
            ("1", "-1"),
            ("12", "120"),
        ];
        for (left, right) in apart {
            assert_ne!(Decimal::parse(left), Decimal::parse(right), "{left} {right}");
        }
    }

    #[test]
    fn a_decimal_prints_as_people_write_it() {
        let literals = ["1.0", "-0", "1200", "0.5", "-12.50", "1e20", "1e21", "12e400", "5e-21"];
        let printed = literals.map(|text| Decimal::parse(text).unwrap().to_string()).join(" ");
        expect!["1 0 1200 0.5 -12.5 100000000000000000000 1e21 12e400 5e-21"].assert_eq(&printed);
        for literal in literals {
            let value = Decimal::parse(literal).unwrap();
            assert_eq!(Decimal::parse(&value.to_string()), Ok(value), "{literal}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_far_out_is_refused() {
        let literals = [
            "",
            "-",
            "+1",
            "01",
            ".5",
            "1.",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "1 ",
            "--1",
            "1.2.3",
            "1e2147483648",
            "1e-2147483649",
            "1e99999999999999999999",
            "-1e-99999999999999999999",
        ];
        let errors = literals.map(|text| Decimal::parse(text).unwrap_err().to_string()).join("\n");
        expect![[r#"
            `` is not a JSON number
            `-` is not a JSON number
            `+1` is not a JSON number
            `01` is not a JSON number
            `.5` is not a JSON number
            `1.` is not a JSON number
            `1e` is not a JSON number
            `1e+` is not a JSON number
            `0x1` is not a JSON number
            `NaN` is not a JSON number
            `1 ` is not a JSON number
            `--1` is not a JSON number
            `1.2.3` is not a JSON number
            the exponent of `1e2147483648` does not fit in 32 bits
            the exponent of `1e-2147483649` does not fit in 32 bits
            the exponent of `1e99999999999999999999` does not fit in 32 bits
            the exponent of `-1e-99999999999999999999` does not fit in 32 bits"#]]
        .assert_eq(&errors);
    }

    #[test]
    fn sums_are_exact() {
        let table = [
            ("1", "1", "2"),
            ("0.1", "0.2", "0.3"),
            ("9007199254740993", "1", "9007199254740994"),
            ("-1", "1", "0"),
            ("1", "-2.50", "-1.5"),
            ("-2.5", "1", "-1.5"),
            ("999", "1", "1000"),
            ("1e20", "-1", "99999999999999999999"),
            ("1e400", "-1e400", "0"),
            ("1e2147483647", "0", "1e2147483647"),
        ];
        for (left, right, expected) in table {
            let [left, right, expected] =
                [left, right, expected].map(|it| Decimal::parse(it).unwrap());
            assert_eq!(left.plus(&right).as_ref(), Some(&expected), "{left} + {right}");
            assert_eq!(right.plus(&left), Some(expected), "{right} + {left}");
        }
        let far = Decimal::parse("1e2000").unwrap();
        assert_eq!(far.plus(&Decimal::from(1)), None);
        let edge = Decimal::parse("5e2147483647").unwrap();
        assert_eq!(edge.plus(&edge), None, "a sum whose exponent does not fit is returned");
    }
}
