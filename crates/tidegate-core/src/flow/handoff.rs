//! Handoff: pass the work from one version of a workflow to the next.
//!
//! At most one run is active, per workflow or per key. When the first run of a newer version
//! arrives, the older runs are cancelled (`supersede`), finish first (`drain`) or are left alone
//! (`coexist`). Within one version a second run waits.
//!
//! Acts when the run is created. On overflow: as `onNewVersion` of the new definition says.
//! Remembers the holder and its version per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    batch::run_of_many,
    control::{Control, Field, FieldType, Moment, Reading},
    key_source::KeySource,
    plan::{Candidate, GateStep, Plan, WhenFull},
    queue::{Bounded, Queue},
    verdict::{By, Verdict},
};
use crate::{
    catalog::Limit,
    definition::{Code, Fields, Reported, Trigger},
    draft::{Decided, Draft, Stop},
    id::RunId,
    key::Key,
    row::{Class, GateState, Span},
    run::end,
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "handoff",
    purpose: "pass the work from one version to the next",
    acts: Moment::Creation,
    on_overflow: "supersede, drain or coexist",
    fields: &[
        Field::required("type", FieldType::OneOf(&["singleton", "keyed"])),
        Field::optional("keyField", FieldType::Key, "none, which `keyed` refuses"),
        Field::required("onNewVersion", FieldType::OneOf(&["supersede", "drain", "coexist"])),
        Field::optional("queue", FieldType::Queue, "no bound"),
    ],
    classes: &[Class::Handoff],
    // A release that adds the control makes every live run a holder.
    may_exceed: true,
    read: |reading, value| {
        reading.definition.handoff = reading.object(&CONTROL, value, Handoff::read);
    },
    write: |definition| definition.handoff.as_ref().map(Handoff::to_value),
    keys: |definition| definition.handoff.iter().map(Handoff::key).collect(),
    requires_key: true,
    key_field: "keyField",
    check,
    plan,
    limit: |_, _, _| Limit::Slots(1),
    queue: |definition, _| definition.handoff.as_ref()?.queue.map(Bounded::of_one),
    ..Control::NONE
};

/// The `handoff` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// The scope in which one run is active.
    pub scope: HandoffScope,
    /// The rule for older runs.
    pub on_new_version: OnNewVersion,
    /// The bound of the queue; none if any number of runs may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}

/// Scope in which at most one run is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HandoffScope {
    /// The whole workflow.
    Singleton,
    /// Each value of the key; an event without a value is refused.
    Keyed(KeySource),
}

/// Rule for older runs when the first run of a newer version arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnNewVersion {
    /// Older runs are cancelled, and the new run starts.
    Supersede,
    /// Older runs finish, and the new run waits for them.
    Drain,
    /// Older runs continue, and the new run starts at the same time.
    Coexist,
}

/// The words that an author writes for [`OnNewVersion`].
const WORDS: [(&str, OnNewVersion); 3] = [
    ("supersede", OnNewVersion::Supersede),
    ("drain", OnNewVersion::Drain),
    ("coexist", OnNewVersion::Coexist),
];

impl Handoff {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Handoff, Reported> {
        let keyed = fields
            .word("type", &[("singleton", false), ("keyed", true)])
            .and_then(|word| word.ok_or_else(|| fields.missing("type", "`singleton` or `keyed`")));
        let key = fields.key("keyField");
        let on_new_version = fields.word("onNewVersion", &WORDS).and_then(|word| {
            word.ok_or_else(|| fields.missing("onNewVersion", "`supersede`, `drain` or `coexist`"))
        });
        let queue = Queue::read(fields);
        let scope = match (keyed?, key?) {
            (false, None) => HandoffScope::Singleton,
            (true, Some(key)) => HandoffScope::Keyed(key),
            (true, None) => {
                return Err(fields.missing("keyField", "type `keyed` needs the path of its key"));
            }
            (false, Some(key)) => {
                let fix = "drop it or write type `keyed`";
                let message = format!("is not allowed with type `singleton`, got `{key}`: {fix}");
                return Err(fields.error(Code::Conflict, "keyField", message));
            }
        };
        Ok(Handoff { scope, on_new_version: on_new_version?, queue: queue? })
    }

    pub(crate) fn to_value(&self) -> Value {
        let word = serde_json::to_value(self.on_new_version).expect("a word is serializable");
        let mut value = match &self.scope {
            HandoffScope::Singleton => json!({"type": "singleton", "onNewVersion": word}),
            HandoffScope::Keyed(key) => {
                json!({"type": "keyed", "keyField": key, "onNewVersion": word})
            }
        };
        if let Some(queue) = self.queue {
            value["queue"] = queue.to_value();
        }
        value
    }

    /// Returns the path of the key, if there is one.
    pub fn key(&self) -> Option<&KeySource> {
        match &self.scope {
            HandoffScope::Singleton => None,
            HandoffScope::Keyed(key) => Some(key),
        }
    }
}

/// Reports a keyed handoff in a definition with a cron trigger, whose events have no key.
fn check(reading: &mut Reading<'_>) {
    let Some(handoff) = &reading.definition.handoff else { return };
    if let Some(queue) = handoff.queue {
        let many = run_of_many(&reading.definition).map(|(noun, _)| noun);
        queue.check(CONTROL.name, false, many, reading.problems);
    }
    let triggers = &reading.definition.triggers;
    let cron = triggers.iter().any(|trigger| matches!(trigger, Trigger::Cron { .. }));
    if let HandoffScope::Keyed(key) = &handoff.scope
        && cron
    {
        let fix = "use type `singleton`, or drop the cron trigger";
        let message = format!("`{key}` is never in the data of a cron trigger: {fix}");
        reading.problems.error(Code::Conflict, "handoff.keyField", message);
    }
}

fn plan(candidate: &Candidate<'_>, plan: &mut Plan) -> Decided<(), Verdict> {
    let Some(handoff) = &candidate.workflow().handoff else { return Ok(()) };
    let Some(mut scope) = candidate.scope(Class::Handoff, handoff.key())? else { return Ok(()) };
    if let (Some(key), Key::Missing) = (handoff.key(), &scope.key) {
        let reason = format!("the required key `{key}` is missing from the data");
        return Err(Stop::Refused(Verdict::Rejected { control: CONTROL.name, reason }));
    }
    let version = &candidate.current.version;
    let tier = match handoff.on_new_version {
        // Queued runs of older releases have a lower tier and come first: with `drain` they finish,
        // with `supersede` they move to this version and keep their positions.
        OnNewVersion::Drain | OnNewVersion::Supersede => version.release.unwrap_or(0),
        OnNewVersion::Coexist => {
            scope.slot = format!("{}@{}", scope.slot, version.number);
            0
        }
    };
    plan.add_in_tier(&scope, Span::Run, tier, WhenFull::Wait);
    plan.bound(handoff.queue);
    Ok(())
}

/// Applies `onNewVersion` of the new definition to the runs of other versions at the handoff gate.
///
/// `supersede` cancels the runs that have started and moves the others to the new version. `drain`
/// and `coexist` need no change here: they only decide the queue and the tier of the new run, which
/// are in its plan. Returns the first cancelled run: the new run replaces it.
pub fn meet(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    steps: &[GateStep],
    newcomer: RunId,
) -> Decided<Option<(By, RunId)>, Verdict> {
    let policy = candidate.workflow().handoff.as_ref().map(|handoff| handoff.on_new_version);
    let gate = steps.iter().find(|step| step.planned.gate.class() == Some(Class::Handoff));
    let (Some(OnNewVersion::Supersede), Some(step)) = (policy, gate) else { return Ok(None) };
    let version = &candidate.current.version;
    let Some(gate) = draft.gate(&step.planned.gate)? else { return Ok(None) };
    let mut gate = gate.clone();
    let GateState::Slots(slots) = &mut gate.state else { return Ok(None) };
    let holds = slots.holders.clone();
    // A new run may have an older release, if it is a retry: queued runs still move to the newest.
    slots.moved_to = slots.moved_to.max(version.release);
    draft.put(gate);
    let catalog = draft.catalog(&candidate.ws)?;
    let mut superseded = None;
    for hold in holds.into_iter().filter(|hold| !hold.draining) {
        let Some(mut run) = draft.run(hold.run.seq)?.cloned() else { continue };
        let release = catalog.lane(run.lane).and_then(|version| version.release);
        if release >= version.release {
            continue;
        }
        if run.keeps_version() {
            superseded = superseded.or_else(|| Some((By::from(step), run.id)));
            let reason = format!("superseded by version {}", version.number);
            end::cancel(draft, run, reason, Some(newcomer))?;
        } else {
            run.set_version(version);
            draft.put(run);
        }
    }
    Ok(superseded)
}
