//! Request ingress: starts by name, calls of actions, and occurrences of schedules.
//!
//! Every transport creates a [`Request`] and calls [`dispatch`], so that the action's policy is
//! applied in one place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    catalog::{Catalog, Current, Entry},
    command::Refusal,
    definition::Overlap,
    delivery,
    draft::{Decided, Draft, Stop},
    event::{Outcome, consider},
    flow::{Verdict, plan::Origin, policy::PolicyKind},
    id::RunId,
    json::Payload,
    key::{Key, Path},
    row::{Deferred, DeferredRequest, Delivery, Event, Kind, Row, RowKey, Run, Source, Workspace},
    run::{end, record::Until},
    schema::{self, Mismatch},
    time::Timestamp,
};

/// Call of an action, from any transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The action.
    pub action: String,
    /// The action's input.
    pub input: Payload,
    /// The session, if the request has one.
    pub session: Option<String>,
    /// The user, if the request has one.
    pub user: Option<String>,
    /// Metadata from the transport.
    pub metadata: Payload,
    /// The result of the policy's key function, if it was called; [`Key::Missing`] if it returned
    /// no key. A policy with a key function refuses a request without this result.
    pub function_key: Option<Key>,
    /// Maximum time in the queue, if the policy `queue` has no `maxWaitMs`. For callers that stop
    /// waiting after this time.
    pub max_wait_ms: Option<u64>,
    /// When the request is delivered, if not at once (spec L23).
    pub deliver: Option<Until>,
}

impl Request {
    /// Delivers the request at a time, and not at once. A time that has passed means at once.
    #[must_use]
    pub fn deliver_at(self, at: Timestamp) -> Self {
        Self { deliver: Some(Until::At(at)), ..self }
    }

    /// Delivers the request after a delay, and not at once. The delay begins when the request is
    /// stored.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { deliver: Some(Until::from(delay)), ..self }
    }

    /// Returns the document at which the paths of keys begin. It contains the input byte for byte.
    fn data(&self) -> Payload {
        let (session, user) = (json!(self.session).to_string(), json!(self.user).to_string());
        document(&session, &user, self.input.as_str(), self.metadata.as_str())
    }
}

fn document(session: &str, user: &str, input: &str, metadata: &str) -> Payload {
    let text =
        format!(r#"{{"session":{session},"user":{user},"input":{input},"metadata":{metadata}}}"#);
    Payload::parse(text.as_bytes(), usize::MAX).unwrap_or_else(|_| Payload::null())
}

/// Returns the document of a request with another input: the same session, user and metadata.
pub fn with_input(document_of: &Payload, input: &Payload) -> Payload {
    let part = |name: &str| {
        let path = Path::parse(name).ok();
        path.and_then(|path| document_of.text_at(&path)).unwrap_or("null")
    };
    document(part("session"), part("user"), input.as_str(), part("metadata"))
}

/// Decides on a request to an action. Refuses an input that does not match the action's schema.
pub fn dispatch(draft: &mut Draft, ws: &Workspace, request: &Request) -> Decided<Outcome> {
    match delivery::planned(draft, request.deliver)? {
        Some(at) => defer(draft, ws, request, at),
        None => dispatch_from(draft, ws, request, Origin::Arrival),
    }
}

/// Records a request that is delivered later. What can be checked now is checked now.
fn defer(
    draft: &mut Draft,
    ws: &Workspace,
    request: &Request,
    deliver_at: Timestamp,
) -> Decided<Outcome> {
    let name = format!("{}/{}", request.flow, request.action);
    let catalog = draft.catalog(ws)?;
    let current = open(&catalog, &request.app, &name)?;
    if let Some(schema) = &current.workflow.schema {
        check_input(schema, &request.input, &name)?;
    }
    let (id, at, kind, ts) = (draft.new_event_id()?, draft.now(), Kind::Request, None);
    let delivery = Some(Delivery { at: deliver_at, end: None });
    let (ws, data) = (ws.clone(), request.data());
    let attributes = None;
    let event = Event { id, ws, kind, name: name.clone(), at, ts, data, delivery, attributes };
    draft.put(event.clone());
    let (app, function_key) = (request.app.clone(), request.function_key.clone());
    let of = DeferredRequest { app: app.clone(), function_key, max_wait_ms: request.max_wait_ms };
    let (delay_ms, dedupe_id) = (request.deliver.and_then(Until::span), None);
    let workflow = name.clone();
    let deferred = Deferred { name, delay_ms, dedupe_id, request: Some(of) };
    delivery::defer(draft, &event, deliver_at, deferred);
    let verdict = Verdict::Deferred { run: delivery::run_of(id), deliver_at };
    let version = current.version.number;
    Ok(Outcome { app, workflow, version, verdict, key_missing: Vec::new() })
}

/// Delivers a deferred request. If its run is not created, an ended run with its id is written: its
/// sender has the id.
pub(crate) fn deliver(
    draft: &mut Draft,
    event: &Event,
    request: DeferredRequest,
) -> Decided<Option<Outcome>> {
    let DeferredRequest { app, function_key, max_wait_ms } = request;
    let (run, name) = (delivery::run_of(event.id), &event.name);
    let catalog = draft.catalog(&event.ws)?;
    let current = catalog.entry(&app, name).and_then(Entry::open);
    let checked = current.and_then(|current| current.workflow.schema.as_ref()).map(|schema| {
        let input = Path::parse("input").ok();
        let input = input.and_then(|path| event.data.text_at(&path)).unwrap_or("null");
        check_text(schema, input, name)
    });
    let refused = match (&current, checked.transpose()) {
        (None, _) => Some("its action is gone".to_owned()),
        (Some(_), Err(Stop::Refused(refusal))) => Some(refusal.to_string()),
        (Some(_), Err(stop)) => return Err(stop),
        (Some(_), Ok(_)) => None,
    };
    if let Some(reason) = refused {
        let owner = (event.ws.clone(), app, name.clone());
        end::end_unstarted(draft, owner, current, (run, Source::Event(event.id)), &reason);
        return Ok(None);
    }
    let Some(current) = current else { return Ok(None) };
    let origin = Origin::Deferred(run);
    let outcome = consider(draft, &event.ws, current, event, origin, function_key)?;
    limit_wait(draft, current, &outcome, max_wait_ms)?;
    Ok(Some(outcome))
}

/// Admits two requests. The second one starts when the first has completed, and is cancelled if
/// the first fails or is cancelled. If the first request is refused, the second is not admitted.
/// If the first request is a repeat, the second one of the original request is returned.
///
/// Both are admitted in one transaction, so that no other request gets between them in a queue.
/// They are not deferred.
pub fn dispatch_then(
    draft: &mut Draft,
    ws: &Workspace,
    first: &Request,
    then: &Request,
) -> Decided<(Outcome, Option<Outcome>)> {
    let outcome = dispatch_from(draft, ws, first, Origin::Arrival)?;
    let Some(run) = outcome.verdict.carrier() else { return Ok((outcome, None)) };
    if let Verdict::Deduped { by, first, .. } = &outcome.verdict
        && let Some(next) = successor(draft, run)?
    {
        let verdict = Verdict::Deduped { by: by.clone(), first: *first, run: Some(next) };
        let workflow = format!("{}/{}", then.flow, then.action);
        let then = Outcome { workflow, verdict, ..outcome.clone() };
        return Ok((outcome, Some(then)));
    }
    let origin = Origin::After { runs: vec![run], wanted: false };
    let then = dispatch_from(draft, ws, then, origin)?;
    if let (Some(row), Some(next)) = (draft.run(run.seq)?.cloned(), then.verdict.run()) {
        draft.put(Run { then: Some(next), ..row });
    }
    Ok((outcome, Some(then)))
}

/// Returns the run that starts after the given run has completed.
fn successor(draft: &Draft, run: RunId) -> Decided<Option<RunId>> {
    if let Some(run) = draft.run(run.seq)? {
        return Ok(run.then);
    }
    Ok(match draft.row(&RowKey::Ended(run.seq))? {
        Some(Row::Ended(ended)) => ended.then,
        _ => None,
    })
}

fn dispatch_from(
    draft: &mut Draft,
    ws: &Workspace,
    request: &Request,
    origin: Origin,
) -> Decided<Outcome> {
    let name = format!("{}/{}", request.flow, request.action);
    let catalog = draft.catalog(ws)?;
    let current = catalog.entry(&request.app, &name).and_then(Entry::open);
    if let Some(schema) = current.and_then(|current| current.workflow.schema.as_ref()) {
        check_input(schema, &request.input, &name)?;
    }
    let function_key = request.function_key.clone();
    let data = (Kind::Request, request.data());
    let outcome = start(draft, ws, &request.app, &name, data, (origin, function_key))?;
    if let Some(current) = current {
        limit_wait(draft, current, &outcome, request.max_wait_ms)?;
    }
    Ok(outcome)
}

/// Bounds the time in the queue of a request whose policy has no `maxWaitMs`.
fn limit_wait(
    draft: &mut Draft,
    current: &Current,
    outcome: &Outcome,
    max_wait_ms: Option<u64>,
) -> Decided<()> {
    let policy = current.workflow.policy.as_ref();
    if let (Verdict::Queued { run, .. }, Some(ms)) = (&outcome.verdict, max_wait_ms)
        && policy.is_some_and(|policy| {
            matches!(policy.kind, PolicyKind::Queue { max_wait_ms: None, .. })
        })
        && let Some(run) = draft.run(run.seq)?.cloned()
    {
        let gives_up_at = Some(run.queued_at.plus_ms(ms));
        draft.put(Run { gives_up_at, ..run });
    }
    Ok(())
}

fn check_input(schema: &Value, input: &Payload, name: &str) -> Decided<()> {
    check_text(schema, input.as_str(), name)
}

fn check_text(schema: &Value, input: &str, name: &str) -> Decided<()> {
    // A payload may have numbers and escapes that `serde_json::Value` cannot represent.
    let unreadable = |error: serde_json::Error| Mismatch {
        path: "input".to_owned(),
        rule: format!("cannot be compared with the schema: {error}"),
    };
    let input = serde_json::from_str(input).map_err(unreadable);
    let checked = input.and_then(|input| schema::check(schema, &input, "input"));
    checked.map_err(|mismatch| Stop::Refused(Refusal::BadInput { name: name.to_owned(), mismatch }))
}

/// Starts one workflow with an input. Refuses an input that does not match the workflow's schema.
/// The input does not trigger other workflows, and wakes no waiting run (spec start).
///
/// An action gets a request without session and user, so that its policy does not apply.
pub fn start_workflow(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    name: &str,
    input: &Payload,
) -> Decided<Outcome> {
    let catalog = draft.catalog(ws)?;
    let definition = catalog.entry(app, name).and_then(Entry::open).map(|it| &it.workflow);
    if let Some(schema) = definition.and_then(|definition| definition.schema.as_ref()) {
        check_input(schema, input, name)?;
    }
    let data = if definition.is_some_and(|definition| definition.flow.is_some()) {
        (Kind::Request, document("null", "null", input.as_str(), "null"))
    } else {
        (Kind::Invoke, input.clone())
    };
    start(draft, ws, app, name, data, (Origin::Arrival, Some(Key::Missing)))
}

/// Admits one planned occurrence of a schedule.
pub fn occur(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    schedule: &str,
    overlap: Overlap,
    planned_at: Timestamp,
) -> Decided<Outcome> {
    let input = json!({ "schedule": schedule, "plannedAt": planned_at.rfc3339() });
    let catalog = draft.catalog(ws)?;
    let current = catalog.entry(app, workflow).and_then(Entry::open);
    // An action always gets the document of a request as its input.
    let data = if current.is_some_and(|it| it.workflow.flow.is_some()) {
        document("null", "null", &input.to_string(), "null")
    } else {
        Payload::from_value(&input)
    };
    let origin = Origin::Cron { schedule: schedule.to_owned(), overlap };
    // No key function is called. Without a key the policy does not apply, as without a session.
    start(draft, ws, app, workflow, (Kind::Cron, data), (origin, Some(Key::Missing)))
}

fn start(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    name: &str,
    (kind, data): (Kind, Payload),
    (origin, function_key): (Origin, Option<Key>),
) -> Decided<Outcome> {
    let catalog = draft.catalog(ws)?;
    let current = open(&catalog, app, name)?;
    let (id, at, ts, delivery) = (draft.new_event_id()?, draft.now(), None, None);
    let (ws, name) = (ws.clone(), name.to_owned());
    let attributes = None;
    let event = Event { id, ws, kind, name, at, ts, data, delivery, attributes };
    draft.put(event.clone());
    consider(draft, &event.ws, current, &event, origin, function_key)
}

/// Returns the current release of a workflow or an action.
fn open<'a>(catalog: &'a Catalog, app: &str, name: &str) -> Decided<&'a Current> {
    let current = catalog.entry(app, name).and_then(Entry::open);
    let refusal = || Refusal::NoWorkflow { app: app.into(), name: name.into() };
    current.ok_or_else(|| Stop::Refused(refusal()))
}
