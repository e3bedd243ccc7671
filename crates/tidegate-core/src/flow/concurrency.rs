//! Concurrency: bound how many runs are inside at once, and let the others wait in line.
//!
//! Use it to protect what the runs call. Several limits can stand side by side, for example 10 in
//! all and 1 per account. With the span `executing` only runs that a worker drives right now
//! count; with `run` a run counts until it is over, sleeping or not.
//!
//! Acts towards the start. On overflow: wait, order kept. Remembers its holders per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::written;
use crate::{
    definition::{Fields, Reported},
    key::Path,
};

/// What the workflow's author writes: one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// The most runs inside at once, over all engines.
    pub limit: u32,
    /// What is counted apart; the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// When a run counts.
    pub span: Span,
}

/// How long a run holds its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Span {
    /// Only while a worker drives it; a sleeping run holds nothing.
    #[default]
    Executing,
    /// Until it is over.
    Run,
}

pub(super) const FIELDS: &[&str] = &["limit", "key", "span"];

impl Concurrency {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Concurrency, Reported> {
        let limit = fields.count("limit");
        let key = fields.path("key");
        let span = fields.word("span", &[("executing", Span::Executing), ("run", Span::Run)]);
        Ok(Concurrency { limit: limit?, key: key?, span: span?.unwrap_or_default() })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("span", json!("executing"))])
    }
}
