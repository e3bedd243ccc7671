//! Targets of overrides: the gates whose limits an override replaces.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    definition::Definition,
    flow::{CONTROLS, KeySource, concurrency::Span},
    key::{Decimal, Key, Scalar},
    row::{Class, GateKey, Scope, Workspace},
};

/// Target of an override: gates of one workflow.
///
/// Without `control` the target is the first starts of runs, which an override can pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// The app.
    #[serde(default)]
    pub app: String,
    /// The workflow, or an action as `flow/action`.
    pub workflow: String,
    /// The control whose limit is replaced; none for the first starts of runs.
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
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(position: &u32) -> bool {
    *position == 0
}

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
            Class::Throttle => (Some(Limited::Throttle), None),
            Class::RateLimit => (Some(Limited::RateLimit), None),
            Class::Keyed | Class::Whole => (Some(Limited::Concurrency), None),
            Class::RunLimit => (Some(Limited::Concurrency), Some(Span::Run)),
            Class::Dedupe
            | Class::Idempotency
            | Class::PoolRateLimit
            | Class::Debounce
            | Class::Batch
            | Class::Quiet
            | Class::Gather
            | Class::Singleton
            | Class::Schedule
            | Class::Handoff
            | Class::Policy
            | Class::PoolRunLimit
            | Class::PoolThrottle
            | Class::PoolLimit => return None,
        };
        let key = match &scope.key {
            Key::Whole => None,
            Key::Missing | Key::Values(_) | Key::Value(Scalar::Long { .. }) => return None,
            Key::Value(scalar) => Some(KeyValue(scalar.clone())),
        };
        let (app, workflow) = (scope.app.clone(), scope.name.clone());
        let path = Some(scope.slot.clone()).filter(|path| !path.is_empty());
        Some(Self { app, workflow, control, span, path, position: 0, key, key_prefix: None })
    }

    /// Returns the target in the one form in which it is stored.
    #[must_use]
    pub fn normal(self) -> Self {
        Self { span: self.span.filter(|span| *span != Span::default()), ..self }
    }

    /// Returns the class of the target's gates.
    pub fn class(&self) -> Class {
        match (self.control, self.span, &self.path) {
            (None, ..) => Class::Pause,
            (Some(Limited::Throttle), ..) => Class::Throttle,
            (Some(Limited::RateLimit), ..) => Class::RateLimit,
            (Some(Limited::Concurrency), Some(Span::Run), _) => Class::RunLimit,
            (Some(Limited::Concurrency), _, Some(_)) => Class::Keyed,
            (Some(Limited::Concurrency), _, None) => Class::Whole,
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

    /// Whether the queue of a gate in the target's ranges depends on the override.
    pub(super) fn is_in(&self, scope: &Scope) -> bool {
        // A pause of the whole workflow closes throttles with any key.
        (scope.class != self.class() && self.path.is_none()) || self.matches(&scope.key)
    }

    /// Returns the ranges of gate keys that contain the gates whose queues the override delays.
    pub fn ranges(&self, ws: &Workspace) -> Vec<(GateKey, GateKey)> {
        let class = self.class();
        let range = |class: Class, slot: bool| {
            let mut prefix = GateKey::prefix(ws, class, &self.app, &self.workflow);
            if slot {
                crate::key::push_part(&mut prefix, self.slot().as_bytes());
            }
            // After the prefix comes a length or the kind of a key, whose first byte is not 255.
            let end = [&prefix[..], &[u8::MAX]].concat();
            (GateKey::from_bytes(&prefix), GateKey::from_bytes(&end))
        };
        match (class, &self.path, &self.key) {
            // While the whole workflow is paused, all of its throttles are closed.
            (Class::Pause, None, _) => vec![range(class, true), range(Class::Throttle, false)],
            (Class::Pause, Some(_), _) => vec![range(class, true), range(Class::Throttle, true)],
            (_, _, Some(value)) => {
                let (app, name) = (self.app.clone(), self.workflow.clone());
                let (slot, key) = (self.slot().to_owned(), Key::Value(value.0.clone()));
                let key = GateKey::new(&Scope { ws: ws.clone(), class, app, name, slot, key });
                let end = GateKey::from_bytes(&[key.as_bytes(), &[0]].concat());
                vec![(key, end)]
            }
            _ => vec![range(class, true)],
        }
    }

    /// Returns the problem of a target that no gate of this definition can match.
    pub(super) fn problem(&self, definition: &Definition) -> Option<String> {
        let Self { control, span, path, position, key, key_prefix, .. } = self;
        if path.is_none() && (key.is_some() || key_prefix.is_some()) {
            return Some("`key` and `keyPrefix` need `path`, the path of the key".to_owned());
        }
        if key_prefix.as_deref() == Some("") {
            return Some("`keyPrefix` is empty: leave it out for all keys".to_owned());
        }
        if key.is_some() && key_prefix.is_some() {
            return Some("give `key` or `keyPrefix`, not both".to_owned());
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
                return Some(format!("`{name}` has no {word}"));
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
