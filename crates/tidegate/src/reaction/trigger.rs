//! Stream triggers: a built-in reaction that posts a stream's events to the workflows that they
//! trigger.

use serde_json::json;
use tidegate_core::{
    definition::{Definition, STREAM_PREFIX},
    event::NewEvent,
    json::Payload,
    reaction::{Effect, Reaction, Source},
};

use super::{Code, PARALLEL, ServedReaction};
use crate::stream::StreamEvent;

/// Name of the reaction, the same in every workspace.
const TRIGGERS: &str = "$triggers";

/// Returns whether a workflow has a stream trigger.
pub(crate) fn asks(workflow: &Definition) -> bool {
    workflow.flow.is_none() && workflow.triggers.iter().any(|it| it.of_stream().is_some())
}

/// Returns the built-in reaction that starts workflows by their stream triggers.
///
/// It starts at the heads of the streams when it is first defined, because a new trigger is not
/// meant for past events.
pub(crate) fn triggers() -> ServedReaction {
    ServedReaction {
        // None of its effects can fail permanently, so no stream needs to be blocked.
        definition: Reaction {
            from_head: true,
            block_on_error: false,
            ..Reaction::new(TRIGGERS, Source::All)
        },
        parallel: PARALLEL,
        code: Code::Triggers,
    }
}

/// Returns the effects of a stream's event: a workflow event with the prefixed name, for the
/// workflows that it triggers.
pub(super) fn effects(event: &StreamEvent) -> Vec<Effect> {
    // Built-in events trigger no workflow.
    if event.name.starts_with('$') {
        return Vec::new();
    }
    let (name, data) = (format!("{STREAM_PREFIX}{}", event.name), data(event));
    vec![Effect::Trigger(NewEvent { ts: Some(event.at), ..NewEvent::new(name, data) })]
}

/// Builds the data of the workflow event. The stream event's own data stays unchanged, byte for
/// byte.
fn data(event: &StreamEvent) -> Payload {
    let StreamEvent { version, position, .. } = event;
    let (stream, name, data) = (json!(event.stream), json!(event.name), event.data.as_str());
    let (id, at) = (json!(event.id), json!(event.at.rfc3339()));
    let text = format!(
        r#"{{"stream":{stream},"version":{version},"position":{position},"name":{name},"data":{data},"id":{id},"at":{at}}}"#
    );
    Payload::parse(text.as_bytes(), usize::MAX).unwrap_or_else(|_| Payload::null())
}
