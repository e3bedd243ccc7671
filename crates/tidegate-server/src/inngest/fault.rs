//! Errors of the code of an app: what an SDK sends of an exception, and what it gets back.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tidegate::StepError;

/// Error of an app, as its SDK has sent it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct AppError {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    message: Option<String>,
    /// Some errors of the SDKs themselves have only this.
    #[serde(default)]
    error: Option<String>,
}

/// Name of the error with which JS gives up a call after a checkpoint was refused with 409.
const STALE: &str = "StaleDispatchError";

/// Maximum number of characters of a body that an error message quotes.
const QUOTED: usize = 200;

/// Maximum number of characters of an error's name: the limit of an error code.
const NAME: usize = 100;

impl AppError {
    /// Reads an error: the object of the SDKs, a text, or something else, which is quoted.
    pub(super) fn read(json: &str) -> Self {
        if let Ok(error) = serde_json::from_str::<Self>(json)
            && error.text().is_some()
        {
            return error;
        }
        let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
        Self { message: Some(quote(&text)), ..Self::default() }
    }

    fn text(&self) -> Option<&str> {
        self.message.as_deref().or(self.error.as_deref())
    }

    /// Returns whether the SDK has given up the call because a newer one has taken over.
    pub(super) fn is_stale(&self) -> bool {
        self.name.as_deref() == Some(STALE)
    }
}

/// Converts an error of the app into one of a step: its name becomes the code. The error as
/// received is kept beside, because the app gets it back unchanged.
pub(super) fn step_error(json: &str) -> StepError {
    let error = AppError::read(json);
    let name: String = error.name.as_deref().unwrap_or("Error").chars().take(NAME).collect();
    let code = if name.is_empty() { "Error".to_owned() } else { name };
    let step_error = StepError::coded(code, error.text().unwrap_or_default());
    match serde_json::from_str::<Value>(json) {
        Ok(details) if details.get("message").is_some() => step_error.with_details(details),
        Ok(_) | Err(_) => step_error,
    }
}

/// Returns the start of a body for an error message.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether and when a call that has failed is repeated, by the headers of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Again {
    /// `x-inngest-no-retry: true`.
    pub(super) never: bool,
    /// `Retry-After`.
    pub(super) after: Option<Duration>,
}

impl Again {
    /// Applies the decision to an error.
    pub(super) fn apply(self, error: StepError) -> StepError {
        match self {
            Self { never: true, .. } => error.fatal(),
            Self { after: Some(delay), .. } => error.retry_after(delay),
            Self { .. } => error,
        }
    }
}

/// Returns the text of an optional part of JSON.
pub(super) fn text_of(part: Option<&RawValue>) -> &str {
    part.map_or("null", RawValue::get)
}
