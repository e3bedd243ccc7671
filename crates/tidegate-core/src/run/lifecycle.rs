//! Events at the end of a run (`endEvents`): recorded in the transaction that ends the run, and
//! delivered by the sweep right after it, as a deferred event is. So the end of a run is not undone
//! by what the events start.
//!
//! Only events that trigger a workflow are posted; the catalog says which. The end of any other run
//! reads and writes nothing here.

use serde_json::{Map, Value, json};

use crate::{
    delivery,
    draft::{Decided, Draft, Missing},
    flow::fold,
    json::{MAX_EVENT_BYTES, Payload},
    row::{Deferred, Delivery, Ended, Ending, Event, Kind, Purpose, Run, RunError},
};

/// Maximum number of events of a batch in the data.
const MAX_SHOWN: usize = 100;

/// Posts the events after the end of a run. A run that was started by such an event posts none, so
/// that a workflow may be triggered by its own.
pub(super) fn post<E>(draft: &mut Draft, run: &Run, ended: &Ended) -> Decided<(), E> {
    if run.purpose != Purpose::Ordinary {
        return Ok(());
    }
    let catalog = draft.catalog(&run.ws)?;
    let settings = catalog.definition(run.lane).and_then(|it| it.end_events.as_ref());
    let Some(settings) = settings else { return Ok(()) };
    let names = settings.after(&ended.ending).iter();
    let names: Vec<_> = names.filter(|name| !catalog.triggered(name).is_empty()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let inputs = inputs(draft, run)?;
    if inputs.is_empty() || inputs.iter().any(|event| settings.has(&event.name)) {
        return Ok(());
    }
    let data = data(settings.data.clone(), run, &ended.ending, &inputs);
    for name in names {
        let (id, at) = (draft.new_event_id()?, draft.now());
        let event = Event {
            id,
            ws: run.ws.clone(),
            kind: Kind::Event,
            name: name.clone(),
            at,
            ts: None,
            data: data.clone(),
            delivery: Some(Delivery { at, end: None }),
            attributes: None,
        };
        draft.put(event.clone());
        let name = name.clone();
        let deferred = Deferred { name, delay_ms: None, dedupe_id: None, request: None };
        delivery::defer(draft, &event, at, deferred);
    }
    Ok(())
}

/// Returns the events of a run's input that are still stored, in order.
fn inputs<E>(draft: &Draft, run: &Run) -> Decided<Vec<Event>, E> {
    let ids = fold::events(draft, run)?;
    let mut missing = Missing::default();
    let mut events = Vec::new();
    for id in ids.into_iter().take(MAX_SHOWN) {
        events.extend(missing.note(draft.event(id))?.flatten().cloned());
    }
    missing.settle()?;
    Ok(events)
}

/// Returns the data of the events: the members of the definition, the run, its input, and its result
/// or its error. An input that makes the data too large is left out.
fn data(members: Map<String, Value>, run: &Run, ending: &Ending, inputs: &[Event]) -> Payload {
    let (name, outcome) = match ending {
        Ending::Completed { output } => ("result", output.as_str().to_owned()),
        Ending::Failed { error } => ("error", error_value(error).to_string()),
        Ending::Cancelled { reason, .. } => {
            ("error", error_value(&RunError::new("Cancelled", reason.as_str())).to_string())
        }
    };
    let members = members.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name)));
    let members: Vec<String> = members.chain([format!("\"run_id\":\"{}\"", run.id)]).collect();
    let mut text = format!("{{{}", members.join(","));
    let events: Vec<String> = inputs.iter().map(|event| event.whole().to_string()).collect();
    let events = format!(",\"event\":{},\"events\":[{}]", events[0], events.join(","));
    let outcome = format!(",\"{name}\":{outcome}");
    for part in [outcome, events] {
        if text.len() + part.len() < MAX_EVENT_BYTES {
            text.push_str(&part);
        }
    }
    text.push('}');
    Payload::trusted(text)
}

/// Returns an error with its details: their members stand for its code and its message.
fn error_value(error: &RunError) -> Value {
    let mut value = json!({ "name": error.code, "message": error.message });
    if let (Some(value), Some(Value::Object(details))) = (value.as_object_mut(), &error.details) {
        value.extend(details.clone());
    }
    value
}
