//! Workflows: what an author defines.
//!
//! A definition is written in JSON or built in Rust; both pass the same reader, so both get the
//! same answers. [`Definition::to_value`] is the author's form, with the defaults that were written
//! out and no others. What serde writes
//! is the stored form, with every number in it, so that a stored definition keeps its meaning
//! when a default changes.

mod on_failure;
mod one_or_many;
pub(crate) mod overlap;
mod problem;
mod read;
mod retry;
mod rules;
mod trigger;
mod url;
mod written;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use on_failure::OnFailure;
pub use overlap::Overlap;
pub use problem::{
    Code, DefinitionErrors, MAX_DESCRIPTION_CHARS, MAX_DURATION_MS, MAX_NAME_CHARS, MAX_PROBLEMS,
    Parsed, Problem,
};
pub(crate) use problem::{Fields, Kind, Problems, Reported, nearest, shorten, whole};
pub(crate) use read::{Context, read};
pub use retry::Retry;
pub use trigger::{CATCH_UP_MS, MIN_CATCH_UP_MS, STREAM_PREFIX, Trigger};
pub use written::Written;

use crate::flow::{
    CONTROLS,
    batch::Batch,
    concurrency::Concurrency,
    debounce::Debounce,
    handoff::Handoff,
    idempotency::Idempotency,
    policy::{Policy, PolicyKind},
    priority::Priority,
    rate_limit::RateLimit,
    singleton::Singleton,
    throttle::Throttle,
};

/// The app of a definition that names none.
pub const DEFAULT_APP: &str = "default";

/// The most triggers of one workflow. Each one is asked for every event.
pub const MAX_TRIGGERS: usize = 100;

/// The most concurrency limits of one workflow. Each one is a gate on the way of every run.
pub const MAX_LIMITS: usize = 16;

/// How long others wait for a run that undoes what an earlier one did, unless its author says
/// otherwise.
pub const COMPENSATE_TIMEOUT_MS: u64 = 60_000;

/// The longest silence of a called service that a definition or a server may allow: an hour.
/// Networks forget connections that are silent for longer.
pub const MAX_CALL_TIMEOUT_MS: u64 = 60 * 60 * 1000;

fn compensate_timeout_ms() -> u64 {
    COMPENSATE_TIMEOUT_MS
}

/// A workflow, or an action of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// The app that it belongs to.
    pub app: String,
    /// Its name, unique in the app; `flow/action` for an action.
    pub name: String,
    /// The flow that it is an action of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Its version, where the author gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// What starts it; an event of its own name if empty.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// The limits on runs at once.
    #[serde(default)]
    pub concurrency: Vec<Concurrency>,
    /// At most one run per key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub singleton: Option<Singleton>,
    /// The limits on starts over time.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<Throttle>,
    /// The limits on events over time.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub rate_limit: Vec<RateLimit>,
    /// One run when a burst is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
    /// Many events in one run; never on an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// An earlier position in queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time from which on a queued run is not started any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<u64>,
    /// One run per key and period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// The handoff from version to version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// What a request does when its session is busy; actions only. `None` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// How failing steps are tried again.
    #[serde(default)]
    pub retry: Retry,
    /// How long a run may take in all, from its first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Who handles the failure of a run, in a run of its own.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How long others wait for a run that undoes what an earlier one did.
    #[serde(default = "compensate_timeout_ms")]
    pub compensate_timeout_ms: u64,
    /// Where its code is called, for workflows served over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How long the called service may be silent: before its answer, and between the parts of it.
    /// `None` leaves it to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// What it does, for people and for models that choose among tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the event's data or the request's input is: a [schema](crate::schema).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The controls that the author wrote in another way than [`Definition::to_value`] would.
    #[serde(default, skip_serializing_if = "Written::is_empty")]
    pub written: Written,
}

impl Definition {
    /// A workflow without controls, started by events of its own name.
    pub fn new(app: &str, name: &str) -> Definition {
        Definition {
            app: app.to_owned(),
            name: name.to_owned(),
            flow: None,
            version: None,
            triggers: Vec::new(),
            concurrency: Vec::new(),
            singleton: None,
            throttle: Vec::new(),
            rate_limit: Vec::new(),
            debounce: None,
            batch: None,
            priority: None,
            start_within_ms: None,
            idempotency: None,
            handoff: None,
            policy: None,
            retry: Retry::default(),
            timeout_ms: None,
            on_failure: OnFailure::Nobody,
            compensate_timeout_ms: COMPENSATE_TIMEOUT_MS,
            url: None,
            call_timeout_ms: None,
            description: None,
            schema: None,
            written: Written::default(),
        }
    }

    /// Reads a definition and says everything that is wrong with it.
    ///
    /// With the field `flow` it is read as an action of that flow.
    pub fn parse(value: &Value) -> Result<Parsed<Definition>, DefinitionErrors> {
        let flow = value.get("flow").and_then(Value::as_str);
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut problems = match flow {
            Some(flow) => Problems::new(Kind::Action, &format!("{flow}/{name}")),
            None => Problems::new(Kind::Workflow, name),
        };
        let workflow = read(value, &Context::Alone, &mut problems);
        problems.finish(workflow)
    }

    /// Checks a definition built in Rust by the same rules, and gives the warnings.
    pub fn check(&self) -> Result<Vec<Problem>, DefinitionErrors> {
        Definition::parse(&self.to_value()).map(|parsed| parsed.warnings)
    }

    /// Whether it does the same as another: they differ at most in what they say of themselves.
    pub fn works_like(&self, other: &Definition) -> bool {
        let silent = |it: &Definition| {
            let triggers = it.triggers.iter().map(Trigger::unnamed).collect();
            Definition { description: None, schema: None, triggers, ..it.clone() }
        };
        silent(self) == silent(other)
    }

    /// The definition as readers see it: user info in URLs, which may be a password, is hidden.
    #[must_use]
    pub fn public(&self) -> Definition {
        let url = self.url.as_deref().map(url::without_user);
        Definition { url, on_failure: self.on_failure.public(), ..self.clone() }
    }

    /// The trigger that is the schedule of this id.
    pub fn schedule(&self, id: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.schedule().is_some_and(|it| it == id))
    }

    /// What the schedule of this id does while its last run is not over; none without it.
    pub fn overlap(&self, id: &str) -> Option<Overlap> {
        match self.schedule(id)? {
            Trigger::Cron { on_overlap, .. } => Some(*on_overlap),
            Trigger::Event { .. } | Trigger::Stream { .. } => None,
        }
    }

    /// Whether a run that failed is followed by one of the failure handler.
    ///
    /// Definitions from before failure handlers could be called may name a URL and ask for a
    /// handler in code, which there is none of: nothing follows their failures.
    pub fn handles_failure(&self) -> bool {
        match &self.on_failure {
            OnFailure::Nobody => false,
            OnFailure::Code => self.url.is_none(),
            OnFailure::Call { .. } => true,
        }
    }

    /// Whether an event of this name starts it. Actions are started by requests only.
    pub fn is_triggered_by(&self, event: &str) -> bool {
        if self.triggers.is_empty() {
            return self.flow.is_none() && event == self.name;
        }
        self.triggers.iter().any(|trigger| trigger.matches(event))
    }

    /// The name without the flow's.
    pub fn short_name(&self) -> &str {
        let flow = self.flow.as_deref().unwrap_or_default();
        let short = self.name.strip_prefix(flow).and_then(|rest| rest.strip_prefix('/'));
        short.filter(|_| self.flow.is_some()).unwrap_or(&self.name)
    }

    /// The controls as the author defined them; `None` when nothing shapes the workflow.
    pub fn flow_control(&self) -> Option<Value> {
        let allow = self.policy.as_ref().is_none_or(|policy| policy.kind == PolicyKind::Allow);
        let mut controls = self.controls();
        if allow && self.concurrency.is_empty() {
            controls.remove("concurrency");
        }
        (!controls.is_empty()).then_some(Value::Object(controls))
    }

    /// The definition in the author's form; [`Definition::parse`] reads it back.
    pub fn to_value(&self) -> Value {
        let triggers: Vec<Value> = self.triggers.iter().map(Trigger::to_value).collect();
        let given_up = Some(self.compensate_timeout_ms).filter(|ms| *ms != COMPENSATE_TIMEOUT_MS);
        let fields = [
            ("app", Some(json!(self.app))),
            ("flow", self.flow.as_ref().map(|flow| json!(flow))),
            ("name", Some(json!(self.short_name()))),
            ("version", self.version.map(Value::from)),
            ("triggers", (!triggers.is_empty()).then_some(Value::Array(triggers))),
            ("retry", self.retry.to_value()),
            ("timeoutMs", self.timeout_ms.map(Value::from)),
            ("onFailure", self.on_failure.to_value()),
            ("compensateTimeoutMs", given_up.map(Value::from)),
            ("url", self.url.as_ref().map(|url| json!(url))),
            ("callTimeoutMs", self.call_timeout_ms.map(Value::from)),
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("schema", self.schema.clone()),
        ];
        let mut map = given(fields);
        map.extend(self.controls());
        Value::Object(map)
    }

    /// The control fields as the author wrote them.
    fn controls(&self) -> Map<String, Value> {
        let mut controls = self.plain_controls();
        self.written.restore(&mut controls);
        controls
    }

    /// The control fields, in the author's form without defaults.
    fn plain_controls(&self) -> Map<String, Value> {
        let controls = CONTROLS.iter();
        controls
            .filter_map(|control| Some((control.name.to_owned(), (control.write)(self)?)))
            .collect()
    }
}

/// The fields that have a value.
fn given<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests;
