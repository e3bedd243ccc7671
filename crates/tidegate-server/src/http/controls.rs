//! `GET /controls`: the table of controls, the same for all workspaces.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::flow::{CONTROLS, Control, gate_owners};

use super::operation::Operation;

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/controls", "listControls", list)
            .says("List the controls with their fields, in the order in which they act.")
            .answers::<Controls>(
                200,
                "The controls, and the names of all controls that have gates.",
            ),
    ]
}

/// The table of controls.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Controls {
    controls: &'static [Control],
    /// Names of controls in gates and receipts: the controls above that have gates, and those
    /// without a field in definitions.
    gates: Vec<&'static str>,
}

async fn list() -> Json<Controls> {
    Json(Controls { controls: &CONTROLS, gates: gate_owners() })
}
