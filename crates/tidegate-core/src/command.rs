//! What callers ask for, and what they are told.

/// A plain no: nothing changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such run in this workspace.
    #[error("there is no run `{0}`")]
    NoRun(String),
}
