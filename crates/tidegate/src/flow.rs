//! Builders of flows and actions.

use std::{fmt, future::Future, ops::RangeInclusive, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tidegate_core::{
    definition::{Code, Problem},
    key::{Key, Scalar},
    request::Request,
};

use crate::{
    context::Ctx,
    controls::{Concurrency, Policy, append},
    handler::{KeyFunction, ServedWorkflow, Typed},
    step_error::Result,
    workflow::{read_fields, read_toml},
};

/// A named group of actions that share their sessions.
///
/// ```
/// use tidegate::{new_request, prelude::*, testing::TestHarness};
///
/// async fn respond(ctx: Ctx, question: String) -> Result<String> {
///     ctx.session()?.append("asked", "questions", &question).await?;
///     Ok(format!("{question}? Let me think."))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let chat = Flow::new("chat").policy(Policy::queue()).action(Action::new("respond", respond));
/// let harness = TestHarness::new();
/// let engine = harness.engine().flow(chat).start().await?;
/// let mut request = new_request("chat", "respond", "Why")?;
/// request.session = Some("ada".to_owned());
/// let run = engine.dispatch(request).await?.verdict.run().expect("a queue refuses no request");
/// assert_eq!(engine.handle::<String>(run).output().await?, "Why? Let me think.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Flow {
    definition: Map<String, Value>,
    actions: Vec<ServedWorkflow>,
    key_function: Option<Function>,
    unreadable: Option<Problem>,
}

/// Name that definitions use for the key function of a flow's own policy.
const FLOWS_OWN: &str = "*";

impl Flow {
    /// Creates a flow of this name.
    pub fn new(name: &str) -> Self {
        Self::from_definition(json!({ "name": name }))
    }

    /// Creates a flow from a definition written as data.
    ///
    /// [`Flow::action`] adds the code of each action, by the action's name.
    pub fn from_definition(definition: Value) -> Self {
        let (definition, unreadable) = read_fields("flow", definition);
        Self { definition, actions: Vec::new(), key_function: None, unreadable }
    }

    /// Creates a flow from a definition written in TOML, with the same fields.
    pub fn from_toml(definition: &str) -> Self {
        let (definition, unreadable) = read_toml("flow", definition);
        Self { unreadable, ..Self::from_definition(Value::Object(definition)) }
    }

    /// Sets the app that the flow belongs to.
    pub fn app(mut self, app: &str) -> Self {
        self.definition.insert("app".to_owned(), json!(app));
        self
    }

    /// Sets the policy of actions that have no policy of their own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.definition.insert("concurrency".to_owned(), policy.into_value());
        self
    }

    /// Sets the policy as [`Flow::policy`] does, with a key that this function computes from a
    /// request.
    ///
    /// If the function returns `None`, the policy does not apply to the request. All actions
    /// without a policy of their own share this key space.
    pub fn policy_by<K: Into<ActionKey>>(
        mut self,
        policy: Policy,
        key: impl Fn(&Request) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        self.key_function = Some(Function::new(key));
        self.policy(policy.by_function(FLOWS_OWN))
    }

    /// Adds an action.
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action.0);
        self
    }

    /// Returns the whole definition, the code of each action in the same order, and the problems
    /// found in either.
    pub(crate) fn into_parts(self) -> (Value, Vec<ServedWorkflow>, Vec<Problem>) {
        let Self { mut definition, mut actions, key_function, unreadable } = self;
        if let Some(unreadable) = unreadable {
            return (Value::Null, actions, vec![unreadable]);
        }
        for action in &mut actions {
            let own = action.key_function.take();
            action.key_function = own.or_else(|| key_function.as_ref().map(|it| it.0.clone()));
        }
        let mut written = written_actions(definition.remove("actions").unwrap_or(json!([])));
        let mut listed = Vec::new();
        for action in &actions {
            let name = &action.definition["name"];
            let same = written.iter().position(|written| written["name"] == *name);
            let mut whole = same.map_or_else(|| json!({}), |at| written.remove(at));
            if let (Some(whole), Some(fields)) =
                (whole.as_object_mut(), action.definition.as_object())
            {
                whole.extend(fields.clone());
            }
            listed.push(whole);
        }
        let without = written.iter().map(|action| without_code(&definition, action)).collect();
        listed.extend(written);
        definition.insert("actions".to_owned(), Value::Array(listed));
        (Value::Object(definition), actions, without)
    }
}

/// Returns the actions of a definition as a list. The definition may have them as a list or as a
/// map.
pub(crate) fn written_actions(actions: Value) -> Vec<Value> {
    let named = |(name, mut action): (String, Value)| {
        if let Some(fields) = action.as_object_mut() {
            fields.entry("name").or_insert(json!(name));
        }
        action
    };
    match actions {
        Value::Array(list) => list,
        Value::Object(map) => map.into_iter().map(named).collect(),
        other => vec![other],
    }
}

fn without_code(flow: &Map<String, Value>, action: &Value) -> Problem {
    let name = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("?").to_owned();
    let (flow, action) = (name(flow.get("name")), name(action.get("name")));
    Problem {
        code: Code::MissingField,
        subject: format!("flow `{flow}`"),
        field: format!("actions.{action}"),
        message: format!("has no code: add it with `.action(Action::new(\"{action}\", …))`"),
    }
}

/// A key function.
struct Function(KeyFunction);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").finish_non_exhaustive()
    }
}

impl Function {
    fn new<K: Into<ActionKey>>(
        key: impl Fn(&Request) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        let said = move |request: &Request| key(request).map_or(Key::Missing, |key| key.into().0);
        Self(Arc::new(said))
    }
}

/// A workflow that is started by a request.
///
/// ```
/// use tidegate::prelude::*;
///
/// let pay = Action::new("pay", async |_: Ctx, cents: u32| Ok(cents))
///     .policy(Policy::reject().key("input"))
///     .description("Pays an amount.");
/// let shop = Flow::new("shop").action(pay);
/// ```
#[must_use]
pub struct Action(ServedWorkflow);

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Action {
    /// Creates an action of this name.
    pub fn new<F, Fut, I, O>(name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        Self(ServedWorkflow {
            definition: json!({ "name": name }),
            unreadable: None,
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

    fn and(mut self, field: &str, value: Value) -> Self {
        append(&mut self.0.definition[field], value);
        self
    }

    /// Sets the policy for requests whose session is busy.
    pub fn policy(self, policy: Policy) -> Self {
        self.and("concurrency", policy.into_value())
    }

    /// Sets the policy as [`Action::policy`] does, with a key that this function computes from a
    /// request.
    ///
    /// If the function returns `None`, the policy does not apply to the request.
    pub fn policy_by<K: Into<ActionKey>>(
        self,
        policy: Policy,
        key: impl Fn(&Request) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        let name = self.0.definition["name"].as_str().unwrap_or_default().to_owned();
        let mut action = self.policy(policy.by_function(&name));
        action.0.key_function = Some(Function::new(key).0);
        action
    }

    /// Adds a schedule that starts the action, in addition to requests.
    ///
    /// The input of such a run is `{schedule, plannedAt}`, which is not checked against the
    /// action's schema. The run has no session and no user.
    pub fn schedule(mut self, schedule: crate::Schedule) -> Self {
        match &mut self.0.definition["triggers"] {
            Value::Array(triggers) => triggers.push(schedule.into_value()),
            none => *none = json!([schedule.into_value()]),
        }
        self
    }

    crate::controls::on_both!();

    /// Limits the number of concurrent runs of this action, in addition to its policy.
    pub fn concurrency(self, limit: Concurrency) -> Self {
        self.and("concurrency", limit.into_value())
    }

    /// Declares that this code also continues the runs of these older versions.
    pub fn also_serves(mut self, versions: RangeInclusive<u32>) -> Self {
        self.0.also_serves = Some(versions);
        self
    }

    /// Sets the failure handler: it runs once, after a run has failed permanently.
    ///
    /// The failure handler is a run of its own and records its own steps.
    pub fn on_failure<F, Fut, I>(mut self, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
    {
        self.0.on_failure = Some(Arc::new(Typed::<_, I, ()>::new(handler)));
        self.with("onFailure", json!(true))
    }
}

/// Key that a key function returns: text, a whole number or a boolean.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Action, Ctx, Flow, ServedWorkflow};
    use crate::Workflow;

    #[test]
    fn what_code_says_of_itself_is_in_its_definition() {
        let schema = json!({ "type": "integer" });
        let count = Action::new("count", async |_: Ctx, n: u32| Ok(n));
        let count = count.description("Counts.").schema(schema.clone());
        let (definition, ..) = Flow::new("shop").action(count).into_parts();
        let counts = json!({ "name": "count", "description": "Counts.", "schema": schema });
        assert_eq!(definition["actions"], json!([counts]));
        let count = Workflow::new("count", async |_: Ctx, n: u32| Ok(n));
        let served: ServedWorkflow = count.description("Counts.").schema(schema).into();
        assert_eq!(served.definition, counts);
    }
}
