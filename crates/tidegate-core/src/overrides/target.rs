//! Targets of overrides: the gates whose limits an override replaces.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::index::key_of;
use crate::{
    definition::Definition,
    flow::{CONTROLS, KeySource, concurrency::Span},
    key::{Decimal, Key, Scalar},
    pool::Pool,
    row::{Class, GateKey, Phase, Run, Scope, Workspace},
};

/// Target of an override: gates of one workflow or of one pool.
///
/// Without `control` the target is the first starts of the workflow's runs, or every entry into the
/// pool, which an override can pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// The app; empty for a pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app: String,
    /// The workflow, or an action as `flow/action`; empty for a pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workflow: String,
    /// The pool, instead of a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The control whose limit is replaced; none for the first starts of runs, or for every entry
    /// into a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Limited>,
    /// The span of the `concurrency` limit; `executing` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// The path of the limit's key, as in the definition; none for a limit without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The position among several limits of `throttle` or `rateLimit` with one path, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub position: u32,
    /// One value of the key; none for all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyValue>,
    /// The beginning of string values of the key; none for all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_prefix: Option<String>,
    /// The value of `fair.by` whose weight is replaced, at all gates of the limit, as `weights` in
    /// the definition names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(position: &u32) -> bool {
    *position == 0
}

/// Maximum number of bytes of `value`: those of a key that is kept whole.
const MAX_VALUE: usize = 1024;

/// Control whose limit an override can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemars",
    derive(schemars::JsonSchema),
    schemars(rename = "OverriddenControl")
)]
#[serde(rename_all = "camelCase")]
pub enum Limited {
    /// `concurrency`.
    Concurrency,
    /// `throttle`.
    Throttle,
    /// `rateLimit`.
    RateLimit,
}

/// Value of a key in a target: a JSON string, number or boolean of at most 1,024 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyValue(pub Scalar);

impl From<&str> for KeyValue {
    fn from(text: &str) -> Self {
        Self(Scalar::text(text.to_owned()))
    }
}

impl From<i64> for KeyValue {
    fn from(number: i64) -> Self {
        Self(Scalar::number(number.into()))
    }
}

impl From<bool> for KeyValue {
    fn from(value: bool) -> Self {
        Self(Scalar::Bool(value))
    }
}

impl Serialize for KeyValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Scalar::Text(text) => to.serialize_str(text),
            Scalar::Bool(value) => to.serialize_bool(*value),
            Scalar::Number(number) => {
                let read: Result<serde_json::Number, _> = serde_json::from_str(&number.to_string());
                read.map_err(serde::ser::Error::custom)?.serialize(to)
            }
            Scalar::Long { head, .. } => to.serialize_str(head),
        }
    }
}

impl<'de> Deserialize<'de> for KeyValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let scalar = match &value {
            serde_json::Value::String(text) => Some(Scalar::text(text.clone())),
            serde_json::Value::Bool(value) => Some(Scalar::Bool(*value)),
            serde_json::Value::Number(number) => {
                Decimal::parse(&number.to_string()).ok().map(Scalar::number)
            }
            serde_json::Value::Null
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => None,
        };
        let scalar = scalar.filter(|scalar| !matches!(scalar, Scalar::Long { .. }));
        let refused = || {
            serde::de::Error::custom(
                "a key is a string, a number or a boolean of at most 1,024 bytes",
            )
        };
        scalar.map(Self).ok_or_else(refused)
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for KeyValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KeyValue".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Value of a key, at most 1,024 bytes.",
            "type": ["string", "number", "boolean"],
        })
    }
}

impl Target {
    /// Returns the target of one gate; none if no override can name it.
    pub fn of(scope: &Scope) -> Option<Self> {
        let (control, span) = match scope.class {
            Class::Pause => (None, None),
            Class::Throttle | Class::PoolThrottle => (Some(Limited::Throttle), None),
            Class::RateLimit | Class::PoolRateLimit => (Some(Limited::RateLimit), None),
            Class::Keyed | Class::Whole | Class::PoolLimit | Class::PoolRunLimit => {
                (Some(Limited::Concurrency), None)
            }
            Class::RunLimit => (Some(Limited::Concurrency), Some(Span::Run)),
            Class::Dedupe
            | Class::Idempotency
            | Class::Debounce
            | Class::Batch
            | Class::Quiet
            | Class::Gather
            | Class::Singleton
            | Class::Schedule
            | Class::Handoff
            | Class::Policy
            | Class::Share => return None,
        };
        let key = match &scope.key {
            Key::Whole => None,
            Key::Missing | Key::Values(_) | Key::Value(Scalar::Long { .. }) => return None,
            Key::Value(scalar) => Some(KeyValue(scalar.clone())),
        };
        let path = Some(scope.slot.clone()).filter(|path| !path.is_empty());
        let target = Self { control, span, path, key, ..Self::default() };
        Some(match scope.pool() {
            Some(pool) => Self { pool: Some(pool.to_owned()), ..target },
            None => Self { app: scope.app.clone(), workflow: scope.name.clone(), ..target },
        })
    }

    /// Returns the app and the name by which the keys of the target's gates begin.
    pub fn owner(&self) -> (&str, &str) {
        match &self.pool {
            Some(pool) => ("", pool),
            None => (&self.app, &self.workflow),
        }
    }

    /// Returns the target in the one form in which it is stored.
    #[must_use]
    pub fn normal(self) -> Self {
        Self { span: self.span.filter(|span| *span != Span::default()), ..self }
    }

    /// Returns the class of the target's gates; of a pool's `concurrency`, [`Class::PoolLimit`]
    /// also for the span `run`.
    pub fn class(&self) -> Class {
        match (self.control, self.span, &self.path) {
            (None, ..) => Class::Pause,
            (Some(Limited::Throttle), ..) if self.pool.is_some() => Class::PoolThrottle,
            (Some(Limited::RateLimit), ..) if self.pool.is_some() => Class::PoolRateLimit,
            (Some(Limited::Concurrency), ..) if self.pool.is_some() => Class::PoolLimit,
            (Some(Limited::Throttle), ..) => Class::Throttle,
            (Some(Limited::RateLimit), ..) => Class::RateLimit,
            (Some(Limited::Concurrency), Some(Span::Run), _) => Class::RunLimit,
            (Some(Limited::Concurrency), _, Some(_)) => Class::Keyed,
            (Some(Limited::Concurrency), _, None) => Class::Whole,
        }
    }

    /// Returns the scope of the target's gate without a key.
    pub(super) fn scope(&self, ws: &Workspace) -> Scope {
        let (app, name) = self.owner();
        Scope {
            ws: ws.clone(),
            class: self.class(),
            app: app.to_owned(),
            name: name.to_owned(),
            slot: self.slot().to_owned(),
            key: Key::Whole,
        }
    }

    /// Returns the slot of the target's gates: the path of their key.
    pub fn slot(&self) -> &str {
        self.path.as_deref().unwrap_or_default()
    }

    /// Whether the target has gates with this key.
    pub fn matches(&self, key: &Key) -> bool {
        match (&self.key, &self.key_prefix) {
            (Some(value), _) => matches!(key, Key::Value(scalar) if *scalar == value.0),
            (None, Some(prefix)) => {
                matches!(key, Key::Value(Scalar::Text(text)) if text.starts_with(prefix))
            }
            (None, None) => true,
        }
    }

    /// Whether the target is the first starts of a workflow's runs.
    pub fn is_of_starts(&self) -> bool {
        self.pool.is_none() && self.control.is_none()
    }

    /// Whether the runs whose first starts are the target include this one, started or not.
    pub(crate) fn has_run(&self, run: &Run) -> bool {
        let own = self.is_of_starts() && self.owner() == (run.app.as_str(), run.workflow.as_str());
        let key = || match &self.path {
            Some(path) => key_of(run, path).is_some_and(|key| self.matches(&key)),
            None => true,
        };
        own && key()
    }

    /// Whether a run waits at the target: in the queue of one of its gates, or, if the target is the
    /// first starts of a workflow, anywhere before its start.
    pub(crate) fn has_waiting(&self, run: &Run) -> bool {
        if self.is_of_starts() {
            let waits = matches!(run.phase, Phase::Queued { .. } | Phase::Ready);
            return waits && !run.started && self.has_run(run);
        }
        let next = run.plan.get(run.entered).filter(|_| matches!(run.phase, Phase::Queued { .. }));
        next.and_then(|need| need.gate.scope()).is_some_and(|scope| self.has_gate(&scope))
    }

    /// Whether a gate belongs to the control, or to the pool, of the target, and its key matches.
    pub(crate) fn has_gate(&self, scope: &Scope) -> bool {
        let own = if self.pool.is_some() {
            self.pool_classes().contains(&scope.class)
        } else {
            self.class() == scope.class
        };
        own && self.owner() == (scope.app.as_str(), scope.name.as_str())
            && self.slot() == scope.slot
            && self.matches(&scope.key)
    }

    /// Whether the queue of a gate in the target's ranges depends on the override.
    pub(crate) fn is_in(&self, scope: &Scope) -> bool {
        // A pause of the whole workflow closes throttles with any key.
        let closed = self.pool.is_none() && scope.class != self.class() && self.path.is_none();
        closed || self.matches(&scope.key)
    }

    /// Returns the classes of a pool's gates whose queues the override delays.
    fn pool_classes(&self) -> &'static [Class] {
        match self.control {
            None => &[Class::PoolRunLimit, Class::PoolThrottle, Class::PoolLimit],
            Some(Limited::Concurrency) => &[Class::PoolRunLimit, Class::PoolLimit],
            Some(Limited::Throttle) => &[Class::PoolThrottle],
            Some(Limited::RateLimit) => &[Class::PoolRateLimit],
        }
    }

    /// Returns the ranges of gate keys that contain the gates whose queues the override delays.
    pub fn ranges(&self, ws: &Workspace) -> Vec<(GateKey, GateKey)> {
        if self.value.is_some() {
            // A weight decides the order of a queue, not how many runs enter.
            return Vec::new();
        }
        let class = self.class();
        let (app, name) = self.owner();
        let range = |class: Class, slot: bool| {
            let mut prefix = GateKey::prefix(ws, class, app, name);
            if slot {
                crate::key::push_part(&mut prefix, self.slot().as_bytes());
            }
            // After the prefix comes a length or the kind of a key, whose first byte is not 255.
            let end = [&prefix[..], &[u8::MAX]].concat();
            (GateKey::from_bytes(&prefix), GateKey::from_bytes(&end))
        };
        let exact = |class: Class, value: &KeyValue| {
            let (app, name) = (app.to_owned(), name.to_owned());
            let (slot, key) = (self.slot().to_owned(), Key::Value(value.0.clone()));
            let key = GateKey::new(&Scope { ws: ws.clone(), class, app, name, slot, key });
            let end = GateKey::from_bytes(&[key.as_bytes(), &[0]].concat());
            (key, end)
        };
        if self.pool.is_some() {
            let each = self.pool_classes().iter().map(|class| match &self.key {
                Some(value) => exact(*class, value),
                None => range(*class, true),
            });
            return each.collect();
        }
        match (class, &self.path, &self.key) {
            // While the whole workflow is paused, all of its throttles are closed.
            (Class::Pause, None, _) => vec![range(class, true), range(Class::Throttle, false)],
            (Class::Pause, Some(_), _) => vec![range(class, true), range(Class::Throttle, true)],
            (_, _, Some(value)) => vec![exact(class, value)],
            _ => vec![range(class, true)],
        }
    }

    /// Returns the problem of a target that names no object, or its keys in a wrong way.
    pub(super) fn form_problem(&self) -> Option<String> {
        let Self { app, workflow, pool, control, key, key_prefix, value, .. } = self;
        if pool.is_some() && !(app.is_empty() && workflow.is_empty()) {
            let fix = "a pool belongs to the workspace, not to an app";
            return Some(format!("give `workflow` or `pool`, not both: {fix}"));
        }
        if pool.is_none() && workflow.is_empty() {
            return Some("give `workflow` or `pool`".to_owned());
        }
        if let Some(value) = value {
            if !matches!(control, Some(Limited::Concurrency | Limited::Throttle)) {
                return Some("`value` needs `control`: `concurrency` or `throttle`".to_owned());
            }
            if key.is_some() || key_prefix.is_some() || self.position != 0 {
                let fix = "the weight of a value holds at all gates of the limit";
                return Some(format!(
                    "give `value` without `key`, `keyPrefix` and `position`: {fix}"
                ));
            }
            if value.is_empty() || value.len() > MAX_VALUE {
                let length = value.len();
                return Some(format!("`value` must have 1 to 1,024 bytes, got {length}"));
            }
        }
        if key_prefix.as_deref() == Some("") {
            return Some("`keyPrefix` is empty: leave it out for all keys".to_owned());
        }
        if let Some(KeyValue(Scalar::Long { head, .. })) = key {
            return Some(format!("`key` must have at most 1,024 bytes, got `{head}…`"));
        }
        (key.is_some() && key_prefix.is_some())
            .then(|| "give `key` or `keyPrefix`, not both".to_owned())
    }

    /// Returns the problem of a target that no gate of this pool can match.
    pub(super) fn pool_problem(&self, pool: &Pool) -> Option<String> {
        let Self { control, span, path, position, .. } = self;
        let (name, word) = (&pool.name, self.word());
        if path.is_some() {
            let fix = "runs meet at its gates by the value of their key alone";
            return Some(format!("leave out `path` for a pool: {fix}"));
        }
        if span.is_some() {
            return Some("leave out `span` for a pool, which has one of its own".to_owned());
        }
        let limits = match control {
            None => 1,
            Some(Limited::Concurrency) => usize::from(pool.concurrency.is_some()),
            Some(Limited::Throttle) => pool.throttle.len(),
            Some(Limited::RateLimit) => pool.rate_limit.len(),
        };
        if limits == 0 {
            return Some(format!("pool `{name}` has no {word}"));
        }
        (limits <= *position as usize)
            .then(|| format!("position {position}: pool `{name}` has {limits} {word} limits"))
    }

    /// Returns the problem of a target that no gate of this definition can match.
    pub(super) fn problem(&self, definition: &Definition) -> Option<String> {
        let Self { control, span, path, position, key, key_prefix, .. } = self;
        if path.is_none() && (key.is_some() || key_prefix.is_some()) {
            return Some("`key` and `keyPrefix` need `path`, the path of the key".to_owned());
        }
        if span.is_some() && *control != Some(Limited::Concurrency) {
            return Some("`span` is only for `concurrency`".to_owned());
        }
        let names = |key: Option<&KeySource>| key.map(KeySource::slot);
        let has = |all: Vec<Option<String>>| {
            let alike = all.iter().filter(|it| *it == path).count();
            let shown = |it: &Option<String>| match it {
                Some(path) => format!("`{path}`"),
                None => "no key".to_owned(),
            };
            let (word, name) = (self.word(), &self.workflow);
            if alike > *position as usize {
                return None;
            }
            if all.is_empty() {
                return Some(format!("`{name}` has no {word}{}", self.elsewhere(definition)));
            }
            if alike > 0 {
                return Some(format!(
                    "position {position}: `{name}` has {alike} {word} limits with {}",
                    shown(path)
                ));
            }
            let known: Vec<String> = all.iter().map(shown).collect();
            let (of, known) = (shown(path), known.join(", "));
            Some(format!("`{name}` has no {word} with path {of}; its paths: {known}"))
        };
        match control {
            None if path.is_none() => None,
            None => has(paths(definition)),
            Some(Limited::Throttle) => {
                has(definition.throttle.iter().map(|it| names(it.key.as_ref())).collect())
            }
            Some(Limited::RateLimit) => {
                has(definition.rate_limit.iter().map(|it| names(it.key.as_ref())).collect())
            }
            Some(Limited::Concurrency) => {
                let span = span.unwrap_or_default();
                let limits = definition.concurrency.iter().filter(|it| it.span == span);
                has(limits.map(|it| names(it.key.as_ref())).collect())
            }
        }
    }

    /// Names the limits of the control that the target does not select, for an error: those of the
    /// other span, and those of pools.
    fn elsewhere(&self, definition: &Definition) -> String {
        if self.control == Some(Limited::Concurrency)
            && let Some(other) = definition.concurrency.first()
        {
            let other = if other.span == Span::Run { "run" } else { "executing" };
            return format!(" with this span: give the span `{other}`");
        }
        let used = definition.pools.iter().find(|it| it.part.name() == self.word());
        used.map(|it| format!(" of its own: give the pool `{}`", it.pool)).unwrap_or_default()
    }

    /// Returns the name of the target's control in a definition, or `pause`.
    pub fn word(&self) -> &'static str {
        self.class().control()
    }

    /// Returns the text by which the audit log finds the changes of this target.
    pub fn subject(&self) -> String {
        serde_json::to_string(self).expect("a target is serializable")
    }
}

/// Returns the paths of the keys by which first starts can be paused: those of gates that runs of
/// this definition pass.
fn paths(definition: &Definition) -> Vec<Option<String>> {
    let gated = |class: &&Class| **class >= Class::Singleton;
    let controls = CONTROLS.iter().filter(|control| control.classes.iter().any(|it| gated(&it)));
    let keys = controls.flat_map(|control| (control.keys)(definition)).flatten();
    let mut paths: Vec<Option<String>> = keys.map(|key| Some(key.slot())).collect();
    paths.sort();
    paths.dedup();
    paths
}
