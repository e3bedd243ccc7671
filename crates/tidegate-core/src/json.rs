//! JSON payloads: valid text, kept byte for byte and read only where a key points.

mod edit;
mod scan;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::IgnoredAny};
use serde_json::Value;

pub(crate) use edit::{Blocked, Obstacle};

use crate::key::{Decimal, KeyError, Path, Scalar};

/// The largest event. Larger data belongs into a file store, with its address in the event.
pub const MAX_EVENT_BYTES: usize = 512 * 1024;

/// The deepest nesting, as in `serde_json`: readers further on may recurse.
pub const MAX_DEPTH: usize = 128;

/// Valid JSON text, kept byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(Arc<str>);

/// Why bytes are not a [`Payload`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// More bytes than allowed.
    #[error("payload must be at most {limit} bytes, got {size}")]
    TooLarge {
        /// The payload's size.
        size: usize,
        /// The most that is allowed here.
        limit: usize,
    },
    /// The bytes are not UTF-8.
    #[error("payload must be UTF-8, got a wrong byte at offset {offset}")]
    NotUtf8 {
        /// The first wrong byte.
        offset: usize,
    },
    /// The text is not JSON.
    #[error("payload must be JSON, got an error at offset {offset}: {reason}")]
    Syntax {
        /// How many bytes were read when the error was seen.
        offset: usize,
        /// What the parser says.
        reason: String,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("payload must nest at most {MAX_DEPTH} deep, got {depth}")]
    TooDeep {
        /// The depth that was reached.
        depth: usize,
    },
}

impl PayloadError {
    /// The stable code of this error.
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
    /// Checks what came from outside, and keeps it as it is.
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

    /// Writes a value as text.
    pub fn from_value(value: &Value) -> Payload {
        Payload(value.to_string().into())
    }

    /// The payload `null`.
    pub fn null() -> Payload {
        Payload("null".into())
    }

    /// The text, exactly as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of the value at these names, as it came.
    pub fn select(&self, names: &[String]) -> Option<&str> {
        scan::select(&self.0, names)
    }

    /// The text of the value at `path`, byte for byte.
    pub fn text_at(&self, path: &Path) -> Option<&str> {
        scan::select(&self.0, path.names())
    }

    /// Reads the scalar at `path`; null, objects, arrays and what is absent give `None`.
    ///
    /// Of a name given twice the last one counts. An array is entered by its index. Scans the
    /// text at most once per name of the path and builds nothing but the answer.
    pub fn scalar(&self, path: &Path) -> Result<Option<Scalar>, KeyError> {
        let Some(value) = scan::select(&self.0, path.names()) else { return Ok(None) };
        match value.as_bytes().first() {
            // The text is known to be valid, so that only half a surrogate pair can be wrong.
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

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    /// Checks the syntax only: size and depth are asked of what comes from outside.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        let text = String::deserialize(deserializer)?;
        check_syntax(&text).map_err(de::Error::custom)?;
        Ok(Payload(text.into()))
    }
}

/// Reads the text without recursion and without keeping anything.
fn check_syntax(text: &str) -> Result<(), PayloadError> {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return Ok(()) };
    let before: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default().to_owned();
    Err(PayloadError::Syntax { offset: before + error.column(), reason })
}

#[cfg(test)]
mod tests;
