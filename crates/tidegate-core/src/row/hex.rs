//! Stored form of bytes: their hexadecimal digits, which are written as one text. Rows of earlier
//! builds have an array of numbers.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{
    Deserializer, Serializer,
    de::{Error, SeqAccess, Visitor},
};

pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&HEXLOWER.encode(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    from.deserialize_any(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hexadecimal digits")
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<Vec<u8>, E> {
        HEXLOWER.decode(digits.as_bytes()).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Stored(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn bytes_are_written_as_digits_and_read_in_both_forms() {
        let bytes = Stored(vec![0, 160, 255]);
        assert_eq!(serde_json::to_string(&bytes).unwrap(), r#""00a0ff""#);
        for text in [r#""00a0ff""#, "[0, 160, 255]"] {
            assert_eq!(serde_json::from_str::<Stored>(text).unwrap(), bytes, "{text}");
        }
        for text in [r#""0""#, r#""zz""#, "[256]", "7"] {
            assert!(serde_json::from_str::<Stored>(text).is_err(), "{text}");
        }
    }
}
