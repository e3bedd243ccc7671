//! Stream triggers: a built-in reaction that posts a stream's events to the workflows that ask
//! for them.

use serde_json::json;
use tidegate_core::{
    definition::{Definition, STREAM_PREFIX},
    event::NewEvent,
    json::Payload,
    reaction::{Effect, Reaction, Source},
};

use super::{Code, PARALLEL, ServedReaction};
use crate::stream::StreamEvent;

/// The name of the reaction, the same in every workspace.
const TRIGGERS: &str = "$triggers";

/// Whether a workflow has a stream trigger.
pub(crate) fn asks(workflow: &Definition) -> bool {
    workflow.flow.is_none() && workflow.triggers.iter().any(|it| it.of_stream().is_some())
}

/// The reaction that starts workflows by their stream triggers.
///
/// It begins where streams are when it is first defined: whoever adds the first trigger does not
/// mean all that ever happened.
pub(crate) fn triggers() -> ServedReaction {
    ServedReaction {
        // Nothing that it does can fail for good, so it does not stop.
        definition: Reaction {
            from_head: true,
            block_on_error: false,
            ..Reaction::new(TRIGGERS, Source::All)
        },
        parallel: PARALLEL,
        code: Code::Triggers,
    }
}

/// What a stream's event comes to: an event named after it, if somebody asks for it.
pub(super) fn effects(event: &StreamEvent) -> Vec<Effect> {
    // Tidegate's own are nobody's business.
    if event.name.starts_with('$') {
        return Vec::new();
    }
    let (name, data) = (format!("{STREAM_PREFIX}{}", event.name), data(event));
    vec![Effect::Trigger(NewEvent { name, data, dedupe_id: None, ts: Some(event.at) })]
}

/// The event's data stays as it was committed, byte for byte.
fn data(event: &StreamEvent) -> Payload {
    let StreamEvent { version, position, .. } = event;
    let (stream, name, data) = (json!(event.stream), json!(event.name), event.data.as_str());
    let (id, at) = (json!(event.id), json!(event.at.rfc3339()));
    let text = format!(
        r#"{{"stream":{stream},"version":{version},"position":{position},"name":{name},"data":{data},"id":{id},"at":{at}}}"#
    );
    Payload::parse(text.as_bytes(), usize::MAX).unwrap_or_else(|_| Payload::null())
}
