//! The table of controls: one row for each file of a control.
//!
//! A control is one file: its settings and their checks, the gates it adds to a run's plan, its
//! limit, its decision, and its rules with other controls. It registers one [`Control`]. Parser,
//! gate plan, catalog, doctor, observer, release, API, console and book read this table. Code that
//! treats one kind of gate in a special way names the class of the gate, not the control.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    adaptive::Adaptive,
    batch, cancel_on, concurrency,
    cost::Cost,
    debounce, fair,
    fair::Fair,
    fold::Folding,
    handoff, idempotency,
    key_source::KeySource,
    pause,
    plan::{Candidate, Plan},
    policy,
    pool::{self, Part},
    priority,
    queue::Bounded,
    rate_limit, singleton, start_within, throttle,
    verdict::Verdict,
};
use crate::{
    catalog::Limit,
    definition::{Code, Definition, Fields, Kind, MAX_LIMITS, Problems, overlap},
    draft::Decided,
    row::{Class, Numbers, Scope},
};

/// One row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent properties")]
#[non_exhaustive]
pub struct Control {
    /// The field of a definition, and the word in answers, logs and console.
    pub name: &'static str,
    /// What an author uses the control for.
    pub purpose: &'static str,
    /// The moment at which the control decides.
    pub acts: Moment,
    /// What happens to a run or event that does not fit.
    pub on_overflow: &'static str,
    /// The fields of the control. A control whose value is not an object has one field, which has
    /// the name of the control.
    pub fields: &'static [Field],
    /// Whether the control is also allowed on actions.
    pub on_actions: bool,
    /// The classes of the control's gate rows.
    #[serde(skip)]
    pub(crate) classes: &'static [Class],
    /// Whether the limit is a number in the definition, so that a release can change the limit of
    /// existing gates.
    #[serde(skip)]
    pub(crate) is_numbered: bool,
    /// Whether a release may add holders beyond the limit.
    #[serde(skip)]
    pub(crate) may_exceed: bool,
    /// Reads the author's value into the definition.
    #[serde(skip)]
    pub(crate) read: fn(&mut Reading<'_>, &Value),
    /// Returns the control in the author's form; none if the definition does not use the control.
    #[serde(skip)]
    pub(crate) write: fn(&Definition) -> Option<Value>,
    /// Returns the source of the key; for a list, the sources of all members in order.
    #[serde(skip)]
    pub(crate) keys: fn(&Definition) -> Vec<Option<&KeySource>>,
    /// The costs of its limits, where the author gave them.
    #[serde(skip)]
    pub(crate) costs: fn(&Definition) -> Vec<&Cost>,
    /// Whether an input without its key is rejected; elsewhere such inputs share one key.
    #[serde(skip)]
    pub(crate) requires_key: bool,
    /// The name of the field with the source of the key.
    #[serde(skip)]
    pub(crate) key_field: &'static str,
    /// Reports conflicts with other controls of the definition.
    #[serde(skip)]
    pub(crate) check: fn(&mut Reading<'_>),
    /// Adds the control's gates to the plan of a run.
    #[serde(skip)]
    pub(crate) plan: fn(&Candidate<'_>, &mut Plan) -> Decided<(), Verdict>,
    /// Returns the limit of one of the control's gates under the given definition, which is the
    /// current release, and numbers from data.
    #[serde(skip)]
    pub(crate) limit: fn(Option<&Definition>, &Scope, Numbers<'_>) -> Limit,
    /// Returns the bound of the queue of one of the control's gates under the given definition.
    #[serde(skip)]
    pub(crate) queue: fn(&Definition, &Scope) -> Option<Bounded>,
    /// Returns how the values at one of the control's gates take turns under the given definition;
    /// none if its queue is served by rank.
    #[serde(skip)]
    pub(crate) fair: for<'a> fn(&'a Definition, &Scope) -> Option<&'a Fair>,
    /// Returns the settings of an adaptive limit of one of the control's gates under the given
    /// definition; none if its limit is fixed.
    #[serde(skip)]
    pub(crate) adaptive: fn(&Definition, &Scope) -> Option<Adaptive>,
    /// Returns the fold settings; none if the definition does not use the control.
    #[serde(skip)]
    pub(crate) folding: fn(&Definition) -> Option<Folding>,
    /// Returns the time in milliseconds after which a run that has not started expires; none if the
    /// definition does not use the control.
    #[serde(skip)]
    pub(crate) expiry_ms: fn(&Definition) -> Option<u64>,
}

/// One field of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "ControlField"))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The type of the field's value.
    #[serde(rename = "type")]
    pub kind: FieldType,
    /// The effect if the field is absent, in words; none if the field is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<&'static str>,
}

impl Field {
    /// Creates a required field.
    pub(crate) const fn required(name: &'static str, kind: FieldType) -> Field {
        Field { name, kind, default: None }
    }

    /// Creates a field with a default.
    pub(crate) const fn optional(
        name: &'static str,
        kind: FieldType,
        default: &'static str,
    ) -> Field {
        Field { name, kind, default: Some(default) }
    }
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FieldType {
    /// A whole number of at least 1.
    Count,
    /// A whole number of at least 1, or an object that reads one from the data: `from`, `default`,
    /// `min` and `max`.
    Amount,
    /// A whole number of milliseconds, at least 1.
    Duration,
    /// A whole number of milliseconds other than 0, or an object that reads one from the data:
    /// `from`, `default`, `min` and `max`.
    Shift,
    /// The source of a key: a path into the event's data or the request, several paths, or an
    /// expression.
    Key,
    /// A whole number of at least 1, or a path to one in the data.
    Cost,
    /// The name of a pool, whose limits apply instead of those of the entry.
    Pool,
    /// An expression that is true or false.
    Condition,
    /// The bound of a queue: an object of `maxWaiting` and `onOverflow`.
    Queue,
    /// How values take turns in a queue: an object of `by`, `weights` and `defaultWeight`.
    Fair,
    /// The range of a limit that follows the called service: an object of `min`, `max` and
    /// `cooldownMs`.
    Adaptive,
    /// An event's name.
    Event,
    /// An object of paths in the event, each with a path in the run's own data.
    Match,
    /// One of these words.
    #[serde(untagged)]
    OneOf(&'static [&'static str]),
}

/// The moments of an admission at which controls decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// When the event or request arrives.
    Arrival,
    /// When the run is created: on arrival, or when a window or buffer is flushed.
    Creation,
    /// Between the run's creation and its first step, and again whenever a waiting run is woken.
    Start,
}

impl Moment {
    /// Returns the word for this moment in tables and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Moment::Arrival => "arrival",
            Moment::Creation => "creation",
            Moment::Start => "start",
        }
    }
}

impl Control {
    /// A row without any effect: each control overrides the fields in which it differs.
    pub(crate) const NONE: Control = Control {
        name: "",
        purpose: "",
        acts: Moment::Arrival,
        on_overflow: "",
        fields: &[],
        on_actions: true,
        classes: &[],
        is_numbered: false,
        may_exceed: false,
        read: |_, _| {},
        write: |_| None,
        keys: |_| Vec::new(),
        costs: |_| Vec::new(),
        requires_key: false,
        key_field: "key",
        check: |_| {},
        plan: |_, _| Ok(()),
        limit: |_, _, _| Limit::Open,
        queue: |_, _| None,
        fair: |_, _| None,
        adaptive: |_, _| None,
        folding: |_| None,
        expiry_ms: |_| None,
    };

    /// Returns the names of the control's fields.
    pub fn field_names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|field| field.name).collect()
    }
}

/// Every control that a definition can have, in the order in which they act.
///
/// An action's policy is no row of its own: it is one of the spellings of `concurrency`.
pub const CONTROLS: [Control; 11] = [
    idempotency::CONTROL,
    rate_limit::CONTROL,
    debounce::CONTROL,
    batch::CONTROL,
    handoff::CONTROL,
    singleton::CONTROL,
    priority::CONTROL,
    throttle::CONTROL,
    concurrency::CONTROL,
    start_within::CONTROL,
    cancel_on::CONTROL,
];

/// Rows of gates for which a definition has no field of the same name.
static INTERNAL: [Control; 5] =
    [idempotency::DEDUPE_ID, overlap::CONTROL, policy::CONTROL, pause::CONTROL, fair::CONTROL];

static ALL: [&Control; CONTROLS.len() + INTERNAL.len()] = {
    let mut all = [&Control::NONE; CONTROLS.len() + INTERNAL.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < CONTROLS.len() { &CONTROLS[n] } else { &INTERNAL[n - CONTROLS.len()] };
        n += 1;
    }
    all
};

/// Returns all rows, including those that are not fields of a definition.
pub(crate) fn all() -> impl Iterator<Item = &'static Control> {
    ALL.iter().copied()
}

/// Returns the controls that a definition uses, in the order of all rows, with those that are not
/// fields of a definition. Most definitions use few, and an input is decided for each of them.
pub(crate) fn in_use(definition: &Definition) -> Vec<&'static Control> {
    let used = CONTROLS.iter().filter(|control| (control.write)(definition).is_some());
    used.chain(&INTERNAL).collect()
}

/// Returns the names of all controls that have gates, in the order in which they act.
///
/// `dedupeId`, `onOverlap` and `policy` are among them, although they are not fields of a
/// definition.
pub fn gate_owners() -> Vec<&'static str> {
    let listed = |control: &&Control| control.classes.iter().any(|class| class.is_listed());
    let mut owners: Vec<_> = all().filter(listed).collect();
    owners.sort_by_key(|control| control.acts);
    owners.into_iter().map(|control| control.name).collect()
}

/// Returns the control that a gate of this class belongs to.
pub(crate) fn owner(class: Class) -> &'static Control {
    all().find(|control| control.classes.contains(&class)).expect("every class has an owner")
}

/// Returns the control by which runs of a definition expire before their start, and the time in
/// milliseconds.
pub(crate) fn expiry(definition: &Definition) -> Option<(&'static Control, u64)> {
    all().find_map(|control| Some((control, (control.expiry_ms)(definition)?)))
}

/// The costs of a definition's limits, each with its control.
pub(crate) fn costs(definition: &Definition) -> impl Iterator<Item = (&'static Control, &Cost)> {
    CONTROLS.iter().flat_map(|control| {
        (control.costs)(definition).into_iter().map(move |cost| (control, cost))
    })
}

/// Places of the members of controls, by the name of the control.
type Places = BTreeMap<&'static str, Vec<String>>;

/// A definition that is being read.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    /// The definition so far: the controls without problems, and all other fields.
    pub(crate) definition: Definition,
    /// The paths of the members of a list, such as `concurrency[1]`, by the name of the control.
    pub(crate) places: Places,
    /// The problems found so far.
    pub(crate) problems: &'a mut Problems,
}

impl Reading<'_> {
    /// Reads all controls of a definition. [`Reading::check`] checks the rules between them.
    pub(crate) fn controls(&mut self, value: &Value) {
        for control in &CONTROLS {
            let Some(value) = value.get(control.name).filter(|value| !value.is_null()) else {
                continue;
            };
            if self.problems.kind != Kind::Workflow && !control.on_actions {
                let fix = "make it a workflow that the action sends events to";
                let message = format!("is not allowed on an action: {fix}");
                self.problems.error(Code::Misplaced, control.name, message);
                continue;
            }
            (control.read)(self, value);
        }
    }

    /// Reads one control whose value is an object.
    pub(crate) fn object<T>(
        &mut self,
        control: &Control,
        value: &Value,
        read: fn(&mut Fields<'_>) -> Result<T, crate::definition::Reported>,
    ) -> Option<T> {
        let fields = Fields::open(value, control.name, &control.field_names(), self.problems);
        fields.and_then(|mut fields| read(&mut fields)).ok()
    }

    /// Returns the entries of a control that is one entry or a list, each with its place.
    pub(crate) fn entries<'v>(
        &mut self,
        control: &Control,
        value: &'v Value,
    ) -> Vec<(String, &'v Value)> {
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        if list.is_empty() || list.len() > MAX_LIMITS {
            let message = format!("must have 1 to {MAX_LIMITS} limits, got {}", list.len());
            self.problems.error(Code::OutOfRange, control.name, message);
            return Vec::new();
        }
        let name = control.name;
        let place = |n| if value.is_array() { format!("{name}[{n}]") } else { name.to_owned() };
        list.iter().enumerate().map(|(n, entry)| (place(n), entry)).collect()
    }

    /// Reads a control that is an object or a list of them. If pools have a part for it, some may be
    /// uses of pools.
    pub(crate) fn list<T>(
        &mut self,
        control: &Control,
        part: Option<Part>,
        value: &Value,
        read: fn(&mut Fields<'_>) -> Result<T, crate::definition::Reported>,
    ) -> Vec<T> {
        let (mut members, mut places) = (Vec::new(), Vec::new());
        let entries = self.entries(control, value).into_iter();
        let (uses, own): (Vec<_>, Vec<_>) =
            entries.partition(|(_, entry)| part.is_some() && pool::is_use(entry));
        for (at, entry) in own {
            let fields = Fields::open(entry, &at, &control.field_names(), self.problems);
            if let Ok(member) = fields.and_then(|mut fields| read(&mut fields)) {
                members.push(member);
                places.push(at);
            }
        }
        if let Some(part) = part {
            places.extend(pool::read(self, part, uses));
        }
        self.places.insert(control.name, places);
        members
    }

    /// Returns the place of a member of a control in the definition.
    pub(crate) fn place(places: &Places, control: &Control, n: usize) -> String {
        let place = places.get(control.name).and_then(|places| places.get(n));
        place.map_or_else(|| control.name.to_owned(), Clone::clone)
    }

    /// Reads one control whose value is a duration.
    pub(crate) fn duration(&mut self, control: &Control, value: &Value) -> Option<u64> {
        let object = serde_json::json!({ control.name: value });
        let fields = Fields::open(&object, "", &[control.name], self.problems);
        fields.and_then(|mut fields| fields.duration(control.name)).ok()
    }

    /// Checks the rules between controls.
    pub(crate) fn check(&mut self) {
        for control in all() {
            (control.check)(self);
        }
    }

    /// Returns the sources of a control's keys, each with the path of its field in the definition.
    pub(crate) fn keys(&self, control: &Control) -> Vec<(String, KeySource)> {
        let field = |n| format!("{}.{}", Self::place(&self.places, control, n), control.key_field);
        let keys = (control.keys)(&self.definition).into_iter().enumerate();
        keys.filter_map(|(n, key)| Some((field(n), key?.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_of_controls_is_what_the_book_prints() {
        let lines = CONTROLS.map(|control| {
            let (name, acts) = (control.name, control.acts.as_str());
            let fields = control.field_names().join(", ");
            format!("{name} {{{fields}}}: {}; {acts}; {}", control.purpose, control.on_overflow)
        });
        expect![[r#"
            idempotency {key, periodMs}: one run per key and period; arrival; drop as deduped
            rateLimit {limit, perMs, key, burst, cost, pool}: drop events over a rate; arrival; drop
            debounce {periodMs, key, maxWaitMs, keep, edge, maxSize}: run once for a burst of events; arrival; coalesce: keep the last, the first or all events
            batch {maxSize, timeoutMs, key, maxBytes, if}: handle many events in one run; arrival; collect
            handoff {type, keyField, onNewVersion, queue}: pass the work from one version to the next; creation; supersede, drain or coexist
            singleton {key, mode}: at most one run per key; creation; skip the new run, cancel the old one, or keep the newest waiting
            priority {shiftMs}: start before others that wait, or after them; creation; re-order
            throttle {limit, perMs, key, burst, cost, pool, fair}: spread starts over time and lose none; start; delay
            concurrency {limit, key, span, cost, pool, queue, fair, adaptive}: bound how many run at once; start; wait in the queue
            startWithinMs {startWithinMs}: cancel runs that would start too late; start; cancel as expired
            cancelOn {event, match, if, withinMs}: cancel runs that an event makes useless; creation; cancel when the event arrives"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn owners_of_gates_are_listed_in_the_order_in_which_they_act() {
        expect![[r#"
            idempotency rateLimit debounce batch dedupeId handoff singleton onOverlap policy throttle concurrency pause"#]]
        .assert_eq(&gate_owners().join(" "));
    }

    #[test]
    fn every_class_of_gates_has_one_owner() {
        for class in Class::ALL {
            let owners = all().filter(|control| control.classes.contains(&class)).count();
            assert_eq!(owners, 1, "{class:?}");
        }
    }

    /// The reader agrees with the table: it knows each field, requires those without a default, and
    /// refuses values of another type.
    #[test]
    fn every_field_is_read_as_the_table_says() {
        for control in &CONTROLS {
            for field in control.fields {
                let scalar = field.name == control.name;
                let with = |value: Value| {
                    let object = serde_json::json!({ field.name: value });
                    let value = if scalar { object[field.name].clone() } else { object };
                    let definition = serde_json::json!({ "name": "w", control.name: value });
                    let errors = Definition::parse(&definition).err().map(|errors| errors.0);
                    errors.unwrap_or_default().into_iter().map(|it| it.field).collect::<Vec<_>>()
                };
                let name = format!("{}.{}", control.name, field.name);
                let name = if scalar { field.name.to_owned() } else { name };
                let errors = with(serde_json::json!([]));
                assert!(errors.contains(&name), "{name} accepts a list as its value");
                let empty = serde_json::json!({ "name": "w", control.name: {} });
                let errors = Definition::parse(&empty).err().map(|errors| errors.0);
                let missing = errors.unwrap_or_default().iter().any(|it| it.field == name);
                assert_eq!(missing, field.default.is_none(), "{name} is required: {missing}");
            }
        }
    }
}
