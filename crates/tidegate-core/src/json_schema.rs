//! JSON Schemas of the types that answers contain, for descriptions of an API (feature `schemars`).

use crate::{
    id::{ChoreId, EventId, RunId, ScheduleId},
    json::Payload,
    reaction::Source,
    row::GateKey,
    time::rfc3339::{OptionalTime, Time, Times},
};

/// Implements `JsonSchema` for types whose serialized form is written by hand.
macro_rules! json_schema {
    ($($name:ty => $schema:tt;)*) => {
        $(
            impl schemars::JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    schemars::json_schema!($schema)
                }
            }
        )*
    };
}

json_schema! {
    RunId => { "type": "string", "pattern": "^run_[0-9a-hjkmnp-tv-z]{26}$" };
    EventId => { "type": "string", "pattern": "^evt_[0-9a-hjkmnp-tv-z]{26}$" };
    ChoreId => { "type": "string", "pattern": "^chore_[0-9a-hjkmnp-tv-z]{26}$" };
    ScheduleId => { "type": "string", "pattern": "^sch_[0-9a-hjkmnp-tv-z]{26}$" };
    GateKey => { "type": "string", "pattern": "^([0-9a-f]{2})*$" };
    Source => { "type": "string" };
    Time => { "type": "string", "format": "date-time" };
    OptionalTime => { "type": ["string", "null"], "format": "date-time" };
    Times => { "type": "array", "items": { "type": "string", "format": "date-time" } };
    Payload => { "type": "string", "contentMediaType": "application/json" };
}
