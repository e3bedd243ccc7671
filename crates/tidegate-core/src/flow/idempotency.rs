//! Idempotency: one run per key and period, however often the event arrives.
//!
//! The first event of a key takes the claim; later ones are dropped until the period ends, even
//! after the run has ended. The event itself is still recorded and still wakes waiting runs.
//!
//! Acts on arrival. On overflow: drop as deduped. Remembers one claim per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    claim,
    control::{Control, Field, FieldType, Moment},
    key_source::KeySource,
    plan::Candidate,
    verdict::{By, Verdict},
    written,
};
use crate::{
    definition::{Definition, Fields, Reported},
    draft::{Decided, Draft, Stop},
    id::RunId,
    key::{Key, Scalar},
    row::{Class, GateKey, Scope, Workspace},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "idempotency",
    purpose: "one run per key and period",
    acts: Moment::Arrival,
    on_overflow: "drop as deduped",
    fields: &[
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("periodMs", FieldType::Duration, "86400000"),
    ],
    classes: &[Class::Idempotency],
    read: |reading, value| {
        reading.definition.idempotency = reading.object(&CONTROL, value, Idempotency::read);
    },
    write: |definition| definition.idempotency.as_ref().map(Idempotency::to_value),
    keys: |definition| definition.idempotency.iter().map(|it| it.key.as_ref()).collect(),
    ..Control::NONE
};

/// Row in the table of controls for the claims of `dedupeId`, which is a field of an event.
pub(super) const DEDUPE_ID: Control =
    Control { name: "dedupeId", classes: &[Class::Dedupe], ..Control::NONE };

/// Lifetime of the claim of a `dedupeId`: 24 hours.
pub const DEDUPE_MS: u64 = 24 * 60 * 60 * 1000;

/// The `idempotency` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idempotency {
    /// The key, with one claim per value; one claim for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// The lifetime of a claim.
    pub period_ms: u64,
}

/// Default of `periodMs`: 24 hours, as for `dedupeId`.
const DEFAULT_PERIOD_MS: u64 = 24 * 60 * 60 * 1000;

impl Idempotency {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Idempotency, Reported> {
        let key = fields.key("key");
        let period_ms = fields.optional_duration("periodMs");
        Ok(Idempotency { key: key?, period_ms: period_ms?.unwrap_or(DEFAULT_PERIOD_MS) })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("periodMs", json!(DEFAULT_PERIOD_MS))])
    }
}

/// Returns the lifetime of claims of this class; none if the definition does not have the control.
pub(super) fn period_ms(class: Class, definition: Option<&Definition>) -> Option<u64> {
    if class == Class::Dedupe {
        return Some(DEDUPE_MS);
    }
    Some(definition?.idempotency.as_ref()?.period_ms)
}

/// Refuses an event whose idempotency key another event has claimed. Otherwise returns the key of
/// the claim to take; none if the control does not apply.
pub(super) fn check(draft: &Draft, candidate: &Candidate<'_>) -> Decided<Option<GateKey>, Verdict> {
    let idempotency = candidate.workflow().idempotency.as_ref();
    let Some(idempotency) = idempotency.filter(|_| candidate.arrives()) else { return Ok(None) };
    let scope = candidate.scope(Class::Idempotency, idempotency.key.as_ref())?;
    let Some(scope) = scope else { return Ok(None) };
    let key = GateKey::new(&scope);
    match claim::held(draft, &key)? {
        Some(held) => Err(Stop::Refused(Verdict::Deduped {
            by: By::scope(&scope),
            first: held.event,
            run: held.run,
        })),
        None => Ok(Some(key)),
    }
}

/// Takes the idempotency claim for a run.
pub(super) fn take(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    run: RunId,
) -> Decided<Option<GateKey>, Verdict> {
    let Some(key) = check(draft, candidate)? else { return Ok(None) };
    let period = candidate.workflow().idempotency.as_ref().map_or(0, |control| control.period_ms);
    claim::take(draft, key.clone(), candidate.event.id, Some(run), period)?;
    Ok(Some(key))
}

/// Returns the gate key of a `dedupeId`.
pub fn dedupe_key(ws: &Workspace, id: &str) -> GateKey {
    GateKey::new(&Scope {
        ws: ws.clone(),
        class: Class::Dedupe,
        app: String::new(),
        name: String::new(),
        slot: String::new(),
        key: Key::Value(Scalar::text(id.to_owned())),
    })
}
