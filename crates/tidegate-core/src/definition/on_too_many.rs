//! `onTooMany`: the gate that a refusal of the called service closes (spec L27).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::Definition;
use crate::{
    definition::{Code, Fields, Problems, Reported},
    flow::{
        close::{GateToClose, MAX_CLOSE_MS},
        pool::Part,
    },
};

/// The setting `onTooMany`: what a response 429 or 503 with `Retry-After` closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnTooMany {
    /// The gate.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub close: GateToClose,
    /// The longest time that it stays closed for one response.
    #[serde(default = "max_close_ms", skip_serializing_if = "is_default")]
    pub max_close_ms: u64,
}

fn max_close_ms() -> u64 {
    MAX_CLOSE_MS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default(ms: &u64) -> bool {
    *ms == MAX_CLOSE_MS
}

fn write<S: Serializer>(gate: &GateToClose, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&gate.to_text())
}

fn read<'de, D: Deserializer<'de>>(from: D) -> Result<GateToClose, D::Error> {
    let text = String::deserialize(from)?;
    GateToClose::parse(&text)
        .ok_or_else(|| serde::de::Error::custom(format!("`{text}` names no gate")))
}

impl OnTooMany {
    /// Reads `{close, maxCloseMs?}`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Option<OnTooMany>, Reported> {
        let Some(value) = fields.get("onTooMany") else { return Ok(None) };
        let known = ["close", "maxCloseMs"];
        let mut inner = Fields::open(value, "onTooMany", &known, fields.problems())?;
        let rule = "`throttle`, `concurrency` or `pool:` and the name of a pool";
        let close = match inner.text("close") {
            Ok(Some(text)) => GateToClose::parse(text).ok_or_else(|| {
                inner.error(Code::UnknownValue, "close", format!("must be {rule}, got `{text}`"))
            }),
            Ok(None) => Err(inner.missing("close", rule)),
            Err(reported) => Err(reported),
        };
        let max_close_ms = inner.optional_duration("maxCloseMs")?;
        let max_close_ms = max_close_ms.unwrap_or(MAX_CLOSE_MS);
        Ok(Some(OnTooMany { close: close?, max_close_ms }))
    }

    /// Returns the author's form.
    pub(super) fn to_value(&self) -> Value {
        json!(self)
    }
}

/// Reports a gate that runs of the definition do not have.
pub(super) fn check(workflow: &Definition, problems: &mut Problems) {
    let Some(on) = &workflow.on_too_many else { return };
    if workflow.url.is_none() {
        let message = "has no effect without `url`, whose responses it reads";
        problems.warn(Code::NoEffect, "onTooMany", message);
    }
    let uses =
        |pool: &str| workflow.pools.iter().any(|it| it.pool == *pool && it.part != Part::RateLimit);
    let message = match &on.close {
        GateToClose::Throttle if workflow.throttle.is_empty() => {
            "names the throttle, but there is none: add `throttle`, or close `concurrency`".into()
        }
        GateToClose::Concurrency if workflow.concurrency.is_empty() => {
            "names the concurrency limit, but there is none: add `concurrency`, or close `throttle`"
                .into()
        }
        GateToClose::Pool(pool) if !uses(pool) => format!(
            "names pool `{pool}`, of which runs pass no throttle and no concurrency: add \
             `{{\"pool\": \"{pool}\"}}` to one of them"
        ),
        GateToClose::Throttle | GateToClose::Concurrency | GateToClose::Pool(_) => return,
    };
    problems.error(Code::Conflict, "onTooMany.close", message);
}
