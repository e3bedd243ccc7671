//! The failure handler of a workflow: code in the same program, or a URL of its own.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Definition,
    url::{read_url, without_user},
};
use crate::definition::{Code, Fields, Problems, Reported, shorten};

/// The setting `onFailure`: the handler that is executed after a run has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum OnFailure {
    /// No handler.
    #[default]
    Nobody,
    /// A handler in the program that serves the workflow.
    Code,
    /// A service that is called over HTTP.
    Call {
        /// The URL of the service.
        url: String,
    },
}

/// Form in a stored definition. Older definitions, which could have a handler only in code, have
/// a flag instead of an object.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Flag(bool),
    Call { url: String },
}

impl From<Stored> for OnFailure {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Flag(false) => Self::Nobody,
            Stored::Flag(true) => Self::Code,
            Stored::Call { url } => Self::Call { url },
        }
    }
}

impl From<OnFailure> for Stored {
    fn from(on_failure: OnFailure) -> Self {
        match on_failure {
            OnFailure::Nobody => Self::Flag(false),
            OnFailure::Code => Self::Flag(true),
            OnFailure::Call { url } => Self::Call { url },
        }
    }
}

impl OnFailure {
    /// Reads `true`, `false` or an object with a `url`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<OnFailure, Reported> {
        match fields.get("onFailure") {
            None | Some(Value::Bool(false)) => Ok(OnFailure::Nobody),
            Some(Value::Bool(true)) => Ok(OnFailure::Code),
            Some(value @ Value::Object(_)) => {
                let mut fields = Fields::open(value, "onFailure", &["url"], fields.problems())?;
                match read_url(&mut fields)? {
                    Some(url) => Ok(OnFailure::Call { url }),
                    None => Err(fields.missing("url", "where the failure handler is called")),
                }
            }
            Some(value) => {
                let rule = r#"must be `{"url": "https://…"}` beside `url`, or else true or false"#;
                let message = format!("{rule}, got {}", shorten(value));
                Err(fields.error(Code::WrongType, "onFailure", message))
            }
        }
    }

    /// Reports a handler in code for a workflow that is called by URL, and a handler URL for a
    /// workflow in code.
    pub(super) fn check(&self, workflow: &Definition, problems: &mut Problems) {
        let message = match (self, &workflow.url) {
            (OnFailure::Code | OnFailure::Call { .. }, _) if workflow.remote.is_some() => {
                "cannot be beside `remote`, whose protocol has its own way to handle failures: \
                 remove it"
            }
            (OnFailure::Code, Some(_)) => {
                "cannot be true beside `url`, which would be called again with the work that has \
                 failed: name the service that handles failures, `{\"url\": \"https://…\"}`"
            }
            (OnFailure::Call { .. }, None) => {
                "cannot be called for a workflow without `url`: give the program that serves it a \
                 handler, `on_failure(…)`"
            }
            _ => return,
        };
        problems.error(Code::Conflict, "onFailure", message);
    }

    /// Returns the handler for display: user info in the URL is hidden.
    pub(super) fn public(&self) -> OnFailure {
        match self {
            OnFailure::Call { url } => OnFailure::Call { url: without_user(url) },
            OnFailure::Nobody | OnFailure::Code => self.clone(),
        }
    }

    /// Returns the author's form; none without a handler.
    pub(super) fn to_value(&self) -> Option<Value> {
        match self {
            OnFailure::Nobody => None,
            OnFailure::Code => Some(json!(true)),
            OnFailure::Call { url } => Some(json!({ "url": url })),
        }
    }
}
