//! Policy: what happens to a request while another run of its session is active.
//!
//! With `allow` both run at the same time, with `queue` the request waits, with `reject` it is
//! refused, with `restart` it replaces the active run. With `debounce` requests coalesce until none
//! arrives for a while. With `latest` the request waits and replaces other waiting requests of the
//! same action (spec L21). All actions of a flow share one gate per key; the policy of the new
//! request decides. A request without a key has no gate.
//!
//! Acts when the run is created. On overflow: by its kind. The gate row has holder and queue.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Moment, Reading},
    debounce::Edge,
    fold::{Folding, Kept, Timing},
    key_source::KeySource,
    plan::{Candidate, WhenFull},
    queue::{Bounded, Queue},
    verdict::Verdict,
};
use crate::{
    catalog::Limit,
    definition::{Code, Fields, Problems, Reported, nearest},
    draft::{Decided, Stop},
    key::{Key, Path},
    row::{Class, Scope, Span},
};

/// Row in the table of controls. An author writes a policy as `concurrency`.
pub(super) const CONTROL: Control = Control {
    name: "policy",
    acts: Moment::Creation,
    classes: &[Class::Policy, Class::Quiet],
    check,
    plan: |candidate, plan| {
        if let Some((scope, kind)) = scope(candidate, Class::Policy)? {
            plan.add(&scope, Span::Run, kind.when_full());
            plan.bound(kind.queue());
        }
        Ok(())
    },
    limit: |_, _, _| Limit::Slots(1),
    queue: |definition, _| definition.policy.as_ref()?.kind.queue().map(Bounded::of_one),
    folding: |definition| match definition.policy.as_ref()?.kind {
        PolicyKind::Debounce { period_ms, max_wait_ms } => Some(Folding {
            class: Class::Quiet,
            timing: Timing::Quiet { period_ms, max_wait_ms },
            keep: Kept::Last,
            edge: Edge::Trailing,
        }),
        PolicyKind::Allow
        | PolicyKind::Queue { .. }
        | PolicyKind::Reject
        | PolicyKind::Restart
        | PolicyKind::Latest => None,
    },
    ..Control::NONE
};

/// The policy of an action, or the default of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// What happens to a request when the gate is busy.
    pub kind: PolicyKind,
    /// The key: requests with the same key share a gate.
    pub key: PolicyKey,
}

/// What happens to a request when the gate is busy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PolicyKind {
    /// The request runs. It does not use the gate.
    Allow,
    /// The request is queued.
    Queue {
        /// The maximum wait; none means no maximum.
        max_wait_ms: Option<u64>,
        /// The bound of the queue; none if any number of requests may wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<Queue>,
    },
    /// The request is refused, with the id of the holder.
    Reject,
    /// The request replaces the holder.
    Restart,
    /// The request joins an open window, which fires after a quiet period, when the gate is free.
    Debounce {
        /// The time without a request after which the window fires.
        period_ms: u64,
        /// Maximum time that a window stays open.
        max_wait_ms: Option<u64>,
    },
    /// The request replaces runs of its action that have not started, and waits for all other runs.
    Latest,
}

/// The key of a policy: requests with the same key share a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyKey {
    /// The session.
    #[default]
    Session,
    /// The user.
    User,
    /// No key: the policy has no effect.
    None,
    /// The value at a path in the request, or of another source.
    Path(KeySource),
    /// The result of the program's key function of this name.
    Function(String),
}

/// The words that an author writes for [`PolicyKind`].
const KINDS: [&str; 6] = ["allow", "queue", "reject", "restart", "debounce", "latest"];

impl Policy {
    /// Reads a policy: a name, or an object with the name and its settings.
    pub(crate) fn read(
        value: &Value,
        at: &str,
        problems: &mut Problems,
    ) -> Result<Policy, Reported> {
        if let Some(name) = value.as_str() {
            let value = json!({"policy": name});
            return Policy::read(&value, at, problems);
        }
        let word = value.get("policy").and_then(Value::as_str).unwrap_or_default();
        let known: &[&str] = match word {
            "queue" => &["policy", "key", "maxWaitMs", "queue"],
            "allow" | "reject" | "restart" | "latest" => &["policy", "key"],
            // With an unknown name all fields are accepted, so that only the name is reported.
            _ => &["policy", "key", "periodMs", "maxWaitMs"],
        };
        let mut fields = Fields::open(value, at, known, problems)?;
        let kind = read_kind(&mut fields, &KINDS);
        let key = read_key(&mut fields);
        Ok(Policy { kind: kind?, key: key? })
    }

    pub(crate) fn to_value(&self) -> Value {
        let (name, period_ms, max_wait_ms) = match &self.kind {
            PolicyKind::Allow => ("allow", None, None),
            PolicyKind::Queue { max_wait_ms, .. } => ("queue", None, *max_wait_ms),
            PolicyKind::Reject => ("reject", None, None),
            PolicyKind::Restart => ("restart", None, None),
            PolicyKind::Latest => ("latest", None, None),
            PolicyKind::Debounce { period_ms, max_wait_ms } => {
                ("debounce", Some(*period_ms), *max_wait_ms)
            }
        };
        let key = match &self.key {
            PolicyKey::Session => None,
            PolicyKey::User => Some(json!("user")),
            PolicyKey::None => Some(json!("none")),
            PolicyKey::Path(key) => Some(json!(key)),
            PolicyKey::Function(name) => Some(json!({"function": name})),
        };
        let queue = self.kind.queue().map(Queue::to_value);
        if key.is_none() && period_ms.is_none() && max_wait_ms.is_none() && queue.is_none() {
            return json!(name);
        }
        let fields = [
            ("policy", Some(json!(name))),
            ("key", key),
            ("periodMs", period_ms.map(Value::from)),
            ("maxWaitMs", max_wait_ms.map(Value::from)),
            ("queue", queue),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect())
    }
}

/// Reads the kind of a policy. `words` are the accepted names.
pub(crate) fn read_kind(fields: &mut Fields<'_>, words: &[&str]) -> Result<PolicyKind, Reported> {
    match fields.text("policy")? {
        Some("allow") => Ok(PolicyKind::Allow),
        Some("queue") => {
            let (max_wait_ms, queue) = (fields.optional_duration("maxWaitMs"), Queue::read(fields));
            Ok(PolicyKind::Queue { max_wait_ms: max_wait_ms?, queue: queue? })
        }
        Some("reject") => Ok(PolicyKind::Reject),
        Some("restart") => Ok(PolicyKind::Restart),
        Some("latest") if words.contains(&"latest") => Ok(PolicyKind::Latest),
        Some("debounce") => {
            let period_ms = fields.duration("periodMs");
            let max_wait_ms = fields.optional_duration("maxWaitMs");
            let (period_ms, max_wait_ms) = (period_ms?, max_wait_ms?);
            fields.check_max_wait(period_ms, max_wait_ms);
            Ok(PolicyKind::Debounce { period_ms, max_wait_ms })
        }
        Some(other) => Err(fields.unknown_value("policy", other, words)),
        None => {
            let rule = format!("one of {}", nearest::list(words));
            Err(fields.missing("policy", &rule))
        }
    }
}

fn read_key(fields: &mut Fields<'_>) -> Result<PolicyKey, Reported> {
    let Some(value) = fields.get("key") else { return Ok(PolicyKey::Session) };
    if value.get("function").is_some() {
        let at = fields.field("key");
        let mut inner = Fields::open(value, &at, &["function"], fields.problems())?;
        return match inner.name("function")? {
            Some(name) => Ok(PolicyKey::Function(name.to_owned())),
            None => Err(inner.missing("function", "the name of a key function")),
        };
    }
    match value.as_str() {
        Some("session") => Ok(PolicyKey::Session),
        Some("user") => Ok(PolicyKey::User),
        Some("none") => Ok(PolicyKey::None),
        // A word without a dot can only be one of the names: a path into the request has a dot.
        Some(word) if !word.contains('.') && !word.is_empty() && word != "input" => {
            let known = ["session", "user", "none", "input.…", "metadata.…"];
            Err(fields.unknown_value("key", word, &known))
        }
        Some(_) | None => match fields.key("key")? {
            Some(key) => Ok(PolicyKey::Path(key)),
            None => Err(fields.error(Code::BadPath, "key", "must name a field")),
        },
    }
}

fn check(reading: &mut Reading<'_>) {
    let Reading { definition, problems, .. } = reading;
    let Some(policy) = &definition.policy else { return };
    match (&policy.kind, &policy.key) {
        (PolicyKind::Allow, PolicyKey::Session) => {}
        (PolicyKind::Allow, _) => {
            problems.warn(
                Code::NoEffect,
                "concurrency",
                "has a key, which has no effect under `allow`",
            );
        }
        (_, PolicyKey::None) => {
            problems.warn(
                Code::NoEffect,
                "concurrency",
                "has a policy, which has no effect with key `none`",
            );
        }
        (_, _) => {}
    }
    if matches!(policy.kind, PolicyKind::Debounce { .. }) && definition.debounce.is_some() {
        let message = "is not allowed with the policy `debounce`: keep one of the two";
        problems.error(Code::Conflict, "debounce", message);
    }
    if matches!(policy.key, PolicyKey::Function(_)) && definition.debounce.is_some() {
        let message = "is not allowed with a key function, which is called when a request arrives \
                       and not when the window fires: give the policy a path as its key, or use \
                       the policy `debounce`";
        problems.error(Code::Conflict, "debounce", message);
    }
}

/// Returns the gate of the action's policy; none if the policy does not apply to the request.
pub(super) fn scope<'a>(
    candidate: &'a Candidate<'_>,
    class: Class,
) -> Decided<Option<(Scope, &'a PolicyKind)>, Verdict> {
    let Some(Policy { kind, key }) = &candidate.workflow().policy else { return Ok(None) };
    if *kind == PolicyKind::Allow {
        return Ok(None);
    }
    let slot = match key {
        PolicyKey::None => return Ok(None),
        PolicyKey::Function(name) if candidate.function_key.is_none() => {
            let reason = format!("the key function `{name}` is not registered in this engine");
            return Err(Stop::Refused(Verdict::Rejected { control: "policy", reason }));
        }
        PolicyKey::Session => "session".to_owned(),
        PolicyKey::User => "user".to_owned(),
        PolicyKey::Path(key) => format!("path:{}", key.slot()),
        PolicyKey::Function(name) => format!("function:{name}"),
    };
    let key = match (&key.source(), &candidate.function_key) {
        (Some(source), _) => candidate.key("policy", Some(source))?.unwrap_or(Key::Missing),
        (None, Some(key)) => key.clone(),
        (None, None) => Key::Missing,
    };
    if matches!(key, Key::Whole | Key::Missing) {
        return Ok(None);
    }
    let mut scope = candidate.scope_of(class, slot, key);
    if class == Class::Policy {
        // All actions of a flow share one gate, but each action has its own window.
        scope.name = candidate.workflow().flow.clone().unwrap_or(scope.name);
    }
    Ok(Some((scope, kind)))
}

impl PolicyKey {
    /// Returns the source of the key in the request; none if the key is not read from it.
    pub(super) fn source(&self) -> Option<KeySource> {
        let path = |name: &str| Path::parse(name).ok().map(KeySource::Path);
        match self {
            Self::Session => path("session"),
            Self::User => path("user"),
            Self::Path(key) => Some(key.clone()),
            Self::None | Self::Function(_) => None,
        }
    }
}

impl PolicyKind {
    /// Returns the bound of the queue, if there is one.
    pub(crate) fn queue(&self) -> Option<Queue> {
        if let Self::Queue { queue, .. } = self { *queue } else { None }
    }

    /// Returns what a run does if the gate is full.
    pub(crate) fn when_full(&self) -> WhenFull {
        match self {
            Self::Reject => WhenFull::Refuse,
            Self::Restart => WhenFull::Replace,
            Self::Latest => WhenFull::Displace,
            Self::Allow | Self::Queue { .. } | Self::Debounce { .. } => WhenFull::Wait,
        }
    }
}
