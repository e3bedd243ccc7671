//! Keys of controls: the value of a key in an event, its path, and its stored bytes.
//!
//! Values of different types are different keys: `1`, `"1"` and `true` are three keys. Numbers
//! compare by exact decimal value. The stored bytes are the same on every store; different keys
//! have different bytes, and the bytes say where they end.

mod decimal;
mod path;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use decimal::{Decimal, DecimalError, MAX_SUM_DIGITS};
pub use path::{MAX_CHARS, MAX_NAMES, Path, PathError};

use crate::json::Payload;

/// Maximum size of a value that is stored completely. Several values of this size fit into an index
/// page of both databases.
pub const MAX_VALUE_BYTES: usize = 1024;

/// Number of bytes of a longer value that are stored for display.
pub const HEAD_BYTES: usize = 64;

/// Key of a control for one event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Key {
    /// The control has no key: it covers the whole workflow.
    Whole,
    /// The control has a key, but the event does not have a value for it.
    Missing,
    /// The event's value.
    Value(Scalar),
    /// The event's values, for a key with several paths. [`Key::of_values`] creates it.
    Values(Vec<Scalar>),
}

/// Value that can be a key.
///
/// [`Scalar::text`] and [`Scalar::number`] create it, so that each value has one representation: a
/// value over [`MAX_VALUE_BYTES`] is always [`Scalar::Long`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scalar {
    /// A JSON string of at most [`MAX_VALUE_BYTES`].
    Text(String),
    /// A JSON number of at most [`MAX_VALUE_BYTES`] digits.
    Number(Decimal),
    /// A JSON boolean.
    Bool(bool),
    /// A longer string or number: identified by its digest, displayed by its beginning.
    Long {
        /// SHA-256 over the type's tag and the whole value.
        digest: [u8; 32],
        /// The beginning of the value: whole characters, at most [`HEAD_BYTES`].
        head: String,
    },
}

/// Reason why a value of an event cannot be a key. The event is stored nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The string contains half of a surrogate pair, which is not valid text.
    #[error("key `{path}`: the string contains a lone surrogate")]
    LoneSurrogate {
        /// The path of the string.
        path: Path,
    },
    /// The exponent of the number is too large or too small for an exact comparison.
    #[error("key `{path}`: {error}")]
    Number {
        /// The path of the number.
        path: Path,
        /// The reason.
        error: DecimalError,
    },
}

impl Key {
    /// Returns the key of one event. Without a path, the control has no key.
    pub fn of(path: Option<&Path>, data: &Payload) -> Result<Key, KeyError> {
        let Some(path) = path else { return Ok(Key::Whole) };
        Ok(data.scalar(path)?.map_or(Key::Missing, Key::Value))
    }

    /// Creates the key of several values. Values that need more than [`MAX_VALUE_BYTES`] together
    /// are identified by their digest, as a long text is.
    pub fn of_values(mut values: Vec<Scalar>) -> Key {
        if values.len() < 2 {
            return values.pop().map_or(Key::Missing, Key::Value);
        }
        let bytes = encode_values(&values);
        if bytes.len() <= MAX_VALUE_BYTES {
            return Key::Values(values);
        }
        let (digest, head) = (values_digest(&bytes), head(&Key::Values(values).to_string()));
        Key::Value(Scalar::Long { digest, head })
    }

    /// Returns the key for display. The values of a key with several paths get the names of the
    /// paths: `accountId = 7, region = eu`.
    pub fn show(&self, names: &[String]) -> String {
        match self {
            Key::Values(values) if values.len() == names.len() => {
                let each = names.iter().zip(values);
                each.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
            }
            Key::Whole | Key::Missing | Key::Value(_) | Key::Values(_) => self.to_string(),
        }
    }

    /// Appends the stored bytes of the key.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Key::Whole => out.push(tag::WHOLE),
            Key::Missing => out.push(tag::MISSING),
            Key::Value(value) => value.encode_into(out),
            Key::Values(values) => {
                let bytes = encode_values(values);
                if bytes.len() <= MAX_VALUE_BYTES {
                    out.extend([tag::VALUES, u8::try_from(values.len()).unwrap_or(u8::MAX)]);
                    out.extend(bytes);
                } else {
                    // The constructor never creates this value; its bytes are those of
                    // `Scalar::Long`.
                    encode_long(&values_digest(&bytes), &head(&self.to_string()), out);
                }
            }
        }
    }

    /// Decodes a key from the beginning of `bytes`. Returns the key and its number of bytes.
    ///
    /// Returns `None` for bytes that [`Key::encode_into`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Option<(Key, usize)> {
        let (&kind, rest) = bytes.split_first()?;
        let (key, rest) = match kind {
            tag::WHOLE => (Key::Whole, rest),
            tag::MISSING => (Key::Missing, rest),
            tag::VALUES => {
                let (&count, mut rest) = rest.split_first()?;
                let (mut values, length) = (Vec::new(), rest.len());
                for _ in 0..count {
                    let (value, after) = Scalar::decode(rest)?;
                    values.push(value);
                    rest = after;
                }
                let fits = values.len() >= 2 && length - rest.len() <= MAX_VALUE_BYTES;
                (Key::Values(fits.then_some(values)?), rest)
            }
            _ => {
                let (value, rest) = Scalar::decode(bytes)?;
                (Key::Value(value), rest)
            }
        };
        Some((key, bytes.len() - rest.len()))
    }
}

impl Scalar {
    /// Creates a key from a string.
    pub fn text(text: String) -> Scalar {
        if text.len() <= MAX_VALUE_BYTES {
            return Scalar::Text(text);
        }
        Scalar::Long { digest: text_digest(&text), head: head(&text) }
    }

    /// Creates a key from a number.
    pub fn number(number: Decimal) -> Scalar {
        if number.parts().2.len() <= MAX_VALUE_BYTES {
            return Scalar::Number(number);
        }
        Scalar::Long { digest: number_digest(&number), head: head(&number.to_string()) }
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Scalar::Bool(false) => out.push(tag::FALSE),
            Scalar::Bool(true) => out.push(tag::TRUE),
            Scalar::Text(text) if text.len() <= MAX_VALUE_BYTES => {
                out.push(tag::TEXT);
                push_part(out, text.as_bytes());
            }
            Scalar::Number(number) if number.parts().2.len() <= MAX_VALUE_BYTES => {
                let (negative, exponent, digits) = number.parts();
                out.extend([tag::NUMBER, u8::from(negative)]);
                out.extend(exponent.to_be_bytes());
                push_part(out, digits.as_bytes());
            }
            // The constructors never create these values; their bytes are those of `Scalar::Long`.
            Scalar::Text(text) => encode_long(&text_digest(text), &head(text), out),
            Scalar::Number(number) => {
                encode_long(&number_digest(number), &head(&number.to_string()), out);
            }
            Scalar::Long { digest, head } => encode_long(digest, head, out),
        }
    }

    /// Decodes a value from the beginning of `bytes`. Returns the value and the remaining bytes.
    fn decode(bytes: &[u8]) -> Option<(Scalar, &[u8])> {
        let (&kind, rest) = bytes.split_first()?;
        Some(match kind {
            tag::FALSE => (Scalar::Bool(false), rest),
            tag::TRUE => (Scalar::Bool(true), rest),
            tag::TEXT => {
                let (text, rest) = take_text(rest, MAX_VALUE_BYTES)?;
                (Scalar::Text(text.to_owned()), rest)
            }
            tag::NUMBER => {
                let (&sign, rest) = rest.split_first()?;
                let (exponent, rest) = rest.split_first_chunk::<4>()?;
                let (digits, rest) = take_text(rest, MAX_VALUE_BYTES)?;
                let negative = [false, true].into_iter().find(|&it| u8::from(it) == sign)?;
                let number = Decimal::from_parts(negative, i32::from_be_bytes(*exponent), digits)?;
                (Scalar::Number(number), rest)
            }
            tag::LONG => {
                let (digest, rest) = rest.split_first_chunk::<32>()?;
                let (head, rest) = take_text(rest, HEAD_BYTES)?;
                (Scalar::Long { digest: *digest, head: head.to_owned() }, rest)
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Whole => f.write_str("(whole)"),
            Key::Missing => f.write_str("(missing)"),
            Key::Value(scalar) => scalar.fmt(f),
            Key::Values(values) => {
                let texts: Vec<_> = values.iter().map(Scalar::to_string).collect();
                f.write_str(&texts.join(", "))
            }
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Text(text) => f.write_str(text),
            Scalar::Number(number) => number.fmt(f),
            Scalar::Bool(value) => value.fmt(f),
            Scalar::Long { head, .. } => write!(f, "{head}…"),
        }
    }
}

/// Appends one part of a tuple: its length in two bytes, then the part.
///
/// With the length, different tuples have different bytes: `("a", "bc")` and `("ab", "c")` differ.
pub fn push_part(out: &mut Vec<u8>, part: &[u8]) {
    let length = u16::try_from(part.len()).expect("names and keys are shorter than 64 KiB");
    out.extend(length.to_be_bytes());
    out.extend(part);
}

/// Splits the first part off `bytes`. Returns the part and the remaining bytes.
pub fn take_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// First byte of a stored key. It is a letter, so that people can read a dump.
mod tag {
    pub(super) const WHOLE: u8 = b'w';
    pub(super) const MISSING: u8 = b'm';
    pub(super) const FALSE: u8 = b'f';
    pub(super) const TRUE: u8 = b't';
    pub(super) const TEXT: u8 = b's';
    pub(super) const NUMBER: u8 = b'n';
    pub(super) const LONG: u8 = b'h';
    pub(super) const VALUES: u8 = b'v';
}

fn text_digest(text: &str) -> [u8; 32] {
    Sha256::new().chain_update([tag::TEXT]).chain_update(text).finalize().into()
}

fn number_digest(number: &Decimal) -> [u8; 32] {
    let (negative, exponent, digits) = number.parts();
    Sha256::new()
        .chain_update([tag::NUMBER, u8::from(negative)])
        .chain_update(exponent.to_be_bytes())
        .chain_update(digits)
        .finalize()
        .into()
}

/// Returns the stored bytes of several values: each says where it ends, so that different lists have
/// different bytes.
fn encode_values(values: &[Scalar]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    for value in values {
        value.encode_into(&mut bytes);
    }
    bytes
}

fn values_digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update([tag::VALUES]).chain_update(bytes).finalize().into()
}

fn encode_long(digest: &[u8; 32], head: &str, out: &mut Vec<u8>) {
    out.push(tag::LONG);
    out.extend(digest);
    push_part(out, head.as_bytes());
}

/// Splits the first part off `bytes`, if it is text of at most `limit` bytes.
fn take_text(bytes: &[u8], limit: usize) -> Option<(&str, &[u8])> {
    let (part, rest) = take_part(bytes)?;
    let text = str::from_utf8(part).ok()?;
    (text.len() <= limit).then_some((text, rest))
}

fn head(text: &str) -> String {
    text[..text.floor_char_boundary(HEAD_BYTES)].to_owned()
}

#[cfg(test)]
mod tests;
