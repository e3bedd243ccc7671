//! The rules between controls: what is refused because it would lose events or mean nothing, and
//! what is only odd.

use super::{Definition, Trigger};
use crate::{
    definition::{Code, Problems},
    flow::{
        concurrency::Span,
        handoff::{HandoffScope, OnNewVersion},
        policy::{PolicyKey, PolicyKind},
        singleton::Mode,
    },
    key::Path,
};

/// Reports what the controls of a definition have against each other.
///
/// `limits_at` says where each of the concurrency limits stands.
pub(super) fn check(workflow: &Definition, limits_at: &[String], problems: &mut Problems) {
    let limits = limits(workflow, limits_at);
    check_limits(&limits, &exclusive(workflow), problems);
    check_batch(workflow, &limits, problems);
    check_handoff(workflow, problems);
    check_policy(workflow, problems);
    check_triggers(workflow, problems);
    check_bursts(workflow, problems);
    workflow.on_failure.check(workflow.url.as_deref(), problems);
    if workflow.call_timeout_ms.is_some() && workflow.url.is_none() {
        problems.warn(
            Code::NoEffect,
            "callTimeoutMs",
            "bounds the calls of a `url`, and there is none",
        );
    }
}

/// The longest that a burst may take to come back: 100 years, far inside of what a moment holds.
const LONGEST_REFILL_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1000;

/// A burst that never comes back in anybody's lifetime is a mistake, and would not fit a clock.
fn check_bursts(workflow: &Definition, problems: &mut Problems) {
    let throttle = workflow.throttle.as_ref().map(|throttle| ("throttle", throttle.rate()));
    let limit = workflow.rate_limit.as_ref().map(|limit| ("rateLimit", limit.rate()));
    for (control, rate) in throttle.into_iter().chain(limit) {
        let refill = u128::from(rate.burst) * u128::from(rate.per_ms) / u128::from(rate.limit);
        if refill > LONGEST_REFILL_MS {
            let message = format!(
                "of {} takes more than 100 years to come back at {} in {} ms: make it smaller",
                rate.burst, rate.limit, rate.per_ms
            );
            problems.error(Code::OutOfRange, &format!("{control}.burst"), message);
        }
    }
}

/// A limit, from wherever it comes: how many, of what, and for how long they count.
struct Limit<'a> {
    field: &'a str,
    most: u32,
    key: Option<&'a Path>,
    span: Span,
}

impl Limit<'_> {
    /// Whether all that `other` counts is counted here too.
    fn covers(&self, other: &Limit<'_>) -> bool {
        (self.key.is_none() || self.key == other.key) && self.span >= other.span
    }

    fn counts_the_same(&self, other: &Limit<'_>) -> bool {
        self.key == other.key && self.span == other.span
    }
}

/// No limit twice, and a warning for one that another one always reaches first.
fn check_limits(limits: &[Limit<'_>], exclusive: &[Limit<'_>], problems: &mut Problems) {
    for (n, limit) in limits.iter().enumerate() {
        if let Some(other) = limits[..n].iter().find(|other| other.counts_the_same(limit)) {
            let rule = format!("counts the same runs as {}", other.field);
            problems.error(Code::Conflict, limit.field, format!("{rule}: keep one of them"));
            continue;
        }
        let others = limits.iter().filter(|other| !other.counts_the_same(limit));
        let mut bounds = others.chain(exclusive);
        let tighter = bounds.find(|other| other.covers(limit) && other.most <= limit.most);
        if let Some(other) = tighter {
            let (most, field) = (other.most, other.field);
            let message = format!("of {} is never reached: {field} lets in {most}", limit.most);
            problems.warn(Code::NeverBinds, &format!("{}.limit", limit.field), message);
        }
    }
}

fn limits<'a>(workflow: &'a Definition, limits_at: &'a [String]) -> Vec<Limit<'a>> {
    let limits = workflow.concurrency.iter().zip(limits_at).map(|(concurrency, field)| Limit {
        field,
        most: concurrency.limit,
        key: concurrency.key.as_ref(),
        span: concurrency.span,
    });
    limits.collect()
}

/// The controls that let in one run at a time, and hold it until it is over.
fn exclusive(workflow: &Definition) -> Vec<Limit<'_>> {
    let singleton =
        workflow.singleton.as_ref().map(|singleton| ("singleton", singleton.key.as_ref()));
    // Versions that coexist are counted apart, so that together they may be many.
    let handoff = workflow.handoff.as_ref();
    let handoff = handoff.filter(|handoff| handoff.on_new_version != OnNewVersion::Coexist);
    let handoff = handoff.map(|handoff| ("handoff", handoff.key()));
    let pairs = singleton.into_iter().chain(handoff);
    pairs.map(|(field, key)| Limit { field, most: 1, key, span: Span::Run }).collect()
}

/// A batch is one run with one key, so that what its run needs must go by that key or by none.
fn check_batch(workflow: &Definition, limits: &[Limit<'_>], problems: &mut Problems) {
    let Some(batch) = &workflow.batch else { return };
    if batch.max_size == 1 {
        problems.warn(Code::NoEffect, "batch.maxSize", "of 1 collects nothing");
    }
    if let Some(singleton) = &workflow.singleton
        && singleton.mode == Mode::Cancel
    {
        let message = "`cancel` would lose the events of a cancelled batch: use `skip`";
        problems.error(Code::Conflict, "singleton.mode", message);
    }
    let singleton = workflow.singleton.as_ref().and_then(|singleton| singleton.key.as_ref());
    let throttle = workflow.throttle.as_ref().and_then(|throttle| throttle.key.as_ref());
    let handoff = workflow.handoff.as_ref().and_then(|handoff| handoff.key());
    let limits = limits.iter().map(|limit| (format!("{}.key", limit.field), limit.key));
    let others = [
        ("singleton.key".to_owned(), singleton),
        ("throttle.key".to_owned(), throttle),
        ("handoff.keyField".to_owned(), handoff),
    ];
    for (field, key) in limits.chain(others) {
        if let Some(key) = key.filter(|key| Some(*key) != batch.key.as_ref()) {
            let fix = match &batch.key {
                Some(batch) => format!("use `{batch}`, the batch's key, or none"),
                None => "give the batch the same key, or drop this one".to_owned(),
            };
            let message = format!("`{key}` may differ between the events of one batch: {fix}");
            problems.error(Code::Conflict, &field, message);
        }
    }
}

/// A schedule's data has no key to hand over by.
fn check_handoff(workflow: &Definition, problems: &mut Problems) {
    let Some(handoff) = &workflow.handoff else { return };
    let cron = workflow.triggers.iter().any(|trigger| matches!(trigger, Trigger::Cron { .. }));
    if let HandoffScope::Keyed(path) = &handoff.scope
        && cron
    {
        let fix = "use type `singleton`, or drop the cron trigger";
        let message = format!("`{path}` is never in what a cron trigger sends: {fix}");
        problems.error(Code::Conflict, "handoff.keyField", message);
    }
}

fn check_policy(workflow: &Definition, problems: &mut Problems) {
    let Some(policy) = &workflow.policy else { return };
    match (&policy.kind, &policy.key) {
        (PolicyKind::Allow, PolicyKey::Session) => {}
        (PolicyKind::Allow, _) => {
            problems.warn(
                Code::NoEffect,
                "concurrency",
                "has a key, which changes nothing under `allow`",
            );
        }
        (_, PolicyKey::None) => {
            problems.warn(
                Code::NoEffect,
                "concurrency",
                "has a policy, which changes nothing with key `none`",
            );
        }
        (_, _) => {}
    }
    if matches!(policy.kind, PolicyKind::Debounce { .. }) && workflow.debounce.is_some() {
        let message = "stands beside the policy `debounce`: keep one of the two";
        problems.error(Code::Conflict, "debounce", message);
    }
    if matches!(policy.key, PolicyKey::Function(_)) && workflow.debounce.is_some() {
        let message = "stands beside a key function, which is asked when a request arrives and not \
                       when the window fires: give the policy a path, or let it debounce itself";
        problems.error(Code::Conflict, "debounce", message);
    }
}

/// Actions are called; workflows need no trigger twice.
fn check_triggers(workflow: &Definition, problems: &mut Problems) {
    for (n, trigger) in workflow.triggers.iter().enumerate() {
        let field = format!("triggers[{n}]");
        let timed = matches!(trigger, Trigger::Cron { .. });
        if workflow.flow.is_some() && !timed {
            let fix = "make it a workflow, or keep only `cron`";
            let message = format!("cannot start an action, requests do: {fix}");
            problems.error(Code::Misplaced, &field, message);
        }
        let Trigger::Event { name, prefix } = trigger else { continue };
        let covers = |other: &Trigger| match other {
            Trigger::Event { prefix: true, .. } => other.matches(name),
            Trigger::Event { prefix: false, .. } => !prefix && other.matches(name),
            Trigger::Cron { .. } | Trigger::Stream { .. } => false,
        };
        let mut others = workflow.triggers.iter().enumerate();
        let first =
            others.find(|(m, other)| *m != n && covers(other) && (*m < n || *other != trigger));
        if let Some((m, _)) = first {
            let message = format!("changes nothing: triggers[{m}] matches all that it matches");
            problems.warn(Code::NoEffect, &field, message);
        }
    }
}
