//! Sentences about the waits and the listeners of a run.

use crate::row::{Listener, ListenerEffect, Run, WaitOn};

/// Returns what the steps of a run wait for.
pub(super) fn waiting(run: &Run) -> String {
    let each = run.waits.iter().map(|wait| {
        let until = wait.until.map(|at| format!(" until {}", at.rfc3339())).unwrap_or_default();
        let what = match &wait.on {
            WaitOn::Time => "sleeps".to_owned(),
            WaitOn::Retry if wait.pool.is_some() => {
                let pool = wait.pool.as_deref().unwrap_or_default();
                format!("waits for rateLimit of pool `{pool}`")
            }
            WaitOn::Retry => {
                let failures = run.failures.get(&wait.step).copied().unwrap_or_default();
                match run.deferrals.get(&wait.step) {
                    Some(deferrals) => format!(
                        "waits for its retry, failed attempts: {failures}, attempts that have \
                         closed a gate: {deferrals},"
                    ),
                    None => format!("waits for its retry, failed attempts: {failures},"),
                }
            }
            WaitOn::Event { name, .. } => format!("waits for an event `{name}`"),
            WaitOn::Signal { name } | WaitOn::Named { name } => {
                format!("waits for a signal `{name}`")
            }
            WaitOn::Child { run } => format!("waits for its child {run}"),
            WaitOn::Before { run } => return format!("it starts when {run} has completed"),
        };
        match wait.step.as_str() {
            // The error of a handler outside all steps.
            "" => format!("the handler {what}{until}"),
            step => format!("step `{step}` {what}{until}"),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Returns the events that cancel the run, and those in its inbox.
pub(super) fn listeners(run: &Run) -> String {
    let each = run.listeners.iter().map(|listener| {
        let Listener { name, until, effect, .. } = listener;
        let until = until.map(|at| format!(" until {}", at.rfc3339())).unwrap_or_default();
        match effect {
            ListenerEffect::Cancel => {
                format!("; an event `{name}` with its values cancels it{until}")
            }
            ListenerEffect::Keep { kept: 0, .. } => String::new(),
            ListenerEffect::Keep { kept, dropped: 0, .. } => {
                format!("; its inbox has {kept} of `{name}`")
            }
            ListenerEffect::Keep { kept, dropped, .. } => {
                format!("; its inbox has {kept} of `{name}`, and {dropped} found no room")
            }
        }
    });
    each.collect()
}
