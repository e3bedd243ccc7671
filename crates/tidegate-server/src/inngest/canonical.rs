//! Canonical JSON (RFC 8785), over which messages are signed.
//!
//! Only the signature is computed over this form: the message itself is sent byte for byte, so that
//! numbers which a double cannot hold reach the application as they are. The application's SDK
//! parses the message, writes it in this form and checks the signature of that.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde_json::{Error, Value, value::RawValue};

/// Maximum nesting depth, which is that of other JSON documents. The time grows with it.
const MAX_DEPTH: usize = 128;

/// Writes a JSON document in canonical form.
pub(super) fn canonical(document: &[u8]) -> Result<Vec<u8>, Error> {
    let mut text = String::with_capacity(document.len());
    write(serde_json::from_slice(document)?, MAX_DEPTH, &mut text)?;
    Ok(text.into_bytes())
}

/// Writes a value. It is parsed level by level: numbers must be read from their digits, because
/// `serde_json` does not always find the nearest double.
fn write(raw: &RawValue, depth: usize, into: &mut String) -> Result<(), Error> {
    let deeper = || depth.checked_sub(1).ok_or_else(|| Error::custom("it is nested too deep"));
    match raw.get().as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get())?;
            let mut members: Vec<_> = members.into_iter().collect();
            // The order of names is that of their UTF-16 code units.
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            into.push('{');
            for (n, (name, member)) in members.into_iter().enumerate() {
                into.push_str(if n > 0 { "," } else { "" });
                write_text(name, into);
                into.push(':');
                write(member, deeper()?, into)?;
            }
            into.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get())?;
            into.push('[');
            for (n, item) in items.into_iter().enumerate() {
                into.push_str(if n > 0 { "," } else { "" });
                write(item, deeper()?, into)?;
            }
            into.push(']');
        }
        Some(b'"') => write_text(serde_json::from_str(raw.get())?, into),
        Some(b'-' | b'0'..=b'9') => write_number(raw.get(), into)?,
        Some(_) | None => into.push_str(raw.get()),
    }
    Ok(())
}

/// Writes a text. The escapes of this form are those of `serde_json`.
fn write_text(text: String, into: &mut String) {
    into.push_str(&Value::String(text).to_string());
}

/// Writes a number as ECMAScript does: the shortest digits that denote the same double, with an
/// exponent only for very small and very large numbers.
fn write_number(literal: &str, into: &mut String) -> Result<(), Error> {
    let double: f64 = literal.parse().map_err(Error::custom)?;
    if !double.is_finite() {
        return Err(Error::custom(format!("the number {literal} is too large")));
    }
    if double == 0.0 {
        into.push('0');
        return Ok(());
    }
    // Digits and exponent as in `1.25e-7`. Of two shortest forms, ECMAScript takes the nearest one,
    // and of two that are equally near the even one, which is how Rust rounds to a given length.
    let shortest = format!("{:e}", double.abs());
    let mantissa = shortest.bytes().take_while(|byte| *byte != b'e');
    let after_point = mantissa.filter(u8::is_ascii_digit).count() - 1;
    let nearest = format!("{:.after_point$e}", double.abs());
    let scientific = if nearest.parse() == Ok(double.abs()) { nearest } else { shortest };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().map_err(Error::custom)?;
    if double < 0.0 {
        into.push('-');
    }
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // Number of digits before the point.
    let whole = exponent + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    match whole {
        _ if (count..=21).contains(&whole) => {
            into.push_str(&digits);
            into.push_str(&zeros(whole - count));
        }
        1..=21 => {
            let (before, after) = digits.split_at(usize::try_from(whole).unwrap_or_default());
            into.extend([before, ".", after]);
        }
        -5..=0 => into.extend(["0.", &zeros(-whole), &digits]),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { "e-" } else { "e+" };
            into.extend([first, point, rest, sign, &exponent.abs().to_string()]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::canonical;

    fn of(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes()).unwrap()).unwrap()
    }

    /// The numbers of RFC 8785, appendix B, and the borders of each notation.
    #[test]
    fn numbers_are_written_as_in_the_rfc() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let number = f64::from_bits(bits);
            assert_eq!(of(&format!("{number:e}")), expected, "{bits:x}");
        }
        for (text, expected) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1E2", "100"),
            ("123.456", "123.456"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("12345678901234567890123", "1.2345678901234568e+22"),
            ("0.1", "0.1"),
            ("1437762505924930.25", "1437762505924930.2"),
            ("28723765240966.5625", "28723765240966.562"),
            ("1e-7", "1e-7"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    /// The examples of RFC 8785, sections 3.2.2 and 3.2.3.
    #[test]
    fn texts_and_names_are_written_as_in_the_rfc() {
        let document = r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3,
            0.000000000000000000000000001], "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false] }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(of(document), expected);
        let names = r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6,
            "\u00f6": 7}"#;
        let expected =
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"€\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(of(names), expected);
        assert_eq!(
            of("{\"b\":{\"y\":null,\"x\":[]},\"a\":{}}"),
            r#"{"a":{},"b":{"x":[],"y":null}}"#
        );
    }
}
