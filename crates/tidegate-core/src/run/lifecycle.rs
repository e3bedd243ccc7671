//! Events at the end of a run (`endEvents`): recorded in the transaction that ends the run, and
//! delivered by the sweep right after it, as a deferred event is. So the end of a run is not undone
//! by what the events start.
//!
//! Only events that trigger a workflow or reach a run that waits are posted. The catalog says which
//! names do: those of triggers, and those that runs have waited for, which the first wait marks
//! (`AWAITED`). The end of any other run reads and writes nothing here.

use serde_json::{Map, Value, json};

use super::wake;
use crate::{
    catalog::{AWAITED, Catalog},
    definition::{Definition, EndEvents},
    delivery,
    draft::{Decided, Draft, Missing},
    flow::fold,
    id::Seq,
    json::{MAX_EVENT_BYTES, Payload},
    reads::Scan,
    row::{
        Def, Deferred, Delivery, Ended, Ending, Event, Kind, Purpose, Row, RowKey, Run, RunError,
        Workspace,
    },
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
    let triggers = |name: &&String| !catalog.triggered(name).is_empty();
    let names = settings.after(&ended.ending).iter();
    let names: Vec<_> =
        names.filter(|name| triggers(name) || is_marked(draft, &catalog, &run.ws, name)).collect();
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
        if !triggers(&name) && !wake::is_awaited(draft, &event)? {
            continue;
        }
        draft.put(event.clone());
        let name = name.clone();
        let deferred = Deferred { name, delay_ms: None, dedupe_id: None, request: None };
        delivery::defer(draft, &event, at, deferred);
    }
    Ok(())
}

/// Marks the name of an event for which a run waits as the first one, if it is an end event.
pub(super) fn awaited<E>(draft: &mut Draft, ws: &Workspace, name: &str) -> Decided<(), E> {
    let catalog = draft.catalog(ws)?;
    if catalog.is_end_event(name) { mark(draft, &catalog, ws, name) } else { Ok(()) }
}

/// Marks the end events of a new definition for which runs wait already.
pub(crate) fn begin(
    draft: &mut Draft,
    catalog: &Catalog,
    ws: &Workspace,
    workflow: &Definition,
) -> Decided<()> {
    for name in workflow.end_events.iter().flat_map(EndEvents::names) {
        let is_new = !catalog.is_end_event(name);
        if is_new && !draft.found(&Scan::WaitPaths(ws.clone(), name.clone()), 1)?.is_empty() {
            mark(draft, catalog, ws, name)?;
        }
    }
    Ok(())
}

fn mark<E>(draft: &mut Draft, catalog: &Catalog, ws: &Workspace, name: &str) -> Decided<(), E> {
    if is_marked(draft, catalog, ws, name) {
        return Ok(());
    }
    let lane = draft.next_seq()?;
    draft.define_later(Def {
        lane,
        ws: ws.clone(),
        app: AWAITED.to_owned(),
        name: name.to_owned(),
        version: 1,
        body: Payload::null(),
        released: None,
        assigned: None,
        deployed: false,
    })
}

/// Whether runs have waited for an end event, also in this transaction.
fn is_marked(draft: &Draft, catalog: &Catalog, ws: &Workspace, name: &str) -> bool {
    let is_mark = |row: &Row| matches!(row, Row::Def(def) if def.app == AWAITED && def.ws == *ws && def.name == name);
    let (from, to) = (RowKey::Def(Seq(i64::MIN)), RowKey::Def(Seq(i64::MAX)));
    catalog.is_awaited(name) || draft.written(from, to).any(is_mark)
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
