//! Kinds of columns: how a field of a row is converted to a cell, and a cell to a field.
//!
//! A kind is a module with the `TYPE` of the column, `write` and `read`. `schema.rs` names a kind
//! for each column.

#![expect(clippy::ref_option, reason = "`schema.rs` passes references to fields")]

use std::sync::Arc;

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value},
};
use tidegate_core::{
    id::Seq,
    json::Payload,
    row::{EngineId, GateKey, Workspace},
    time::Timestamp,
};

use super::{Cell, ColumnType, cells::Cells, engine_text};
use crate::StoreError;

/// Defines kinds, each with its column type and the functions `write` and `read`.
macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ident {
            write$(<$written_type:ident: $written_bound:ident>)?($written:ident: $field:ty)
                $write:block
            read$(<$read_type:ident: $read_bound:ident>)?($cells:ident) -> $value:ty
                $read:block
        }
    )+) => {
        $(
            $(#[$doc])*
            pub(crate) mod $name {
                use super::*;

                pub(crate) const TYPE: ColumnType = ColumnType::$type;

                pub(crate) fn write$(<$written_type: $written_bound>)?($written: $field) -> Cell {
                    $write
                }

                pub(crate) fn read$(<$read_type: $read_bound>)?(
                    $cells: &mut Cells,
                ) -> Result<$value, StoreError> {
                    $read
                }
            }
        )+
    };
}

kinds! {
    /// Number.
    int: Int {
        write(number: &i64) { Cell::Int(Some(*number)) }
        read(cells) -> i64 { cells.int() }
    }

    /// Number, or null.
    maybe_int: Int {
        write(number: &Option<i64>) { Cell::Int(*number) }
        read(cells) -> Option<i64> { cells.maybe_int() }
    }

    /// Number of 32 bits.
    small: Int {
        write(number: &u32) { Cell::Int(Some((*number).into())) }
        read(cells) -> u32 { cells.small() }
    }

    /// Number of 32 bits, or null.
    maybe_small: Int {
        write(number: &Option<u32>) { Cell::Int(number.map(i64::from)) }
        read(cells) -> Option<u32> { cells.maybe_small() }
    }

    /// 0 or 1.
    flag: Int {
        write(flag: &bool) { Cell::Int(Some((*flag).into())) }
        read(cells) -> bool { cells.flag() }
    }

    /// 0, 1 or null.
    maybe_flag: Int {
        write(flag: &Option<bool>) { Cell::Int(flag.map(i64::from)) }
        read(cells) -> Option<bool> { cells.maybe_flag() }
    }

    /// Sequence number.
    seq: Int {
        write(seq: &Seq) { Cell::Int(Some(seq.0)) }
        read(cells) -> Seq { cells.int().map(Seq) }
    }

    /// Salt (the random half of an id), as a signed number with the same bits.
    salt: Int {
        write(salt: &u64) { Cell::Int(Some(salt.cast_signed())) }
        read(cells) -> u64 { cells.int().map(i64::cast_unsigned) }
    }

    /// Time in microseconds.
    time: Int {
        write(time: &Timestamp) { Cell::Int(Some(time.micros())) }
        read(cells) -> Timestamp { cells.int().map(Timestamp::from_micros) }
    }

    /// Time in microseconds, or null.
    maybe_time: Int {
        write(time: &Option<Timestamp>) { Cell::Int(time.map(Timestamp::micros)) }
        read(cells) -> Option<Timestamp> { Ok(cells.maybe_int()?.map(Timestamp::from_micros)) }
    }

    /// Text without NUL.
    text: Text {
        write(text: &str) { Cell::Text(Some(text.to_owned())) }
        read(cells) -> String { cells.text() }
    }

    /// Text without NUL, or null.
    maybe_text: Text {
        write(text: &Option<String>) { Cell::Text(text.clone()) }
        read(cells) -> Option<String> { cells.maybe_text() }
    }

    /// Text without NUL that is computed from the row, not copied from a field.
    owned_text: Text {
        write(text: String) { Cell::Text(Some(text)) }
        read(cells) -> String { cells.text() }
    }

    /// Name of a workspace.
    workspace: Text {
        write(name: &str) { Cell::Text(Some(name.to_owned())) }
        read(cells) -> Workspace { cells.text().map(Arc::from) }
    }

    /// Bytes.
    bytes: Bytes {
        write(bytes: &[u8]) { Cell::Bytes(Some(bytes.to_vec())) }
        read(cells) -> Vec<u8> { cells.bytes() }
    }

    /// Key of a gate.
    gate_key: Bytes {
        write(key: &GateKey) { Cell::Bytes(Some(key.as_bytes().to_vec())) }
        read(cells) -> GateKey { Ok(GateKey::from_bytes(&cells.bytes()?)) }
    }

    /// Id of an engine.
    engine: Text {
        write(id: &EngineId) { Cell::Text(Some(engine_text(*id))) }
        read(cells) -> EngineId {
            let id = maybe_engine::read(cells)?;
            id.ok_or_else(|| cells.corrupt("expected an engine's id, got null"))
        }
    }

    /// Id of an engine, or null.
    maybe_engine: Text {
        write(id: &Option<EngineId>) { Cell::Text(id.map(engine_text)) }
        read(cells) -> Option<EngineId> {
            let Some(text) = cells.maybe_text()? else { return Ok(None) };
            match EngineId::from_str_radix(&text, 16) {
                Ok(id) => Ok(Some(id)),
                Err(_) => Err(cells.corrupt(&format!("expected 32 hex digits, got `{text}`"))),
            }
        }
    }

    /// Payload, stored byte for byte.
    payload: Text {
        write(payload: &Payload) { Cell::Text(Some(payload.as_str().to_owned())) }
        read(cells) -> Payload {
            let payload = maybe_payload::read(cells)?;
            payload.ok_or_else(|| cells.corrupt("expected JSON, got null"))
        }
    }

    /// Payload, stored byte for byte, or null.
    maybe_payload: Text {
        write(payload: &Option<Payload>) {
            Cell::Text(payload.as_ref().map(|payload| payload.as_str().to_owned()))
        }
        read(cells) -> Option<Payload> {
            let Some(text) = cells.maybe_text()? else { return Ok(None) };
            parse_payload(text).map(Some).map_err(|error| cells.corrupt(&error))
        }
    }

    /// Value as JSON.
    json: Text {
        write<T: Serialize>(value: &T) { Cell::Text(Some(json_text(value))) }
        read<T: DeserializeOwned>(cells) -> T {
            let value = maybe_json::read(cells)?;
            value.ok_or_else(|| cells.corrupt("expected JSON, got null"))
        }
    }

    /// Value as JSON, or null.
    maybe_json: Text {
        write<T: Serialize>(value: &Option<T>) { Cell::Text(value.as_ref().map(json_text)) }
        read<T: DeserializeOwned>(cells) -> Option<T> {
            let Some(text) = cells.maybe_text()? else { return Ok(None) };
            serde_json::from_str(&text).map(Some).map_err(|error| cells.corrupt(&error.to_string()))
        }
    }

    /// Value of an enum without fields, stored as its name.
    word: Text {
        write<T: Serialize>(value: &T) {
            match serde_json::to_value(value) {
                Ok(serde_json::Value::String(word)) => Cell::Text(Some(word)),
                other => panic!("an enum without fields is written as a string, got {other:?}"),
            }
        }
        read<T: DeserializeOwned>(cells) -> T {
            let word = serde_json::Value::String(cells.text()?);
            serde_json::from_value(word).map_err(|error| cells.corrupt(&error.to_string()))
        }
    }

    /// Number or null that only statements and indexes use; its value is not read into the row.
    index_int: Int {
        write(number: impl Into<Option<i64>>) { Cell::Int(number.into()) }
        read(cells) -> Unread { cells.maybe_int().map(|_| Unread) }
    }

    /// Text or null that only statements and indexes use; its value is not read into the row.
    index_text: Text {
        write(text: impl Into<Option<String>>) { Cell::Text(text.into()) }
        read(cells) -> Unread { cells.maybe_text().map(|_| Unread) }
    }
}

/// Placeholder for the value of a column that only statements and indexes use: the value can be
/// computed from the other columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread;

/// Returns a value as JSON text.
pub(crate) fn json_text<T: Serialize>(value: &T) -> String {
    // Most bodies fit, so that few are copied while they grow.
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, value).expect("rows have string keys and finite numbers only");
    String::from_utf8(text).expect("JSON is written as UTF-8")
}

/// Parses a payload without copying its text.
pub(crate) fn parse_payload(text: String) -> Result<Payload, String> {
    let text: value::StringDeserializer<value::Error> = text.into_deserializer();
    Payload::deserialize(text).map_err(|error| error.to_string())
}
