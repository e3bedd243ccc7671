//! Typed events: an enum whose variant names are the names of the events.
//!
//! Events use the default representation of serde (externally tagged): `Deposited { amount: 5 }` is
//! the event `Deposited` with the data `{"amount":5}`, and a variant without fields has the data
//! `null`.

use std::fmt;

use serde::{
    Deserializer, Serialize,
    de::{DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};
use tidegate_core::{
    json::{MAX_EVENT_BYTES, Payload},
    stream::NewLogged,
};

use crate::{api::payload, error::Error};

/// Converts an event to the name and the data that a stream stores.
pub fn name_and_data<E: Serialize>(event: &E) -> Result<(String, Payload), Error> {
    let text = serde_json::to_string(event).map_err(|error| Error::Value(error.to_string()))?;
    let parts = match text.as_bytes() {
        [b'"', ..] => serde_json::from_str(&text).ok().map(|name| (name, Payload::null())),
        [b'{', .., b'}'] => tagged(&text[1..text.len() - 1])?,
        _ => None,
    };
    parts.ok_or_else(|| {
        let of = std::any::type_name::<E>();
        Error::Value(format!(
            "an event must be an enum that serde tags externally (the default), got {of} as {text}"
        ))
    })
}

/// Creates an event that is named at run time, for [`Streams::commit`](crate::Streams::commit).
pub fn new(name: impl Into<String>, data: impl Serialize) -> Result<NewLogged, Error> {
    Ok(NewLogged { name: name.into(), data: payload(data)?, meta: Payload::null() })
}

/// Creates an event from a typed one, for [`Streams::commit`](crate::Streams::commit).
pub fn of<E: Serialize>(event: &E) -> Result<NewLogged, Error> {
    let (name, data) = name_and_data(event)?;
    Ok(NewLogged { name, data, meta: Payload::null() })
}

/// Deserializes an event from its name and data.
pub fn read<E: DeserializeOwned>(name: &str, data: &Payload) -> Result<E, Error> {
    let unreadable = |reason: String| {
        let of = std::any::type_name::<E>();
        Error::Value(format!("event `{name}` cannot be read as {of}: {reason}"))
    };
    if let Some(names) = names::<E>()
        && !names.contains(&name)
    {
        let known = format!("the type has no such variant, only {}", names.join(", "));
        return Err(unreadable(known));
    }
    let tag = serde_json::to_string(name).map_err(|error| unreadable(error.to_string()))?;
    let text = format!("{{{tag}:{}}}", data.as_str());
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}

/// Returns the names of the events that a type can read; `None` for a type that is not a plain
/// enum.
pub fn names<E: DeserializeOwned>() -> Option<&'static [&'static str]> {
    E::deserialize(Asking).err().and_then(|Asked(names)| names)
}

/// Splits `"Name":data` into name and data, if nothing follows.
fn tagged(inner: &str) -> Result<Option<(String, Payload)>, Error> {
    let mut parts = serde_json::Deserializer::from_str(inner).into_iter::<String>();
    let Some(Ok(name)) = parts.next() else { return Ok(None) };
    let Some(data) = inner[parts.byte_offset()..].strip_prefix(':') else { return Ok(None) };
    match Payload::parse(data.as_bytes(), MAX_EVENT_BYTES) {
        Ok(data) => Ok(Some((name, data))),
        // More follows: the value is a struct with several fields, or an enum with an internal tag.
        Err(tidegate_core::json::PayloadError::Syntax { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Deserializer that reads no data. It only records which enum variants a type expects.
struct Asking;

/// Enum variants that a type expects; `None` if it is not an enum.
#[derive(Debug)]
struct Asked(Option<&'static [&'static str]>);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing to read")
    }
}

impl std::error::Error for Asked {}

impl serde::de::Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }
}

impl<'de> Deserializer<'de> for Asking {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(None))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(Some(variants)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Event {
        Opened,
        Deposited {
            amount: u64,
        },
        Named(Option<String>),
        Moved(i64, i64),
        #[serde(rename = "account \"closed\"")]
        Closed(Vec<Event>),
    }

    #[test]
    fn a_variant_is_an_event_and_comes_back_as_it_was() {
        let table = [
            (Event::Opened, "Opened", "null"),
            (
                Event::Deposited { amount: u64::MAX },
                "Deposited",
                r#"{"amount":18446744073709551615}"#,
            ),
            (Event::Named(None), "Named", "null"),
            (Event::Named(Some("a:}".into())), "Named", r#""a:}""#),
            (Event::Moved(-1, 2), "Moved", "[-1,2]"),
            (Event::Closed(vec![Event::Opened]), "account \"closed\"", r#"["Opened"]"#),
        ];
        for (event, name, data) in table {
            let (found, payload) = name_and_data(&event).unwrap();
            assert_eq!((&*found, payload.as_str()), (name, data));
            assert_eq!(read::<Event>(name, &payload).unwrap(), event);
        }
    }

    #[test]
    fn what_is_no_enum_is_no_event() {
        #[derive(Serialize)]
        struct Two {
            a: u8,
            b: u8,
        }
        #[derive(Serialize)]
        #[serde(tag = "type")]
        enum Inside {
            A { a: u8 },
        }
        let two = name_and_data(&Two { a: 1, b: 2 }).unwrap_err().to_string();
        assert!(two.ends_with(r#"Two as {"a":1,"b":2}"#), "{two}");
        let inside = name_and_data(&Inside::A { a: 1 }).unwrap_err().to_string();
        assert!(inside.ends_with(r#"Inside as {"type":"A","a":1}"#), "{inside}");
        assert!(name_and_data(&7).unwrap_err().to_string().ends_with("i32 as 7"));
    }

    #[test]
    fn an_unknown_name_and_bad_data_are_told_apart() {
        let unknown = read::<Event>("Burnt", &Payload::null()).unwrap_err().to_string();
        assert!(unknown.contains("event `Burnt` cannot be read as"), "{unknown}");
        assert!(unknown.contains("no such variant, only Opened, Deposited,"), "{unknown}");
        let bad = read::<Event>("Deposited", &Payload::null()).unwrap_err().to_string();
        assert!(bad.contains("invalid type: null"), "{bad}");
    }

    #[test]
    fn a_type_says_which_events_it_reads() {
        assert_eq!(names::<Event>().map(<[_]>::len), Some(5));
        assert_eq!(names::<u8>(), None);
    }
}
