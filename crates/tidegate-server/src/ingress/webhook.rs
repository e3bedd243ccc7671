//! Webhooks: checks the signature of a delivery, and reads the session and the user for its
//! request.

use anyhow::{Context, bail};
use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::{json::Payload, key::Path, time::Timestamp};

use crate::sign::Secret;

/// Maximum difference between a delivery's timestamp and the current time, in seconds.
const WINDOW: i64 = 300;

/// Signature scheme of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Scheme {
    /// The Standard Webhooks specification.
    Standard,
    /// GitHub. Its signature has no timestamp.
    Github,
    Stripe,
    Slack,
    /// HMAC-SHA256 of the body alone, in hexadecimal.
    Hmac,
}

/// A webhook as it is written in the config file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    action: String,
    scheme: Scheme,
    secret_env: String,
    /// Header with the signature, for the scheme `hmac`.
    header: Option<String>,
    /// Event types to accept; all types by default.
    events: Option<Vec<String>>,
    session: Option<String>,
    user: Option<String>,
}

/// Webhook of one sender.
#[derive(Debug)]
pub(crate) struct Webhook {
    pub(crate) action: String,
    scheme: Scheme,
    header: String,
    secrets: Vec<Secret>,
    events: Option<Vec<String>>,
    session: Option<Path>,
    user: Option<Path>,
}

/// A delivery with a valid signature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Id of the delivery, given by the sender. A repeated delivery has the same id.
    id: Option<String>,
    /// Event type, given by the sender.
    event: Option<String>,
}

impl Webhook {
    /// Reads a webhook from the config file. A missing secret is an error here, at the start, and
    /// not at the first delivery.
    pub(crate) fn read(
        value: &Value,
        environment: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let written = Written::deserialize(value)?;
        let variable = &written.secret_env;
        let text = environment(variable);
        let text =
            text.with_context(|| format!("`secretEnv`: the variable {variable} is not set"))?;
        let secrets = match written.scheme {
            Scheme::Standard => Secret::read_all(&text)?,
            Scheme::Github | Scheme::Stripe | Scheme::Slack | Scheme::Hmac => {
                Secret::read_plain(&text)
            }
        };
        if secrets.is_empty() {
            bail!("`secretEnv`: {variable} is empty");
        }
        let path = |text: Option<String>| text.map(|text| Path::parse(&text)).transpose();
        Ok(Self {
            action: written.action,
            scheme: written.scheme,
            header: written.header.unwrap_or_else(|| "x-signature".to_owned()).to_lowercase(),
            secrets,
            events: written.events,
            session: path(written.session)?,
            user: path(written.user)?,
        })
    }

    /// Checks the signature and the timestamp of a delivery. The error text says why it is
    /// rejected.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Delivery, String> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let header =
            |name: &str| text(name).ok_or_else(|| format!("the header `{name}` is missing"));
        let in_body = |name: &str| member(body, name);
        match self.scheme {
            Scheme::Standard => {
                let (id, at) = (header("webhook-id")?, header("webhook-timestamp")?);
                fresh(at, now)?;
                let signatures = header("webhook-signature")?.split(' ');
                let signatures = signatures.filter_map(|it| it.strip_prefix("v1,"));
                let signatures = signatures.filter_map(|it| STANDARD.decode(it).ok());
                let signed = [id.as_bytes(), b".", at.as_bytes(), b".", body];
                self.verify(&signed, signatures)?;
                Ok(Delivery { id: Some(id.to_owned()), event: in_body("type") })
            }
            Scheme::Github => {
                let signature = header("x-hub-signature-256")?.strip_prefix("sha256=");
                self.verify(&[body], signature.and_then(bytes_of).into_iter())?;
                let owned = |name| text(name).map(str::to_owned);
                Ok(Delivery { id: owned("x-github-delivery"), event: owned("x-github-event") })
            }
            Scheme::Stripe => {
                let parts = header("stripe-signature")?.split(',');
                let parts: Vec<_> = parts.filter_map(|part| part.trim().split_once('=')).collect();
                let at = parts.iter().find(|(name, _)| *name == "t").map(|(_, at)| *at);
                let at = at.ok_or("`stripe-signature` has no timestamp")?;
                fresh(at, now)?;
                let signatures = parts.iter().filter(|(name, _)| *name == "v1");
                let signatures = signatures.filter_map(|(_, hex)| bytes_of(hex));
                self.verify(&[at.as_bytes(), b".", body], signatures)?;
                Ok(Delivery { id: in_body("id"), event: in_body("type") })
            }
            Scheme::Slack => {
                let at = header("x-slack-request-timestamp")?;
                fresh(at, now)?;
                let signature = header("x-slack-signature")?.strip_prefix("v0=");
                let signed = [b"v0:", at.as_bytes(), b":", body];
                self.verify(&signed, signature.and_then(bytes_of).into_iter())?;
                Ok(Delivery { id: in_body("event_id"), event: in_body("type") })
            }
            Scheme::Hmac => {
                let signature = header(&self.header)?;
                let signature = signature.strip_prefix("sha256=").unwrap_or(signature);
                self.verify(&[body], bytes_of(signature).into_iter())?;
                Ok(Delivery { id: in_body("id"), event: in_body("type") })
            }
        }
    }

    /// Checks every signature with every secret, so that the duration does not depend on which
    /// secret matches.
    fn verify(
        &self,
        signed: &[&[u8]],
        signatures: impl Iterator<Item = Vec<u8>>,
    ) -> Result<(), String> {
        let tried = signatures.flat_map(|signature| {
            self.secrets.iter().map(move |secret| secret.has_signed(signed, &signature))
        });
        let right = tried.fold(false, |right, one| right | one);
        if right { Ok(()) } else { Err("the signature does not match the body".to_owned()) }
    }

    /// Whether the webhook accepts this event type.
    pub(crate) fn takes(&self, delivery: &Delivery) -> bool {
        let Some(events) = &self.events else { return true };
        delivery.event.as_ref().is_some_and(|event| events.contains(event))
    }

    /// Returns the session and the user of a delivery, if the body has values at their paths.
    pub(crate) fn subjects(&self, body: &Payload) -> (Option<String>, Option<String>) {
        let at = |path: &Option<Path>| {
            let found = body.text_at(path.as_ref()?)?;
            let value: Value = serde_json::from_str(found).ok()?;
            match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            }
        };
        (at(&self.session), at(&self.user))
    }

    /// Returns the metadata of the request that a delivery becomes.
    pub(crate) fn metadata(name: &str, delivery: &Delivery) -> Value {
        let Delivery { id, event } = delivery;
        json!({ "webhook": { "name": name, "deliveryId": id, "event": event } })
    }

    /// Returns the answer to Slack's `url_verification`, which Slack sends once to check the URL.
    pub(crate) fn challenge(&self, body: &[u8]) -> Option<String> {
        let asks = self.scheme == Scheme::Slack
            && member(body, "type").as_deref() == Some("url_verification");
        if asks { member(body, "challenge") } else { None }
    }
}

/// Returns a string member of a JSON object.
fn member(body: &[u8], name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get(name)?.as_str().map(str::to_owned)
}

/// Checks that a timestamp is in seconds since 1970 and close to now. A timestamp in milliseconds
/// is rejected, because it is far in the future.
fn fresh(at: &str, now: Timestamp) -> Result<(), String> {
    let not_seconds = |_| format!("the timestamp `{at}` is not a number of seconds");
    let seconds: i64 = at.parse().map_err(not_seconds)?;
    let apart = seconds.saturating_sub(now.micros() / 1_000_000);
    if apart.unsigned_abs() <= WINDOW.unsigned_abs() {
        return Ok(());
    }
    Err(format!("the timestamp {seconds} is more than {WINDOW} s from now"))
}

/// Decodes a signature in hexadecimal.
fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName};
    use serde_json::json;
    use tidegate_core::{json::Payload, time::Timestamp};

    use super::{Delivery, Webhook};
    use crate::sign;

    fn webhook(scheme: &str, secret: &str) -> Webhook {
        let written = json!({
            "action": "a", "scheme": scheme, "secretEnv": "S",
            "session": "repository.full_name", "user": "sender.id",
        });
        Webhook::read(&written, |_| Some(secret.to_owned())).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    /// Checks the example deliveries that the senders publish.
    #[test]
    fn known_signatures_are_accepted_and_changed_bodies_are_not() {
        let github = (
            webhook("github", "It's a Secret to Everybody"),
            headers(&[(
                "x-hub-signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            )]),
            "Hello, World!",
            0,
        );
        let slack = (
            webhook("slack", "8f742231b10e8888abcd99yyyzzz85a5"),
            headers(&[
                ("x-slack-request-timestamp", "1531420618"),
                (
                    "x-slack-signature",
                    "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
                ),
            ]),
            "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
             &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
             &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F\
             commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=\
             398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
            1_531_420_618,
        );
        let standard = (
            webhook("standard", "old,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            headers(&[
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                ("webhook-timestamp", "1614265330"),
                ("webhook-signature", "v1,xx v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ]),
            r#"{"test": 2432232314}"#,
            1_614_265_330,
        );
        // Same header as `stripe.WebhookSignature.generate_signature_header` makes.
        let stripe = (
            webhook("stripe", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            headers(&[(
                "stripe-signature",
                "t=1614265330,v1=d69dcf983c97f0de9d92a4bfb76b01cf3c1ee9982fa2d6bff92d5ea77794aea3",
            )]),
            r#"{"id": "evt_1"}"#,
            1_614_265_330,
        );
        for (webhook, headers, body, time) in [github, slack, standard, stripe] {
            let check = |body: &str, time| webhook.check(&headers, body.as_bytes(), at(time));
            check(body, time).unwrap();
            let changed = format!("{}?", &body[..body.len() - 1]);
            assert!(check(&changed, time).unwrap_err().contains("does not match the body"));
            let others = super::Scheme::Github == webhook.scheme;
            for wrong in [time + 301, time - 301] {
                assert_eq!(check(body, wrong).is_ok(), others, "{:?}", webhook.scheme);
            }
            let bare = HeaderMap::new();
            let error = webhook.check(&bare, body.as_bytes(), at(time)).unwrap_err();
            assert!(error.contains("is missing"), "{error}");
        }
    }

    #[test]
    fn a_delivery_has_a_name_and_subjects() {
        let webhook = webhook("standard", "s");
        let body = r#"{"type": "push", "repository": {"full_name": "a/b"}, "sender": {"id": 7}}"#;
        let secrets = sign::Secret::read_all("s").unwrap();
        let signature = sign::standard(&secrets, "d1", 100, body);
        let headers = headers(&[
            ("webhook-id", "d1"),
            ("webhook-timestamp", "100"),
            ("webhook-signature", &signature),
        ]);
        let delivery = webhook.check(&headers, body.as_bytes(), at(0)).unwrap();
        assert_eq!(delivery, Delivery { id: Some("d1".into()), event: Some("push".into()) });
        let payload = Payload::parse(body.as_bytes(), 1000).unwrap();
        assert_eq!(webhook.subjects(&payload), (Some("a/b".into()), Some("7".into())));
    }

    #[test]
    fn a_webhook_without_a_secret_is_refused() {
        let written = json!({ "action": "a", "scheme": "github", "secretEnv": "NONE" });
        let error = |value| Webhook::read(value, |_| None).unwrap_err().to_string();
        assert_eq!(error(&written), "`secretEnv`: the variable NONE is not set");
        let unknown = json!({ "action": "a", "scheme": "gitlab", "secretEnv": "NONE" });
        assert!(error(&unknown).contains("unknown variant `gitlab`, expected one of `standard`"));
    }
}
