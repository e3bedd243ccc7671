//! Tools: the actions of a workspace's flows, as clients of the Model Context Protocol see them.

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tidegate_core::{
    catalog::Catalog,
    definition::{DEFAULT_APP, Definition},
    flow::KeySource,
};

use super::frame::{Fault, MethodResult, Request, to_raw};
use crate::{ingress::Ingress, keys::hash};

/// Number of tools in a page.
const PAGE: usize = 100;

/// Maximum length of a tool name that all clients accept.
const MAX_NAME: usize = 64;

/// An action that may be called as a tool.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) name: String,
    pub(super) flow: &'a str,
    pub(super) action: &'a Definition,
}

/// Returns all tools, ordered by name. `ways` is the ingress of the config file, if it applies to
/// this workspace.
pub(super) fn all<'a>(catalog: &'a Catalog, ways: Option<&Ingress>) -> Vec<Tool<'a>> {
    let open = catalog.entries().filter_map(|(_, entry)| Some(&*entry.open()?.workflow));
    let mut tools: Vec<_> = open
        .filter_map(|action| {
            let (flow, short) = (action.flow.as_deref()?, action.short_name());
            let is_tool = ways.is_none_or(|ways| ways.is_tool(&action.app, flow, short));
            is_tool.then(|| Tool { name: name(&action.app, flow, short), flow, action })
        })
        .collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// `tools/list`: returns a page of tools.
pub(super) fn list(tools: &[Tool<'_>], request: &Request<'_>) -> MethodResult {
    #[derive(Deserialize)]
    struct Wanted {
        cursor: Option<String>,
    }
    let Wanted { cursor } = request.params()?;
    // The cursor is the last name of the previous page. So it stays valid when tools are added or
    // removed.
    let from = cursor.map_or(0, |last| tools.partition_point(|tool| tool.name <= last));
    let page = &tools[from..tools.len().min(from + PAGE)];
    let mut listed = json!({ "tools": page.iter().map(Tool::view).collect::<Vec<_>>() });
    if let Some(last) = page.last().filter(|_| from + PAGE < tools.len()) {
        listed["nextCursor"] = last.name.as_str().into();
    }
    Ok(to_raw(&listed))
}

impl Tool<'_> {
    fn view(&self) -> Value {
        let (flow, action) = (self.flow, self.action.short_name());
        let default = || format!("Calls the action `{action}` of the flow `{flow}`.");
        let mut view = json!({
            "name": self.name,
            "title": self.action.name,
            "description": self.action.description.clone().unwrap_or_else(default),
            "inputSchema": self.takes(),
        });
        let key = self.action.idempotency.as_ref().map(|it| it.key.as_ref());
        // The hint says that calls with the same input have one effect. It holds only if the
        // idempotency key depends on the input alone.
        let of_input = |key: &KeySource| {
            let paths = key.paths();
            !paths.is_empty() && paths.iter().all(|path| path.names()[0] == "input")
        };
        if key.is_some_and(|key| key.is_none_or(of_input)) {
            view["annotations"] = json!({ "idempotentHint": true });
        }
        view
    }

    /// Returns the input schema. Tool arguments are always an object: an input of another type is
    /// sent as its member `input`.
    fn takes(&self) -> Value {
        match &self.action.schema {
            None => json!({ "type": "object" }),
            Some(schema) if is_object(schema) => schema.clone(),
            Some(schema) => json!({
                "type": "object", "properties": { "input": schema }, "required": ["input"],
                "additionalProperties": false,
            }),
        }
    }

    /// Returns the action's input from the arguments of a call, byte for byte.
    pub(super) fn input<'b>(&self, arguments: Option<&'b RawValue>) -> Result<&'b str, Fault> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wrapped<'b> {
            #[serde(borrow)]
            input: &'b RawValue,
        }
        let text = arguments.map_or("{}", RawValue::get);
        if !text.starts_with('{') {
            return Err(Fault::params("`arguments` must be an object"));
        }
        if self.action.schema.as_ref().is_none_or(is_object) {
            return Ok(text);
        }
        let wrapped: Wrapped<'_> = serde_json::from_str(text).map_err(|error| {
            Fault::params(format!("`arguments` must be `{{input: …}}`: {error}"))
        })?;
        Ok(wrapped.input.get())
    }
}

fn is_object(schema: &Value) -> bool {
    schema.as_object().and_then(|it: &Map<_, _>| it.get("type")) == Some(&json!("object"))
}

/// Returns the unique tool name of an action.
///
/// It is `flow_action`, or `app--flow_action` if the app is not the default one. A `_` in the name
/// of the app or the flow is doubled, so the first single `_` ends it. A name that does not fit
/// into 64 letters, digits, `_` and `-` is replaced by a single `_` and its hash; no other name
/// begins with a single `_`.
fn name(app: &str, flow: &str, action: &str) -> String {
    let letters =
        |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
    let own_app = app != DEFAULT_APP;
    let is_plain = [app, flow, action].into_iter().all(letters)
        && !action.starts_with('_')
        && !flow.contains("--")
        && !(own_app && (app.contains("--") || app.ends_with('-') || flow.starts_with('-')));
    let head = if own_app { format!("{app}--{flow}") } else { flow.to_owned() };
    let name = format!("{}_{action}", head.replace('_', "__"));
    if is_plain && name.len() <= MAX_NAME {
        return name;
    }
    let whole = hash(json!([app, flow, action]).to_string());
    let readable = format!("{flow}-{action}");
    let readable = readable.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' });
    let readable: String = readable.take(MAX_NAME - 18).collect();
    format!("_{readable}_{}", &whole[..16])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json, value::to_raw_value};
    use tidegate_core::definition::Definition;

    use super::{Tool, list, name};
    use crate::http::mcp::frame;

    #[test]
    fn a_list_is_read_page_by_page() {
        let action = Definition::new("default", "f/a");
        let tool = |n| Tool { name: format!("f_{n:03}"), flow: "f", action: &action };
        let tools: Vec<_> = (0..250).map(tool).collect();
        let (mut params, mut seen, mut pages) = (json!({}), Vec::new(), 0);
        while !params["cursor"].is_null() || pages == 0 {
            let message =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params });
            let message = to_raw_value(&message).unwrap();
            let request = frame::read(&message).unwrap().unwrap();
            let page: Value = serde_json::from_str(list(&tools, &request).unwrap().get()).unwrap();
            seen.extend(page["tools"].as_array().unwrap().iter().map(|it| it["name"].clone()));
            (params, pages) = (json!({ "cursor": page["nextCursor"] }), pages + 1);
        }
        assert_eq!((pages, seen), (3, tools.iter().map(|tool| json!(tool.name)).collect()));
    }

    #[test]
    fn names_of_tools_are_readable_where_they_can_be() {
        for (action, expected) in [
            (["default", "support-chat", "appendMessage"], "support-chat_appendMessage"),
            (["default", "support", "sync_invoice"], "support_sync_invoice"),
            (["default", "my_flow", "sync"], "my__flow_sync"),
            (["shop", "support", "sync"], "shop--support_sync"),
            (["default", "größe", "a b"], "_gr--e-a-b_0ec75ea0a5793386"),
        ] {
            let [app, flow, action] = action;
            assert_eq!(name(app, flow, action), expected);
        }
    }

    /// Tests all short names that consist of the characters with a meaning in tool names.
    #[test]
    fn no_two_actions_have_one_name() {
        let mut names = vec![String::new()];
        let mut short = vec!["default".to_owned(), "é".to_owned(), "a".repeat(70)];
        for _ in 0..3 {
            names =
                names.iter().flat_map(|it| ["a", "_", "-"].map(|c| format!("{it}{c}"))).collect();
            short.extend(names.iter().cloned());
        }
        let mut seen = BTreeMap::new();
        for app in ["default", "a", "_", "-", "a-", "a_", "é"] {
            for flow in &short {
                for action in &short {
                    let tool = name(app, flow, action);
                    let plain = |it: char| it.is_ascii_alphanumeric() || "_-".contains(it);
                    assert!(tool.len() <= 64 && tool.chars().all(plain), "{tool}");
                    let other = seen.insert(tool.clone(), (app, flow, action));
                    assert_eq!(
                        other, None,
                        "two actions have the tool name {tool}, one is {app}, {flow}, {action}"
                    );
                }
            }
        }
    }
}
