//! The three kinds of ingress of a flow, as callers use them: HTTP, chat and webhooks.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::server::Server;

/// Secrets of webhook signatures, as environment variables of the servers.
pub(crate) const SECRETS: [(&str, &str); 1] = [("HOOK_SECRET", "secret")];

/// Returns the config of a flow whose action `act` is reachable through every ingress. The policy
/// belongs to the flow, so that it applies to each ingress; the controls belong to the action.
pub(crate) fn flow(name: &str, policy: &str, controls: &str, url: &str) -> String {
    format!(
        r#"
        [[flow]]
        name = "{name}"
        {policy}
        chat = {{ append = "append", respond = "act" }}
        actions.append = {{ url = "{url}/append", concurrency = "allow" }}
        actions.act = {{ url = "{url}/act" {controls} }}
        webhooks.hook = {{ action = "act", scheme = "hmac", secretEnv = "HOOK_SECRET", session = "session", user = "user" }}
        "#
    )
}

/// Kind of ingress.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Http,
    Chat,
    Webhook,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Chat, Self::Webhook];

    /// Requests the action for a session. Returns the status, and the answer or the first event of
    /// a streamed answer.
    pub(crate) async fn ask(self, server: &Server, flow: &str, session: &str) -> (u16, Value) {
        match self {
            Self::Http => {
                let path = format!("/flows/{flow}/actions/act");
                let (status, reply) = server.post(&path, json!({ "session": session })).await;
                (status.as_u16(), reply)
            }
            Self::Chat => {
                let path = format!("/flows/{flow}/sessions/{session}/messages");
                let mut answer = server.open(&path, String::new()).await;
                let status = answer.status().as_u16();
                if status != 200 {
                    return (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap());
                }
                let mut text = String::new();
                while !text.contains("\n\n") {
                    let chunk = answer.chunk().await.unwrap().expect("the stream must not end");
                    text += std::str::from_utf8(&chunk).unwrap();
                }
                let (kind, data) = events(&text).remove(0);
                assert_eq!(kind, "accepted");
                (status, data)
            }
            Self::Webhook => deliver(server, flow, json!({ "session": session })).await,
        }
    }
}

/// Sends a signed delivery to the webhook of a flow.
pub(crate) async fn deliver(server: &Server, flow: &str, body: Value) -> (u16, Value) {
    let body = body.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").unwrap();
    mac.update(body.as_bytes());
    let signature = mac.finalize().into_bytes();
    let signature = signature.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let headers = [("x-signature", signature.as_str())];
    let (status, answer) =
        server.post_with(&format!("/webhooks/{flow}/hook"), &headers, body).await;
    (status.as_u16(), answer)
}

/// Returns the name and data of each server-sent event that has data.
pub(crate) fn events(text: &str) -> Vec<(String, Value)> {
    let part = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start().to_owned())
    };
    let read = |event: &str| {
        let data = serde_json::from_str(&part(event, "data:")?).unwrap();
        Some((part(event, "event:").unwrap_or_default(), data))
    };
    text.split("\n\n").filter_map(read).collect()
}
