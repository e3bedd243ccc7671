//! Ingress of flows, as the config file defines it, besides plain requests: chat, webhooks,
//! schedules, and which actions are MCP tools.
//!
//! Each of them only builds a request, which is decided like every other request.

pub(crate) mod webhook;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use tidegate_core::{
    action,
    definition::DEFAULT_APP,
    flow::{
        concurrency::{Concurrency, Span},
        policy::{Policy, PolicyKind},
    },
};

use self::webhook::Webhook;

/// Ingress of all flows.
#[derive(Debug)]
pub(crate) struct Ingress {
    /// App of the config file: the default app of requests.
    pub(crate) app: Arc<str>,
    flows: BTreeMap<String, Flow>,
}

impl Default for Ingress {
    fn default() -> Self {
        Self { app: DEFAULT_APP.into(), flows: BTreeMap::new() }
    }
}

/// Ingress of one flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) app: String,
    pub(crate) chat: Option<Chat>,
    pub(crate) webhooks: BTreeMap<String, Webhook>,
    /// Actions that are not MCP tools.
    no_tools: BTreeSet<String>,
}

/// The two actions of a chat.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chat {
    /// Action that stores a message.
    pub(crate) append: String,
    /// Action that writes the reply.
    pub(crate) respond: String,
}

impl Ingress {
    /// Removes the ingress fields from the flow definitions and returns them. What remains are
    /// plain flow definitions.
    pub(crate) fn take(
        app: &str,
        flows: &mut [Value],
        environment: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let mut all = BTreeMap::new();
        for flow in flows {
            let Some(fields) = flow.as_object_mut() else { bail!("`[[flow]]` must be a table") };
            let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let ways = take(app, fields, &environment).with_context(|| format!("flow `{name}`"))?;
            if all.insert(name.clone(), ways).is_some() {
                bail!("flow `{name}` is defined twice: give each flow its own name");
            }
        }
        Ok(Self { app: app.into(), flows: all })
    }

    pub(crate) fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.get(name)
    }

    /// Whether models may call an action as a tool.
    pub(crate) fn is_tool(&self, app: &str, flow: &str, action: &str) -> bool {
        let ways = self.flow(flow).filter(|ways| ways.app == app);
        ways.is_none_or(|ways| !ways.no_tools.contains(action))
    }
}

fn take(
    app: &str,
    fields: &mut Map<String, Value>,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Flow> {
    let app = fields.get("app").and_then(Value::as_str).unwrap_or(app).to_owned();
    let chat = fields.remove("chat");
    let chat: Option<Chat> = chat.map(Chat::deserialize).transpose().context("`chat`")?;
    let mut webhooks = BTreeMap::new();
    for (name, written) in tables(fields, "webhooks")? {
        let read = Webhook::read(&written, &environment);
        webhooks.insert(name.clone(), read.with_context(|| format!("`webhooks.{name}`"))?);
    }
    for (name, schedule) in tables(fields, "schedules")? {
        plan(fields, &name, schedule).with_context(|| format!("`schedules.{name}`"))?;
    }
    let chats = chat.iter().flat_map(|chat| [&chat.append, &chat.respond]);
    for action in chats.chain(webhooks.values().map(|webhook| &webhook.action)) {
        action_in(fields, action)?;
    }
    let no_tools = no_tools(fields)?;
    if let Some(chat) = &chat {
        check_chat(chat, fields)?;
    }
    Ok(Flow { app, chat, webhooks, no_tools })
}

/// Checks the two actions of a chat.
///
/// A message and its reply are admitted in one transaction. So they must not share the session's
/// gate: the message would make the policy reject the reply, or the reply would replace the
/// message. Nor may a message wait for a gate that runs hold until they end: a reply holds its gate
/// while it waits for its message, so the two could deadlock.
fn check_chat(chat: &Chat, fields: &Map<String, Value>) -> anyhow::Result<()> {
    // An invalid definition is not checked here: its errors are reported when it is registered.
    let Ok(flow) = action::Flow::parse(&Value::Object(fields.clone())) else { return Ok(()) };
    let action = |name: &str| {
        let ends = format!("/{name}");
        flow.value.actions.iter().find(|action| action.name.ends_with(&ends))
    };
    let (Some(append), Some(respond)) = (action(&chat.append), action(&chat.respond)) else {
        return Ok(());
    };
    if append.debounce.is_some() {
        bail!("`chat.append`: `{}` must not have `debounce`, which loses messages", chat.append);
    }
    let to_its_end = |limit: &Concurrency| limit.span == Span::Run;
    if append.singleton.is_some() || append.concurrency.iter().any(to_its_end) {
        bail!(
            "`chat.append`: `{}` must have neither `singleton` nor a limit with `span = \"run\"`",
            chat.append
        );
    }
    let kind = |policy: &Option<Policy>| policy.as_ref().map(|policy| policy.kind.clone());
    let queues = |kind: &Option<PolicyKind>| matches!(kind, Some(PolicyKind::Queue { .. }));
    let (append, respond) = (kind(&append.policy), kind(&respond.policy));
    if matches!(append, None | Some(PolicyKind::Allow)) || (queues(&append) && queues(&respond)) {
        return Ok(());
    }
    bail!(
        "`chat.append`: `{}` must have the policy `allow`: `concurrency = \"allow\"`",
        chat.append
    )
}

/// Removes the field `mcp` from the actions. Returns the names of the actions with `mcp = false`.
fn no_tools(fields: &mut Map<String, Value>) -> anyhow::Result<BTreeSet<String>> {
    let mut no_tools = BTreeSet::new();
    let actions = fields.get_mut("actions").and_then(Value::as_object_mut);
    for (name, action) in actions.into_iter().flatten() {
        match action.as_object_mut().and_then(|action| action.remove("mcp")) {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => _ = no_tools.insert(name.clone()),
            Some(other) => bail!("`actions.{name}.mcp` must be true or false, got {other}"),
        }
    }
    Ok(no_tools)
}

/// Removes the table at a key and returns it.
fn tables(fields: &mut Map<String, Value>, name: &str) -> anyhow::Result<Map<String, Value>> {
    match fields.remove(name) {
        None => Ok(Map::new()),
        Some(Value::Object(tables)) => Ok(tables),
        Some(other) => bail!("`{name}` must be tables by name, got {other}"),
    }
}

/// Returns the fields of the action with this name.
fn action_in<'a>(
    fields: &'a mut Map<String, Value>,
    action: &str,
) -> anyhow::Result<&'a mut Map<String, Value>> {
    let actions = fields.get_mut("actions").and_then(Value::as_object_mut);
    let actions = actions.context("`actions` must be tables by name, `actions.NAME = { … }`")?;
    let names = actions.keys().cloned().collect::<Vec<_>>().join("`, `");
    let members = actions.get_mut(action).and_then(Value::as_object_mut);
    members.with_context(|| format!("there is no action `{action}`: expected one of `{names}`"))
}

/// Converts a schedule to a trigger of its action. The trigger has the schedule's name as its
/// label.
fn plan(fields: &mut Map<String, Value>, name: &str, mut schedule: Value) -> anyhow::Result<()> {
    let action = schedule.as_object_mut().and_then(|it| it.remove("action"));
    let Some(Value::String(action)) = action else { bail!("`action` must name an action") };
    let members = schedule.as_object_mut();
    if members.and_then(|it| it.insert("name".to_owned(), name.into())).is_some() {
        bail!("`name` is not allowed, as the schedule's key is its name: leave it out");
    }
    let action = action_in(fields, &action)?;
    match action.entry("triggers").or_insert_with(|| json!([])) {
        Value::Array(triggers) => triggers.push(schedule),
        other => bail!("`triggers` of the action must be a list, got {other}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Ingress;

    #[test]
    fn ways_in_are_taken_out_of_a_definition() {
        let mut flows = [json!({
            "name": "f", "app": "shop",
            "actions": { "append": { "url": "http://a", "mcp": false },
                "respond": { "url": "http://b", "mcp": true } },
            "chat": { "append": "append", "respond": "respond" },
            "webhooks": { "w": { "action": "append", "scheme": "github", "secretEnv": "S" } },
            "schedules": { "s": { "action": "respond", "cron": "0 3 * * *" } },
        })];
        let ways = Ingress::take("a", &mut flows, |_| Some("secret".to_owned())).unwrap();
        let flow = ways.flow("f").unwrap();
        assert_eq!((flow.app.as_str(), flow.webhooks["w"].action.as_str()), ("shop", "append"));
        assert_eq!(flow.chat.as_ref().unwrap().respond, "respond");
        let tools = [("shop", "append"), ("shop", "respond"), ("default", "append")]
            .map(|(app, action)| ways.is_tool(app, "f", action));
        assert_eq!(tools, [false, true, true]);
        let plain = json!({
            "name": "f", "app": "shop",
            "actions": {
                "append": { "url": "http://a" },
                "respond": { "url": "http://b", "triggers": [{ "cron": "0 3 * * *", "name": "s" }] },
            },
        });
        assert_eq!(flows[0], plain);
    }

    #[test]
    fn what_leads_nowhere_is_named() {
        for (field, value, said) in [
            (
                "chat",
                json!({ "append": "x", "respond": "a" }),
                "no action `x`: expected one of `a`, `b`",
            ),
            ("chat", json!({ "append": "a" }), "`chat`: missing field `respond`"),
            ("webhooks", json!(1), "`webhooks` must be tables by name, got 1"),
            (
                "actions",
                json!({ "a": { "mcp": 1 } }),
                "`actions.a.mcp` must be true or false, got 1",
            ),
            (
                "schedules",
                json!({ "s": { "cron": "x" } }),
                "`schedules.s`: `action` must name an action",
            ),
            ("schedules", json!({ "s": { "action": "a", "name": "t" } }), "leave it out"),
            ("concurrency", json!("restart"), "`a` must have the policy `allow`"),
            ("concurrency", json!("reject"), "`a` must have the policy `allow`"),
            ("append", json!({ "debounce": { "periodMs": 1 } }), "`a` must not have `debounce`"),
            ("append", json!({ "singleton": {} }), "`a` must have neither `singleton` nor"),
            (
                "append",
                json!({ "concurrency": { "limit": 1, "span": "run" } }),
                "`a` must have neither `singleton` nor",
            ),
        ] {
            let mut flow = json!({ "name": "f", "actions": { "a": {}, "b": {} } });
            if ["concurrency", "append"].contains(&field) {
                flow["chat"] = json!({ "append": "a", "respond": "b" });
            }
            if field == "append" {
                flow["actions"]["a"] = value;
            } else {
                flow[field] = value;
            }
            let error = format!("{:#}", Ingress::take("a", &mut [flow], |_| None).unwrap_err());
            assert!(error.starts_with("flow `f`: ") && error.contains(said), "{error}");
        }
        let twice = json!({ "name": "f", "actions": {} });
        let error =
            Ingress::take("a", &mut [twice.clone(), twice], |_| None).unwrap_err().to_string();
        assert!(error.contains("defined twice"), "{error}");
    }
}
