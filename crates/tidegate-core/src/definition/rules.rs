//! Rules for the parts of a definition that are not controls: triggers, failure handlers and calls.

use super::{Definition, Trigger, on_too_many, remote};
use crate::{
    definition::{Code, Problems},
    flow::cancel_on,
};

/// Reports conflicts between the parts of a definition that are not controls.
pub(super) fn check(workflow: &Definition, problems: &mut Problems) {
    check_triggers(workflow, problems);
    remote::check(workflow, problems);
    workflow.on_failure.check(workflow, problems);
    on_too_many::check(workflow, problems);
    for (n, entry) in workflow.waits_for.iter().enumerate() {
        cancel_on::check_values(workflow, entry, &format!("waitsFor[{n}]"), problems);
    }
    if !workflow.waits_for.is_empty() && workflow.url.is_some() {
        problems.warn(
            Code::NoEffect,
            "waitsFor",
            "has no effect beside `url`: a called service answers, and waits for no event",
        );
    }
    if workflow.call_timeout_ms.is_some() && !workflow.is_called() {
        problems.warn(
            Code::NoEffect,
            "callTimeoutMs",
            "has no effect without `url`, whose calls it limits",
        );
    }
}

/// Reports triggers of actions other than `cron`, and warns of event triggers whose events another
/// trigger already matches.
fn check_triggers(workflow: &Definition, problems: &mut Problems) {
    for (n, trigger) in workflow.triggers.iter().enumerate() {
        let field = format!("triggers[{n}]");
        let timed = matches!(trigger, Trigger::Cron { .. });
        if workflow.flow.is_some() && !timed {
            let message = "is not allowed on an action, which only requests and `cron` start: \
                           make it a workflow, or remove this trigger";
            problems.error(Code::Misplaced, &field, message);
        }
        let Trigger::Event { name, prefix, condition } = trigger else { continue };
        let covers = |other: &Trigger| match other {
            // Events for which its condition does not hold are left to this trigger.
            _ if other.condition().is_some_and(|other| Some(other) != condition.as_ref()) => false,
            Trigger::Event { prefix: true, .. } => other.matches(name),
            Trigger::Event { prefix: false, .. } => !prefix && other.matches(name),
            Trigger::Cron { .. } | Trigger::Stream { .. } => false,
        };
        let mut others = workflow.triggers.iter().enumerate();
        let first =
            others.find(|(m, other)| *m != n && covers(other) && (*m < n || *other != trigger));
        if let Some((m, _)) = first {
            let message = format!("has no effect: triggers[{m}] already matches all of its events");
            problems.warn(Code::NoEffect, &field, message);
        }
    }
}
