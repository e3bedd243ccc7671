//! Definitions of workflows, as an author writes them.
//!
//! A definition is written in JSON or built in Rust. Both are checked by the same reader and get
//! the same errors and warnings. It has two forms. [`Definition::to_value`] returns the author's
//! form: without defaults, unless the author wrote them. Serde writes the stored form, with all
//! defaults, so that a stored definition keeps its meaning when a default changes.

mod end_events;
mod event_match;
mod on_failure;
mod on_too_many;
pub(crate) mod overlap;
mod problem;
mod read;
mod remote;
mod retry;
mod rules;
mod trigger;
mod url;
mod written;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use end_events::EndEvents;
pub use event_match::{EventMatch, MAX_PAIRS};
pub use on_failure::OnFailure;
pub use on_too_many::OnTooMany;
pub use overlap::Overlap;
pub use problem::{
    Code, DefinitionErrors, MAX_DESCRIPTION_CHARS, MAX_DURATION_MS, MAX_NAME_CHARS, MAX_PROBLEMS,
    Parsed, Problem,
};
pub(crate) use problem::{Fields, Kind, Problems, Reported, nearest, shorten, shorten_text, whole};
pub(crate) use read::{Context, read};
pub use remote::Remote;
pub use retry::Retry;
pub use trigger::{CATCH_UP_MS, MIN_CATCH_UP_MS, STREAM_PREFIX, Trigger};
pub use written::Written;

use crate::{
    flow::{
        CONTROLS,
        batch::Batch,
        cancel_on::CancelOn,
        concurrency::Concurrency,
        debounce::Debounce,
        handoff::Handoff,
        idempotency::Idempotency,
        key_source,
        policy::{Policy, PolicyKind},
        pool::{Part, PoolUse},
        priority::Priority,
        rate_limit::RateLimit,
        singleton::Singleton,
        throttle::Throttle,
    },
    row::Event,
};

/// The app of a definition that does not name one.
pub const DEFAULT_APP: &str = "default";

/// Maximum number of triggers of one workflow. Every event may be compared with all of them.
pub const MAX_TRIGGERS: usize = 100;

/// Maximum number of concurrency limits of one workflow. Every run takes a gate for each of them.
pub const MAX_LIMITS: usize = 16;

/// Default of `compensateTimeoutMs`: how long a compensating run keeps its gates before the next
/// run gets them.
pub const COMPENSATE_TIMEOUT_MS: u64 = 60_000;

/// Maximum time that a called service may be silent: two hours. Networks drop connections that are
/// silent for longer.
pub const MAX_CALL_TIMEOUT_MS: u64 = 2 * 60 * 60 * 1000;

fn compensate_timeout_ms() -> u64 {
    COMPENSATE_TIMEOUT_MS
}

/// Definition of a workflow, or of an action of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// The app that the workflow belongs to.
    pub app: String,
    /// The workflow's name, unique in the app; `flow/action` for an action.
    pub name: String,
    /// The flow that the action belongs to; none for a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The version number, if the author gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The triggers. A workflow without triggers is started by events with its own name.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// Limits on the number of runs at the same time.
    #[serde(default)]
    pub concurrency: Vec<Concurrency>,
    /// Control `singleton`: at most one run per key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub singleton: Option<Singleton>,
    /// The limits on starts over time.
    #[serde(default, with = "crate::one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<Throttle>,
    /// The limits on events over time.
    #[serde(default, with = "crate::one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub rate_limit: Vec<RateLimit>,
    /// The limits of pools that runs pass, in the order of their controls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolUse>,
    /// One run when a burst is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
    /// Control `batch`: one run for many events. Not allowed on actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Control `priority`: shifts the rank of runs in queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Control `startWithinMs`: a run that has not started after this time is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<u64>,
    /// Control `cancelOn`: events that cancel a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel_on: Vec<CancelOn>,
    /// Events that a run receives from its admission on, before it waits for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<EventMatch>,
    /// Control `idempotency`: one run per key and period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// Control `handoff`: how runs of a new version replace or wait for runs of the old version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// The handling of a request while another run of its session is active. Only for actions;
    /// none means `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The settings for retries of failed steps.
    #[serde(default)]
    pub retry: Retry,
    /// Maximum total duration of a run, from its first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The failure handler: it is executed in a new run after a run has failed.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How long a compensating run keeps its gates before the next run gets them.
    #[serde(default = "compensate_timeout_ms")]
    pub compensate_timeout_ms: u64,
    /// The URL of the code, for workflows that are called over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The place of the code, for workflows whose code is in an application that is called by a
    /// protocol. At most one of `url` and `remote` is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// The events that the end of a run posts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_events: Option<EndEvents>,
    /// Maximum time that the called service may be silent: before its response, and between the
    /// parts of the response. None means the server's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// The gate that a response 429 or 503 of the called service closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_too_many: Option<OnTooMany>,
    /// A description of the workflow, for people and for models that choose among tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The [schema](crate::schema) of the event's data or the request's input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The author's text of controls for which the plain form differs from it.
    #[serde(default, skip_serializing_if = "Written::is_empty")]
    pub written: Written,
}

impl Definition {
    /// Creates a workflow without controls that is started by events with its own name.
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
            pools: Vec::new(),
            debounce: None,
            batch: None,
            priority: None,
            start_within_ms: None,
            cancel_on: Vec::new(),
            waits_for: Vec::new(),
            idempotency: None,
            handoff: None,
            policy: None,
            retry: Retry::default(),
            timeout_ms: None,
            on_failure: OnFailure::Nobody,
            compensate_timeout_ms: COMPENSATE_TIMEOUT_MS,
            url: None,
            remote: None,
            end_events: None,
            call_timeout_ms: None,
            on_too_many: None,
            description: None,
            schema: None,
            written: Written::default(),
        }
    }

    /// Parses a definition and reports all of its problems.
    ///
    /// A definition with the field `flow` is parsed as an action of that flow.
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

    /// Checks a definition that was built in Rust by the rules of [`Definition::parse`], and
    /// returns the warnings.
    pub fn check(&self) -> Result<Vec<Problem>, DefinitionErrors> {
        Definition::parse(&self.to_value()).map(|parsed| parsed.warnings)
    }

    /// Whether two definitions have the same effect: they may differ only in the description, the
    /// schema and the display names of schedules.
    pub fn works_like(&self, other: &Definition) -> bool {
        let silent = |it: &Definition| {
            let triggers = it.triggers.iter().map(Trigger::unnamed).collect();
            Definition { description: None, schema: None, triggers, ..it.clone() }
        };
        silent(self) == silent(other)
    }

    /// Returns the definition for display. User info in URLs is hidden, because it may contain a
    /// password.
    #[must_use]
    pub fn public(&self) -> Definition {
        let url = self.url.as_deref().map(url::without_user);
        let remote = self.remote.as_ref().map(Remote::public);
        Definition { url, remote, on_failure: self.on_failure.public(), ..self.clone() }
    }

    /// Whether the code is a service that the server calls, and no code of a program.
    pub fn is_called(&self) -> bool {
        self.called_at().is_some()
    }

    /// Returns the URL of this service.
    pub fn called_at(&self) -> Option<&str> {
        self.url.as_deref().or(self.remote.as_ref().map(|remote| remote.url.as_str()))
    }

    /// Returns the cron trigger whose schedule has this id.
    pub fn schedule(&self, id: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.schedule().is_some_and(|it| it == id))
    }

    /// Returns the `onOverlap` setting of the schedule with this id; none if there is no such
    /// schedule.
    pub fn overlap(&self, id: &str) -> Option<Overlap> {
        match self.schedule(id)? {
            Trigger::Cron { on_overlap, .. } => Some(*on_overlap),
            Trigger::Event { .. } | Trigger::Stream { .. } => None,
        }
    }

    /// Whether a failed run is followed by a run of the failure handler.
    ///
    /// Older stored definitions may have both a URL and a handler in code. A workflow with a URL
    /// has no code in this program, so nothing follows their failures.
    pub fn handles_failure(&self) -> bool {
        match &self.on_failure {
            OnFailure::Nobody => false,
            OnFailure::Code => !self.is_called(),
            OnFailure::Call { .. } => true,
        }
    }

    /// Whether an event of this name starts the workflow. Events never start an action.
    pub fn is_triggered_by(&self, event: &str) -> bool {
        if self.triggers.is_empty() {
            return self.flow.is_none() && event == self.name;
        }
        self.triggers.iter().any(|trigger| trigger.matches(event))
    }

    /// Whether an event starts the workflow: it has the name of a trigger whose condition holds.
    ///
    /// If no such condition holds and the evaluation of one failed, returns the error.
    pub fn takes(&self, event: &Event) -> Result<bool, String> {
        if self.triggers.iter().all(|trigger| trigger.condition().is_none()) {
            return Ok(self.is_triggered_by(&event.name));
        }
        let mut error = None;
        for trigger in self.triggers.iter().filter(|trigger| trigger.matches(&event.name)) {
            let holds = trigger.condition().map_or(Ok(true), |it| key_source::holds(it, event));
            match holds {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(reason) => error = error.or(Some(reason)),
            }
        }
        error.map_or(Ok(false), Err)
    }

    /// Returns the name without the name of the flow.
    pub fn short_name(&self) -> &str {
        let flow = self.flow.as_deref().unwrap_or_default();
        let short = self.name.strip_prefix(flow).and_then(|rest| rest.strip_prefix('/'));
        short.filter(|_| self.flow.is_some()).unwrap_or(&self.name)
    }

    /// Returns the controls as the author wrote them; none if the workflow has no controls.
    pub fn flow_control(&self) -> Option<Value> {
        let allow = self.policy.as_ref().is_none_or(|policy| policy.kind == PolicyKind::Allow);
        let mut controls = self.controls();
        if allow && self.concurrency.is_empty() && self.uses(Part::Concurrency).next().is_none() {
            controls.remove("concurrency");
        }
        (!controls.is_empty()).then_some(Value::Object(controls))
    }

    /// Returns the definition in the author's form, which [`Definition::parse`] accepts.
    pub fn to_value(&self) -> Value {
        let triggers: Vec<Value> = self.triggers.iter().map(Trigger::to_value).collect();
        let given_up = Some(self.compensate_timeout_ms).filter(|ms| *ms != COMPENSATE_TIMEOUT_MS);
        let fields = [
            ("app", Some(json!(self.app))),
            ("flow", self.flow.as_ref().map(|flow| json!(flow))),
            ("name", Some(json!(self.short_name()))),
            ("version", self.version.map(Value::from)),
            ("triggers", (!triggers.is_empty()).then_some(Value::Array(triggers))),
            ("waitsFor", (!self.waits_for.is_empty()).then(|| json!(self.waits_for))),
            ("retry", self.retry.to_value()),
            ("timeoutMs", self.timeout_ms.map(Value::from)),
            ("onFailure", self.on_failure.to_value()),
            ("compensateTimeoutMs", given_up.map(Value::from)),
            ("url", self.url.as_ref().map(|url| json!(url))),
            ("remote", self.remote.as_ref().map(Remote::to_value)),
            ("endEvents", self.end_events.as_ref().map(EndEvents::to_value)),
            ("callTimeoutMs", self.call_timeout_ms.map(Value::from)),
            ("onTooMany", self.on_too_many.as_ref().map(OnTooMany::to_value)),
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("schema", self.schema.clone()),
        ];
        let mut map = given(fields);
        map.extend(self.controls());
        Value::Object(map)
    }

    /// Returns the control fields as the author wrote them.
    fn controls(&self) -> Map<String, Value> {
        let mut controls = self.plain_controls();
        self.written.restore(&mut controls);
        controls
    }

    /// Returns the control fields in their plain form: without defaults.
    fn plain_controls(&self) -> Map<String, Value> {
        let controls = CONTROLS.iter();
        controls
            .filter_map(|control| Some((control.name.to_owned(), (control.write)(self)?)))
            .collect()
    }
}

/// Returns the fields that have a value, as a map.
fn given<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
