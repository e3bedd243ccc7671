//! Remote code: a workflow whose code is in an application that the server calls, by a protocol
//! that may need many calls per run.
//!
//! Core stores protocol and settings unread: a further protocol is no change here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Definition, url};
use crate::definition::{Code, Fields, Problems, Reported, shorten};

/// Maximum size of the settings, in bytes. Every process has all definitions in memory.
const MAX_SETTINGS_BYTES: usize = 16 * 1024;

/// Where the code of a workflow is, and how it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remote {
    /// The protocol's name, such as `inngest`.
    pub protocol: String,
    /// The URL of the application.
    pub url: String,
    /// Settings of the protocol: an object that only the protocol reads.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

impl Remote {
    /// Reads the optional field `remote`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Option<Remote>, Reported> {
        let Some(value) = fields.get("remote") else { return Ok(None) };
        let known = ["protocol", "url", "settings"];
        let mut fields = Fields::open(value, "remote", &known, fields.problems())?;
        let protocol = fields.name("protocol").and_then(|protocol| {
            protocol.ok_or_else(|| fields.missing("protocol", "the name of a protocol"))
        });
        let url = url::read_url(&mut fields).and_then(|url| {
            url.ok_or_else(|| fields.missing("url", "the address of the application"))
        });
        let settings = read_settings(&mut fields);
        Ok(Some(Remote { protocol: protocol?.to_owned(), url: url?, settings: settings? }))
    }

    /// Returns the author's form.
    pub(super) fn to_value(&self) -> Value {
        json!(self)
    }

    /// Returns the code for display: user info in the URL is hidden.
    pub(super) fn public(&self) -> Remote {
        Remote { url: url::without_user(&self.url), ..self.clone() }
    }
}

fn read_settings(fields: &mut Fields<'_>) -> Result<Map<String, Value>, Reported> {
    let Some(value) = fields.get("settings") else { return Ok(Map::new()) };
    let Some(settings) = value.as_object() else {
        let message = format!("must be an object, got {}", shorten(value));
        return Err(fields.error(Code::WrongType, "settings", message));
    };
    let bytes = value.to_string().len();
    if bytes > MAX_SETTINGS_BYTES {
        let message = format!("must have at most {MAX_SETTINGS_BYTES} bytes as JSON, got {bytes}");
        return Err(fields.error(Code::OutOfRange, "settings", message));
    }
    Ok(settings.clone())
}

/// Reports a second place of the code.
pub(super) fn check(workflow: &Definition, problems: &mut Problems) {
    if workflow.remote.is_some() && workflow.url.is_some() {
        let message = "cannot be beside `url`: the code is in one place, keep one of them";
        problems.error(Code::Conflict, "remote", message);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::definition::{Definition, testing::problems};

    // spec A4
    #[test]
    fn an_incomplete_place_of_the_code_is_refused() {
        let url = "http://h/api";
        let whole = json!({ "protocol": "p", "url": url });
        let large = "x".repeat(16 * 1024);
        let all = [
            json!({ "remote": url }),
            json!({ "remote": {} }),
            json!({ "remote": { "protocol": 1, "url": "h", "settings": [], "key": 1 } }),
            json!({ "remote": { "protocol": "p", "url": url, "settings": { "a": large } } }),
            json!({ "remote": whole, "url": url }),
            json!({ "remote": whole, "onFailure": true }),
            json!({ "remote": whole, "onFailure": { "url": url } }),
        ];
        let all = all.map(|fields| problems(&fields)).concat();
        expect![[r#"
            workflow `w`: remote must be an object of `protocol`, `url`, `settings`, got "http://h/api"
            workflow `w`: remote.protocol is required: the name of a protocol
            workflow `w`: remote.url is required: the address of the application
            workflow `w`: remote.key is not known: known are `protocol`, `url`, `settings`
            workflow `w`: remote.protocol must be a text, got 1
            workflow `w`: remote.url must begin with `http://` or `https://` and a host, got `h`
            workflow `w`: remote.settings must be an object, got []
            workflow `w`: remote.settings must have at most 16384 bytes as JSON, got 16392
            workflow `w`: remote cannot be beside `url`: the code is in one place, keep one of them
            workflow `w`: onFailure cannot be beside `remote`, whose protocol has its own way to handle failures: remove it
            workflow `w`: onFailure cannot be beside `remote`, whose protocol has its own way to handle failures: remove it
        "#]].assert_eq(&all);
    }

    #[test]
    fn both_forms_are_read_again() {
        let value = json!({ "app": "shop", "name": "w", "callTimeoutMs": 5, "remote": {
            "protocol": "p", "url": "http://me:secret@h/api?a=b",
            "settings": { "id": "shop-w", "z": 1, "a": [1.5, null] },
        } });
        let parsed = Definition::parse(&value).unwrap();
        assert_eq!(parsed.warnings, []);
        let definition = parsed.value;
        assert_eq!(definition.to_value(), value);
        let stored = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), definition);
        let shown = definition.public().to_value();
        assert_eq!(shown["remote"]["url"], "http://***@h/api?a=b");
        assert!(definition.is_called() && !Definition::new("shop", "w").is_called());
    }
}
