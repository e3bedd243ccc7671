//! Requests in: calls of actions, and a schedule's occurrences.
//!
//! Every transport builds a [`Request`] and passes through [`dispatch`], where the action's
//! policy is applied once.

use serde_json::json;

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    event::{Outcome, consider},
    flow::{needs::Origin, policy::PolicyKind, verdict::Verdict},
    json::Payload,
    key::Key,
    row::{Class, Event, Kind, Phase, Workspace},
    time::Timestamp,
};

/// One call of an action, whatever the transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The action.
    pub action: String,
    /// What it is called with.
    pub input: Payload,
    /// The session, where there is one.
    pub session: Option<String>,
    /// The user, where there is one.
    pub user: Option<String>,
    /// What the transport knows.
    pub metadata: Payload,
    /// What the program's key function said, where the policy has one.
    pub function_key: Option<Key>,
}

impl Request {
    /// The document that key paths start from. The input stays byte for byte.
    fn data(&self) -> Payload {
        let (session, user) = (json!(self.session), json!(self.user));
        let (input, metadata) = (self.input.as_str(), self.metadata.as_str());
        let text = format!(
            r#"{{"session":{session},"user":{user},"input":{input},"metadata":{metadata}}}"#
        );
        Payload::parse(text.as_bytes(), usize::MAX).unwrap_or_else(|_| Payload::null())
    }
}

/// Admits a request to its action.
pub fn dispatch(draft: &mut Draft, ws: &Workspace, request: &Request) -> Decided<Outcome> {
    let name = format!("{}/{}", request.flow, request.action);
    let outcome = start(draft, ws, &request.app, &name, Kind::Request, request.data(), |_| {
        (Origin::Arrival, request.function_key.clone())
    })?;
    if let Verdict::Queued { run, .. } = &outcome.verdict {
        limit_waiting(draft, ws, &request.app, &name, run.seq)?;
    }
    Ok(outcome)
}

/// Admits one planned occurrence of a schedule.
pub fn occur(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    schedule: &str,
    skip_overlap: bool,
    planned_at: Timestamp,
) -> Decided<Outcome> {
    let data = json!({ "schedule": schedule, "plannedAt": planned_at });
    let data = Payload::from_value(&data);
    start(draft, ws, app, workflow, Kind::Cron, data, |_| {
        let schedule = skip_overlap.then(|| schedule.to_owned());
        (Origin::Cron { schedule }, None)
    })
}

fn start(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    name: &str,
    kind: Kind,
    data: Payload,
    how: impl FnOnce(&Draft) -> (Origin, Option<Key>),
) -> Decided<Outcome> {
    let catalog = draft.catalog(ws)?;
    let current = catalog.entry(app, name).and_then(|entry| entry.current.as_ref());
    let Some(current) = current else {
        return Err(Stop::Refused(Refusal::NoWorkflow { app: app.into(), name: name.into() }));
    };
    let (id, at) = (draft.new_event_id()?, draft.now());
    let event = Event { id, ws: ws.clone(), kind, name: name.to_owned(), at, ts: None, data };
    draft.put(event.clone());
    let (origin, function_key) = how(draft);
    consider(draft, ws, current, &event, origin, function_key)
}

/// `queue {maxWaitMs}`: the place is given up after that time.
fn limit_waiting(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    name: &str,
    run: crate::id::Seq,
) -> Decided<()> {
    let catalog = draft.catalog(ws)?;
    let current = catalog.entry(app, name).and_then(|entry| entry.current.as_ref());
    let policy = current.and_then(|current| current.workflow.policy.as_ref());
    let Some(PolicyKind::Queue { max_wait_ms: Some(max) }) = policy.map(|policy| &policy.kind)
    else {
        return Ok(());
    };
    if let Some(row) = draft.run(run)? {
        let mut row = row.clone();
        if matches!(row.phase, Phase::Line { .. }) && row.lacks(Class::Policy) {
            row.due = Some(draft.now().plus_ms(*max));
            draft.put(row);
        }
    }
    Ok(())
}
