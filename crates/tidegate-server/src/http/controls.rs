//! `GET /controls`: the table of controls, the same for all workspaces.

use axum::Json;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_core::flow::{CONTROLS, Control, gate_owners};

use super::{
    operation::Operation,
    schema::{flag, list as many, object, of, string},
};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let shape = object([("controls", many(of("Control"))), ("gates", many(string()))]);
    vec![
        Operation::get("/controls", "listControls", list)
            .says("List the controls with their fields, in the order in which they act.")
            .answers(200, "The controls, and the names of all controls that have gates.", shape),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    // The name of a type, or the words of which the field takes one.
    let kind = json!({ "anyOf": [string(), many(string())] });
    let field = object([("name", string()), ("type", kind), ("default?", string())]);
    let control = [
        ("name", string()),
        ("purpose", string()),
        ("acts", string()),
        ("onOverflow", string()),
        ("fields", many(field)),
        ("onActions", flag()),
    ];
    vec![("Control", object(control))]
}

/// The table.
#[derive(Debug, Serialize)]
pub(super) struct Controls {
    controls: &'static [Control],
    /// The names that gates and receipts have: those of the controls above that have gates, and of
    /// controls that no field of a definition is named after.
    gates: Vec<&'static str>,
}

async fn list() -> Json<Controls> {
    Json(Controls { controls: &CONTROLS, gates: gate_owners() })
}
