//! Flows and actions as a program defines them.

use std::{fmt, future::Future, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tidegate_core::{
    key::{Key, Scalar},
    request::Request,
};

use crate::{
    context::Ctx,
    controls::{Concurrency, Debounce, Idempotency, Policy, Priority, Rate, Singleton},
    fault::Result,
    handler::{KeyFunction, Served, Typed},
};

/// A named group of actions that share their sessions.
#[derive(Debug)]
#[must_use]
pub struct Flow {
    definition: Map<String, Value>,
    actions: Vec<Served>,
}

impl Flow {
    /// A flow of this name.
    pub fn new(name: &str) -> Self {
        let definition = Map::from_iter([("name".to_owned(), json!(name))]);
        Self { definition, actions: Vec::new() }
    }

    /// The app that it belongs to.
    pub fn app(mut self, app: &str) -> Self {
        self.definition.insert("app".to_owned(), json!(app));
        self
    }

    /// The policy of actions that have none of their own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.definition.insert("concurrency".to_owned(), policy.into_value());
        self
    }

    /// Adds an action.
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action.0);
        self
    }

    /// The whole definition, and the code of each action in the same order.
    pub(crate) fn into_parts(self) -> (Value, Vec<Served>) {
        let Self { mut definition, actions } = self;
        let listed = actions.iter().map(|action| action.definition.clone()).collect();
        definition.insert("actions".to_owned(), Value::Array(listed));
        (Value::Object(definition), actions)
    }
}

/// A workflow that is started by a request.
#[must_use]
pub struct Action(Served);

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Action {
    /// An action of this name.
    pub fn new<F, Fut, I, O>(name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        Self(Served {
            definition: json!({ "name": name }),
            handler: Arc::new(Typed::<F, I, O>::new(handler)),
            on_failure: None,
            also_serves: None,
            key_function: None,
        })
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.0.definition[field] = value;
        self
    }

    fn and_concurrency(mut self, value: Value) -> Self {
        match &mut self.0.definition["concurrency"] {
            Value::Array(entries) => entries.push(value),
            none @ Value::Null => *none = value,
            first => *first = json!([first.take(), value]),
        }
        self
    }

    /// What a request does when its session is busy.
    pub fn policy(self, policy: Policy) -> Self {
        self.and_concurrency(policy.into_value())
    }

    /// As [`Action::policy`], with the key that this function sees in a request; none means that
    /// the request is not arbitrated.
    pub fn policy_by<K: Into<ActionKey>>(
        self,
        policy: Policy,
        key: impl Fn(&Request) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        let name = self.0.definition["name"].as_str().unwrap_or_default().to_owned();
        let mut value = policy.into_value();
        value["key"] = json!({ "function": name });
        let mut action = self.and_concurrency(value);
        let function: KeyFunction = Arc::new(move |request| key(request).map(|key| key.into().0));
        action.0.key_function = Some(function);
        action
    }

    /// How many runs of it are inside at once, beside its policy.
    pub fn concurrency(self, limit: Concurrency) -> Self {
        self.and_concurrency(limit.into_value())
    }

    /// Starts are spread out; none is lost.
    pub fn throttle(self, rate: Rate) -> Self {
        self.with("throttle", rate.into_value())
    }

    /// Requests beyond the rate are refused.
    pub fn rate_limit(self, rate: Rate) -> Self {
        self.with("rateLimit", rate.into_value())
    }

    /// One run when a burst is over.
    pub fn debounce(self, debounce: Debounce) -> Self {
        self.with("debounce", debounce.into_value())
    }

    /// An earlier place in line.
    pub fn priority(self, priority: Priority) -> Self {
        self.with("priority", priority.into_value())
    }

    /// At most one run that is not over.
    pub fn singleton(self, singleton: Singleton) -> Self {
        self.with("singleton", singleton.into_value())
    }

    /// One run for the same key in a period.
    pub fn idempotency(self, idempotency: Idempotency) -> Self {
        self.with("idempotency", idempotency.into_value())
    }
}

/// What a key function may return: text, a whole number or a truth value.
#[derive(Clone, Debug)]
pub struct ActionKey(Key);

impl From<&str> for ActionKey {
    fn from(text: &str) -> Self {
        Self(Key::Value(Scalar::text(text.to_owned())))
    }
}

impl From<String> for ActionKey {
    fn from(text: String) -> Self {
        Self(Key::Value(Scalar::text(text)))
    }
}

impl From<bool> for ActionKey {
    fn from(truth: bool) -> Self {
        Self(Key::Value(Scalar::Bool(truth)))
    }
}
