//! Cancel on: an event ends the runs that it makes useless.
//!
//! An event of one of these names that has the same values as the run's own data cancels the run,
//! from its admission on, also while it waits or sleeps (spec L29). The values are fixed at
//! admission. A run whose data lacks one of them is not cancelled. A condition, `if`, may say more:
//! its part about the run's own event is evaluated at admission, the rest for each later event.
//!
//! Acts from the creation of the run to its end. On overflow: none. The run's row has the values,
//! and is found by those of the first entry; the index of waits has a row for each other entry.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    batch::run_of_many,
    control::{Control, Field, FieldType, Moment, Reading},
    key_source::{self, KeySource},
    one_or_list,
    verdict::Verdict,
};
use crate::{
    definition::{Code, Definition, EventMatch, Fields, Kind, Problems, Reported},
    draft::Stop,
    expr::{Expr, Formula, IndexedEquality, Mode},
    key::Path,
    row::{Event, WaitFilter},
    run::wait::encoded_scalar,
};

/// Row in the table of controls.
pub(crate) const CONTROL: Control = Control {
    name: "cancelOn",
    purpose: "cancel runs that an event makes useless",
    acts: Moment::Creation,
    on_overflow: "cancel when the event arrives",
    fields: &[
        Field::required("event", FieldType::Event),
        Field::required("match", FieldType::Match),
        Field::optional("if", FieldType::Condition, "every event with these values"),
        Field::optional("withinMs", FieldType::Duration, "until the run has ended"),
    ],
    read: |reading, value| {
        reading.definition.cancel_on = reading.list(&CONTROL, None, value, CancelOn::read);
    },
    write: |definition| one_or_list(definition.cancel_on.iter().map(CancelOn::to_value)),
    check,
    // It has no gate. A condition that cannot be fixed rejects the input when it arrives.
    plan: |candidate, _| {
        let entries = candidate.workflow().cancel_on.iter();
        for entry in entries.filter(|entry| entry.condition.is_some()) {
            let bound = entry.listener(candidate.event);
            let control = CONTROL.name;
            bound.map_err(|reason| Stop::Refused(Verdict::Rejected { control, reason }))?;
        }
        Ok(())
    },
    ..Control::NONE
};

/// One entry of `cancelOn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelOn {
    /// The event, and the values that it has in common with the run's data.
    #[serde(flatten)]
    pub on: EventMatch,
    /// The condition for an event, `async`, to cancel a run that was started by `event`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Formula>,
    /// How long after its admission an event cancels the run; until its end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

impl CancelOn {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<CancelOn, Reported> {
        let own = match fields.problems().kind {
            Kind::Workflow | Kind::Pool => key_source::EVENT,
            Kind::Flow | Kind::Action => key_source::REQUEST,
        };
        let condition = fields.formula_with("if", &[own, WaitFilter::EVENT]);
        let on = match &condition {
            Ok(Some(_)) => EventMatch::read_open(fields),
            Ok(None) | Err(_) => EventMatch::read(fields),
        };
        let within_ms = fields.optional_duration("withinMs");
        Ok(CancelOn { on: on?, condition: condition?, within_ms: within_ms? })
    }

    /// Returns the joined paths and the encoded values by which the index finds the events that
    /// concern a run with this input, and the rest of the condition. None if no event can concern
    /// it.
    pub(crate) fn listener(&self, event: &Event) -> Result<Option<Listened>, String> {
        let Some((path, value)) = self.on.values(&event.data) else { return Ok(None) };
        let Some(condition) = &self.condition else { return Ok(Some((path, value, None))) };
        let (mode, bound) = (condition.mode(), key_source::bind(condition, event)?);
        let lenient = mode == Mode::Lenient;
        let filter = |expr: &Expr| WaitFilter { expr: expr.to_string(), lenient };
        let indexed = bound.indexed_equality(WaitFilter::EVENT, mode).filter(|_| path.is_empty());
        // A path whose text is not read as the same path has no place in the index.
        let indexed =
            indexed.filter(|it| Path::parse(&it.path.to_string()).as_ref() == Ok(&it.path));
        Ok(Some(match indexed {
            Some(IndexedEquality { path, value, rest }) => {
                (path.to_string(), encoded_scalar(value), rest.as_ref().map(filter))
            }
            None => (path, value, Some(filter(&bound))),
        }))
    }

    /// Returns the joined paths by which the index finds the events that concern a run with this
    /// input. They are those of `match`, unless the condition has the path.
    pub(crate) fn path(&self, event: &Event) -> String {
        let listened = self.condition.as_ref().and_then(|_| self.listener(event).ok()?);
        listened.map_or_else(|| self.on.path(), |(path, ..)| path)
    }

    pub(crate) fn to_value(&self) -> Value {
        json!(self)
    }
}

/// Joined paths, encoded values and rest of the condition of a listener.
pub(crate) type Listened = (String, Vec<u8>, Option<WaitFilter>);

/// Refuses values that may differ between the events of one run: an event that concerns one of them
/// would cancel the run of all.
fn check(reading: &mut Reading<'_>) {
    let Reading { definition, places, problems } = reading;
    for (n, entry) in definition.cancel_on.iter().enumerate() {
        let at = Reading::place(places, &CONTROL, n);
        check_values(definition, &entry.on, &at, problems);
        if let (Some(_), Some((noun, _))) = (&entry.condition, run_of_many(definition)) {
            let message =
                format!("is a condition on one event, but a {noun} has many: use `match`");
            problems.error(Code::Conflict, &format!("{at}.if"), message);
        }
    }
}

/// Refuses values of a run that may differ between its events.
pub(crate) fn check_values(
    definition: &Definition,
    on: &EventMatch,
    at: &str,
    problems: &mut Problems,
) {
    let Some((noun, key)) = run_of_many(definition) else { return };
    for own in on.paths.values().filter(|own| !is(key, own)) {
        let fix = match key {
            Some(key) => format!("use `{key}`, the {noun}'s key"),
            None => format!("give the {noun} this key"),
        };
        let message = format!("`{own}` may differ between the events of one {noun}: {fix}");
        problems.error(Code::Conflict, &format!("{at}.match"), message);
    }
}

fn is(key: Option<&KeySource>, path: &Path) -> bool {
    matches!(key, Some(KeySource::Path(own)) if own == path)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use crate::definition::{
        Definition,
        testing::{define, problems},
    };

    #[test]
    fn an_entry_that_would_read_every_run_or_none_is_refused() {
        let entries = [
            json!({ "event": "gone" }),
            json!({ "match": { "a": "a" } }),
            json!({ "event": "gone*", "match": { "a": "a" } }),
            json!({ "event": "gone", "match": "a" }),
            json!({ "event": "gone", "match": {} }),
            json!({ "event": "gone", "match": { "a": 1, "b..c": "b", "d": null } }),
            json!({ "event": "gone", "match": { "a": "a" }, "within": 1 }),
            json!({ "event": "gone", "match": { "a": "a" }, "withinMs": 0 }),
            json!([]),
        ];
        let all = entries.map(|entry| problems(&json!({ "cancelOn": entry })));
        expect![[r#"
            workflow `w`: cancelOn.match is required: an object of paths in the event and paths in the run's own data, such as {"orderId": "orderId"}: without it every run would be read for every event
            workflow `w`: cancelOn.event is required: an event's name
            workflow `w`: cancelOn.event must be the name of one event, without a star, got `gone*`
            workflow `w`: cancelOn.match must be an object of paths in the event and paths in the run's own data, such as {"orderId": "orderId"}: without it every run would be read for every event, got "a"
            workflow `w`: cancelOn.match must have 1 to 4 paths, got 0
            workflow `w`: cancelOn.match.a must be a text or an array of names, got `1`
            workflow `w`: cancelOn.match path must have a name between its dots, got `b..c`
            workflow `w`: cancelOn.match.d is required: the path in the run's own data
            workflow `w`: cancelOn.within is not known: did you mean `withinMs`?
            workflow `w`: cancelOn.withinMs must be at least 1, got 0
            workflow `w`: cancelOn must have 1 to 16 limits, got 0
        "#]].assert_eq(&all.concat());
    }

    #[test]
    fn values_that_differ_within_a_batch_are_refused() {
        let with = |key: Value| {
            let batch = json!({ "maxSize": 9, "timeoutMs": 9, "key": key });
            let entry = json!({ "event": "gone", "match": { "a": "order.id" } });
            json!({ "batch": batch, "cancelOn": [entry] })
        };
        let all = [with(json!(null)), with(json!("user"))].map(|it| problems(&it));
        expect![[r#"
            workflow `w`: cancelOn[0].match `order.id` may differ between the events of one batch: give the batch this key
            workflow `w`: cancelOn[0].match `order.id` may differ between the events of one batch: use `user`, the batch's key
        "#]].assert_eq(&all.concat());
        let mut fits = with(json!("order.id"));
        fits["name"] = json!("w");
        assert!(Definition::parse(&fits).is_ok());
    }

    #[test]
    fn an_event_enters_one_inbox() {
        let entry = json!({ "event": "paid", "match": { "a": "a" } });
        let fields = json!({ "waitsFor": [entry, entry, { "event": "paid" }] });
        expect![[r#"
            workflow `w`: waitsFor[1].event must name each event once, got `paid` again
            workflow `w`: waitsFor[2].match is required: an object of paths in the event and paths in the run's own data, such as {"orderId": "orderId"}: without it every run would be read for every event
        "#]].assert_eq(&problems(&fields));
    }

    // spec L35
    #[test]
    fn events_that_would_reach_a_run_by_one_of_its_values_are_refused() {
        let with = |fold: Value| {
            let entry = json!({ "event": "paid", "match": { "a": "order.id" } });
            let mut fields = json!({ "waitsFor": [entry] });
            fields.as_object_mut().unwrap().extend(fold.as_object().unwrap().clone());
            fields
        };
        let batch = json!({ "maxSize": 9, "timeoutMs": 9, "key": "user" });
        let window = json!({ "periodMs": 9, "keep": "all" });
        let all = [with(json!({ "batch": batch })), with(json!({ "debounce": window }))];
        expect![[r#"
            workflow `w`: waitsFor[0].match `order.id` may differ between the events of one batch: use `user`, the batch's key
            workflow `w`: waitsFor[0].match `order.id` may differ between the events of one window: give the window this key
        "#]].assert_eq(&all.map(|it| problems(&it)).concat());
        let own = json!({ "batch": { "maxSize": 9, "timeoutMs": 9, "key": "order.id" } });
        assert!(Definition::parse(&define(&with(own))).is_ok());
    }

    #[test]
    fn the_authors_form_is_read_again() {
        let value = json!({ "app": "default", "name": "w",
            "cancelOn": [
                { "event": "gone", "match": { "b": "a.b", "a": "a" }, "withinMs": 5 },
                { "event": "lost", "match": { "a": ["x.y"] } },
                { "event": "moved", "if": "async.data.n > event.data.n" },
                { "event": "sold", "match": { "a": "a" }, "if": { "lenient": "async.data.all" } },
            ],
            "waitsFor": [{ "event": "paid", "match": { "a": "a" } }] });
        let definition = Definition::parse(&value).unwrap().value;
        assert_eq!(definition.to_value(), value);
        let stored = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), definition);
    }
}
