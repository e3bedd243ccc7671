//! Key functions: keys that a program computes from requests.
//!
//! A definition names the function; the engines that serve the action have its code. An engine
//! without the function computes no key, and the policy refuses the request: a request without a
//! key would bypass the policy.

use tidegate_core::{
    id::RunId,
    json::Payload,
    key::Key,
    reads::ReadSet,
    request::Request,
    row::{Event, Row, RowKey},
};

use crate::{api::Engine, error::Error};

impl Engine {
    /// Returns the key that the key function of the action computes for a request.
    pub(crate) fn function_key(&self, request: &Request) -> Option<Key> {
        let action = format!("{}/{}", request.flow, request.action);
        let function = self.key_function(&request.app, &action)?;
        Some(function(request))
    }

    /// Returns the key that the key function computes for the request of an ended run, or for that
    /// request with another input.
    pub(crate) async fn function_key_again(
        &self,
        run: RunId,
        input: Option<&Payload>,
    ) -> Result<Option<Key>, Error> {
        let (_, Some(ended)) = self.look_up(run).await? else { return Ok(None) };
        let Some((flow, action)) = ended.workflow.split_once('/') else { return Ok(None) };
        let Some(function) = self.key_function(&ended.app, &ended.workflow) else {
            return Ok(None);
        };
        let key = RowKey::Event(ended.source.first().seq);
        let snapshot = self.store().read(ReadSet::default().row(key.clone())).await?;
        let Some(Some(Row::Event(event))) = snapshot.rows.get(&key) else { return Ok(None) };
        let part = |name: &str| part(event, name);
        let request = Request {
            app: ended.app.clone(),
            flow: flow.to_owned(),
            action: action.to_owned(),
            input: input.cloned().unwrap_or_else(|| part("input")),
            session: serde_json::from_str(part("session").as_str()).ok(),
            user: serde_json::from_str(part("user").as_str()).ok(),
            metadata: part("metadata"),
            function_key: None,
            max_wait_ms: None,
            deliver: None,
        };
        Ok(Some(function(&request)))
    }
}

/// Returns one member of the recorded request, such as its input.
fn part(event: &Event, name: &str) -> Payload {
    let text = event.data.select(&[name.to_owned()]);
    let part = text.and_then(|text| Payload::parse(text.as_bytes(), usize::MAX).ok());
    part.unwrap_or_else(Payload::null)
}
