//! Tests that the form of stored data has not changed. It is recorded in files in this folder:
//! tables and columns, one row of every kind with every field, every variant of every enum,
//! definitions, verdicts, stored replies and the bytes of gate keys. If a test fails, the databases
//! of users have data in the old form: the change needs a migration, or code that also reads the
//! old form.
//!
//! `crates/tidegate/tests/old_databases` checks that old databases can be read; the tests here show
//! which name has changed.

mod definitions;
mod migrations;
mod replies;
mod words;

use expect_test::{ExpectFile, expect_file};
use serde_json::{Map, Value, json};
use tidegate_core::row::{Class, GateKey, Row, RowKind, Scope};
use tidegate_store::codec::{Cell, ColumnType, Table, cells};
use tidegate_testkit::sample::{self, FREE_TEXT, NAME};

/// Maximum length of a text in the files. Longer texts are replaced by their beginning and length.
const LONGEST: usize = 100;

/// Compares a value with a file, which has one field or element per line.
fn assert_same(file: ExpectFile, value: &Value) {
    let text = serde_json::to_string_pretty(value).expect("a JSON value can be formatted");
    file.assert_eq(&(text + "\n"));
}

#[test]
fn the_tables_and_columns_are_the_agreed_ones() {
    let lines = RowKind::ALL.map(Table::of).map(|table| {
        let columns = table.columns.iter().enumerate().map(|(n, (name, kind))| {
            let kind = match kind {
                ColumnType::Int => "int",
                ColumnType::Text => "text",
                ColumnType::Bytes => "bytes",
            };
            let key = if n < table.key_len { " key" } else { "" };
            format!("  {name} {kind}{key}\n")
        });
        format!("{}\n{}", table.name, columns.collect::<String>())
    });
    expect_file!["tables.txt"].assert_eq(&lines.concat());
}

/// Compares the columns of every sample row with a file. Columns with JSON text are shown as JSON.
#[test]
fn the_rows_are_written_as_agreed() {
    let mut tables: Map<String, Value> = Map::new();
    for row in sample::every_row() {
        let table = tables.entry(Table::of(row.kind()).name).or_insert_with(|| json!([]));
        table.as_array_mut().expect("the entry is an array").push(columns(&row));
    }
    assert_same(expect_file!["rows.json"], &Value::Object(tables));
}

/// Compares the bytes of a gate key with a file, for each class of gate.
#[test]
fn the_keys_of_gates_are_written_as_agreed() {
    let keys = Class::ALL.map(|class| {
        let scope = sample::gate_key("main", "k").scope().expect("the sample key is valid");
        let key = GateKey::new(&Scope { class, ..scope });
        format!("{} {} {}\n", class as u8, class.control(), json!(key))
    });
    expect_file!["gate_keys.txt"].assert_eq(&keys.concat());
}

fn columns(row: &Row) -> Value {
    let names = Table::of(row.kind()).columns.iter().map(|(name, _)| (*name).to_owned());
    names.zip(cells(row).into_iter().map(shown)).collect::<Map<_, _>>().into()
}

fn shown(cell: Cell) -> Value {
    match cell {
        Cell::Int(number) => json!(number),
        // Serialized as a gate key, because that writes bytes in hex.
        Cell::Bytes(bytes) => short(json!(bytes.as_deref().map(GateKey::from_bytes))),
        Cell::Text(None) => Value::Null,
        Cell::Text(Some(text)) => match serde_json::from_str(&text) {
            Ok(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => short(value),
            _ => short(json!(text)),
        },
    }
}

/// Shortens long texts, and replaces the special names and texts of the samples.
fn short(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > LONGEST => {
            let start: String = text.chars().take(20).collect();
            json!(format!("{start}… {} bytes", text.len()))
        }
        Value::String(text) => json!(text.replace(NAME, "a name").replace(FREE_TEXT, "a text")),
        Value::Array(values) => values.into_iter().map(short).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                (name.replace(NAME, "a name").replace(FREE_TEXT, "a text"), short(value))
            });
            fields.collect::<Map<_, _>>().into()
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}
