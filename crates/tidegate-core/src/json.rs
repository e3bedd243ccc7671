//! JSON payloads: valid text, stored byte for byte. Only the value at the path of a key is parsed.

mod edit;
mod scan;

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

pub(crate) use edit::{Blocked, Obstacle};
pub(crate) use scan::{Cursor, index, select};

use crate::key::{Decimal, KeyError, Path, Scalar};

/// Maximum size of an event. Larger data should be in a file store, with its URL in the event.
pub const MAX_EVENT_BYTES: usize = 512 * 1024;

/// Maximum nesting depth, the same as in `serde_json`, because other readers may recurse.
pub const MAX_DEPTH: usize = 128;

/// Valid JSON text, stored byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(Arc<str>);

/// Reason why bytes are not a [`Payload`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload has more bytes than allowed.
    #[error("payload must be at most {limit} bytes, got {size}")]
    TooLarge {
        /// The payload's size.
        size: usize,
        /// The maximum size.
        limit: usize,
    },
    /// The bytes are not UTF-8.
    #[error("payload must be UTF-8, got an invalid byte at offset {offset}")]
    NotUtf8 {
        /// The offset of the first invalid byte.
        offset: usize,
    },
    /// The text is not JSON.
    #[error("payload must be JSON, got an error at offset {offset}: {reason}")]
    Syntax {
        /// The offset at which the error was detected.
        offset: usize,
        /// The parser's message.
        reason: String,
    },
    /// The payload is nested deeper than [`MAX_DEPTH`].
    #[error("payload must nest at most {MAX_DEPTH} deep, got {depth}")]
    TooDeep {
        /// The depth that was reached.
        depth: usize,
    },
}

impl PayloadError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            PayloadError::TooLarge { .. } => "payload_too_large",
            PayloadError::NotUtf8 { .. } => "payload_not_utf8",
            PayloadError::Syntax { .. } => "payload_not_json",
            PayloadError::TooDeep { .. } => "payload_too_deep",
        }
    }
}

impl Payload {
    /// Checks input from outside: its size, encoding, syntax and depth. Does not change a byte.
    pub fn parse(bytes: &[u8], max_bytes: usize) -> Result<Payload, PayloadError> {
        if bytes.len() > max_bytes {
            return Err(PayloadError::TooLarge { size: bytes.len(), limit: max_bytes });
        }
        let text = str::from_utf8(bytes)
            .map_err(|error| PayloadError::NotUtf8 { offset: error.valid_up_to() })?;
        check_syntax(text)?;
        match scan::depth(text) {
            depth if depth > MAX_DEPTH => Err(PayloadError::TooDeep { depth }),
            _ => Ok(Payload(text.into())),
        }
    }

    /// Creates a payload from a value.
    pub fn from_value(value: &Value) -> Payload {
        Payload(value.to_string().into())
    }

    /// Creates a payload from text that is known to be JSON.
    pub(crate) fn trusted(text: String) -> Payload {
        Payload(text.into())
    }

    /// Returns the payload `null`.
    pub fn null() -> Payload {
        Payload("null".into())
    }

    /// Returns the text, byte for byte.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Deserializes the payload.
    ///
    /// ```
    /// use tidegate_core::json::Payload;
    ///
    /// let payload = Payload::parse(b"[1, 2]", 100).unwrap();
    /// assert_eq!(payload.get::<Vec<u32>>().unwrap(), [1, 2]);
    /// assert_eq!(payload.to_string(), "[1, 2]");
    /// ```
    pub fn get<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// Returns the text of the value at the path `names`, byte for byte.
    pub fn select(&self, names: &[String]) -> Option<&str> {
        select(&self.0, names)
    }

    /// Returns the text of the value at `path`, byte for byte.
    pub fn text_at(&self, path: &Path) -> Option<&str> {
        select(&self.0, path.names())
    }

    /// Returns the scalar at `path`; `None` for null, objects, arrays and absent values.
    ///
    /// Of members with the same name the last one counts. Elements of arrays are named by their
    /// index. Scans the text at most once per name of the path, and allocates only the result.
    pub fn scalar(&self, path: &Path) -> Result<Option<Scalar>, KeyError> {
        let Some(value) = select(&self.0, path.names()) else { return Ok(None) };
        match value.as_bytes().first() {
            // The text is valid JSON, so parsing can only fail at half a surrogate pair.
            Some(b'"') => match serde_json::from_str(value) {
                Ok(text) => Ok(Some(Scalar::text(text))),
                Err(_) => Err(KeyError::LoneSurrogate { path: path.clone() }),
            },
            Some(b't' | b'f') => Ok(Some(Scalar::Bool(value == "true"))),
            Some(b'-' | b'0'..=b'9') => match Decimal::parse(value) {
                Ok(number) => Ok(Some(Scalar::number(number))),
                Err(error) => Err(KeyError::Number { path: path.clone(), error }),
            },
            Some(_) | None => Ok(None),
        }
    }
}

impl fmt::Display for Payload {
    /// Writes the text, byte for byte.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    /// Checks only the syntax. Size and depth are checked for input from outside only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        let text = String::deserialize(deserializer)?;
        check_syntax(&text).map_err(de::Error::custom)?;
        Ok(Payload(text.into()))
    }
}

/// Checks the syntax without recursion and without building a tree.
fn check_syntax(text: &str) -> Result<(), PayloadError> {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return Ok(()) };
    let before: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default().to_owned();
    Err(PayloadError::Syntax { offset: before + error.column(), reason })
}

#[cfg(test)]
mod tests;
