//! Open windows and buffers, by workflow.

use serde::Serialize;

use crate::{
    definition::Definition,
    draft::{Decided, Draft, Missing},
    flow::policy::PolicyKind,
    reads::Scan,
    row::{Class, Fold, GateKey, GateState, Row, Workspace},
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Maximum number of open windows or buffers of one workflow that are returned and counted.
pub const KEYS: u32 = 1000;

/// Open folds of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FlowState {
    /// The workflows with `debounce` or `batch`, by app and name.
    pub workflows: Vec<WorkflowFolds>,
}

/// Open folds of one workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WorkflowFolds {
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The workflow's windows, including those of the policy `debounce`.
    pub debounce: OpenFolds<Window>,
    /// The workflow's buffers.
    pub batch: OpenFolds<Buffer>,
}

/// Open windows or buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Open{T}s"))]
#[serde(rename_all = "camelCase")]
pub struct OpenFolds<T> {
    /// Total number of events in the windows or buffers.
    pub pending: u64,
    /// The windows or buffers, by key.
    pub keys: Vec<T>,
    /// Whether there are more windows or buffers than the list has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl<T> Default for OpenFolds<T> {
    fn default() -> Self {
        Self { pending: 0, keys: Vec::new(), at_least: false }
    }
}

/// An open window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// The display key.
    pub key: String,
    /// Number of events in the window.
    pub pending: u64,
    /// When the window fires if no further event arrives; none if it is held or paused.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub fire_at: Option<Timestamp>,
    /// Whether the window is due but held: its run would be skipped, so the window waits for the
    /// end of the run that holds the gate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether a user has paused the window.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// An open buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Buffer {
    /// The display key.
    pub key: String,
    /// Number of events in the buffer.
    pub pending: u64,
    /// The maximum number of events, by the current release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// The latest time of the flush; none if the buffer is held or paused.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub flush_at: Option<Timestamp>,
    /// Whether the buffer is due but held: its run would be skipped, so the buffer waits for the
    /// end of the run that holds the gate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether a user has paused the buffer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Returns the open folds of a workspace; with a filter, only those of one app or workflow.
pub fn flow_state<E>(
    draft: &Draft,
    ws: &Workspace,
    app: Option<&str>,
    workflow: Option<&str>,
) -> Decided<FlowState, E> {
    let catalog = draft.catalog(ws)?;
    let mut missing = Missing::default();
    let mut state = FlowState::default();
    for ((of, name), entry) in catalog.entries() {
        let selected = app.is_none_or(|app| app == of) && workflow.is_none_or(|it| it == name);
        let Some(current) = entry.current.as_ref().filter(|_| selected) else { continue };
        let mut shown = WorkflowFolds {
            app: of.to_owned(),
            workflow: name.to_owned(),
            ..WorkflowFolds::default()
        };
        for class in [Class::Debounce, Class::Quiet, Class::Batch] {
            let scan = Scan::Gates(GateKey::prefix(ws, class, of, name));
            let Some(rows) = missing.note(draft.found(&scan, KEYS))? else { continue };
            fill(&mut shown, class, &current.workflow, &rows);
        }
        let open = shown.debounce.keys.len() + shown.batch.keys.len() > 0;
        if open || folds(&current.workflow) {
            state.workflows.push(shown);
        }
    }
    missing.settle()?;
    Ok(state)
}

/// Whether a workflow has a control that opens windows or buffers.
fn folds(workflow: &Definition) -> bool {
    let quiet = |kind: &PolicyKind| matches!(kind, PolicyKind::Debounce { .. });
    workflow.debounce.is_some()
        || workflow.batch.is_some()
        || workflow.policy.as_ref().is_some_and(|policy| quiet(&policy.kind))
}

fn fill(shown: &mut WorkflowFolds, class: Class, workflow: &Definition, rows: &[&Row]) {
    let full = rows.len() >= KEYS as usize;
    for (key, fold) in rows.iter().filter_map(|row| open(row)) {
        let pending =
            u64::from(fold.count) + fold.full.iter().map(|part| u64::from(part.count)).sum::<u64>();
        let (held, paused) = (fold.held, fold.paused);
        let at = Some(fold.deadline).filter(|_| !held && !paused);
        if class == Class::Batch {
            let max_size = workflow.batch.as_ref().map(|batch| batch.max_size);
            shown.batch.pending += pending;
            shown.batch.keys.push(Buffer { key, pending, max_size, flush_at: at, held, paused });
        } else {
            shown.debounce.pending += pending;
            shown.debounce.keys.push(Window { key, pending, fire_at: at, held, paused });
        }
    }
    let at_least = if class == Class::Batch {
        &mut shown.batch.at_least
    } else {
        &mut shown.debounce.at_least
    };
    *at_least |= full;
}

/// Returns the key and the fold, if the row is a fold that has not fired. A fired fold already has
/// a run.
fn open(row: &Row) -> Option<(String, &Fold)> {
    let gate = row.as_gate()?;
    let GateState::Fold(fold) = &gate.state else { return None };
    let key = gate.key.scope()?.key.to_string();
    (!fold.fired).then_some((key, fold))
}
