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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::definition::Definition;

    // spec L27, A4
    #[test]
    fn a_gate_that_runs_do_not_have_is_refused_with_the_fix() {
        let limit = json!({ "limit": 1 });
        let rate = json!({ "limit": 1, "perMs": 1 });
        let close = |gate: &str| json!({ "close": gate });
        for (controls, on, expected) in [
            (json!({ "concurrency": limit }), close("concurrency"), "ok"),
            (json!({ "throttle": rate }), close("throttle"), "ok"),
            (json!({ "concurrency": { "pool": "p" } }), close("pool:p"), "ok"),
            (
                json!({ "throttle": { "pool": "p" } }),
                json!({ "close": "pool:p", "maxCloseMs": 1 }),
                "ok",
            ),
            (
                json!({ "throttle": rate }),
                close("concurrency"),
                "onTooMany.close names the concurrency limit, but there is none: add \
                 `concurrency`, or close `throttle`",
            ),
            (
                json!({ "concurrency": { "pool": "p" } }),
                close("throttle"),
                "onTooMany.close names the throttle, but there is none",
            ),
            (
                json!({ "rateLimit": { "pool": "p" } }),
                close("pool:p"),
                "names pool `p`, of which runs pass no throttle and no concurrency",
            ),
            (
                json!({}),
                close("pool:"),
                "onTooMany.close must be `throttle`, `concurrency` or `pool:` and the name of a \
                 pool, got `pool:`",
            ),
            (json!({}), json!({}), "onTooMany.close is required"),
            (json!({}), json!({ "close": "throttle", "maxCloseMs": 0 }), "onTooMany.maxCloseMs"),
            (json!({}), json!({ "until": 1 }), "onTooMany.until is not known"),
        ] {
            let mut value = json!({ "name": "w", "url": "http://h", "onTooMany": on });
            value.as_object_mut().unwrap().extend(controls.as_object().unwrap().clone());
            let found = match Definition::parse(&value) {
                Ok(parsed) => {
                    let again = Definition::parse(&parsed.value.to_value()).unwrap();
                    assert_eq!(again.value, parsed.value);
                    let stored = serde_json::to_value(&parsed.value).unwrap();
                    let read: Definition = serde_json::from_value(stored).unwrap();
                    assert_eq!(read, parsed.value);
                    "ok".to_owned()
                }
                Err(errors) => errors.to_string(),
            };
            assert!(found.contains(expected), "{value}: {found}");
        }
        let no_url = json!({ "name": "w", "throttle": rate, "onTooMany": close("throttle") });
        let warnings = Definition::parse(&no_url).unwrap().warnings;
        let rule = "has no effect without `url`, whose responses it reads";
        assert_eq!(warnings.iter().map(|it| &*it.message).collect::<Vec<_>>(), [rule]);
    }
}
