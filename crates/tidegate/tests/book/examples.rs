//! Checks that the engine accepts the TOML definitions in the book.

use std::{fs, path::Path};

use serde_json::Value;
use tidegate::{Action, Ctx, Flow, Pool, Workflow, testing::TestHarness};

async fn nothing(_: Ctx, _: Value) -> tidegate::Result<()> {
    Ok(())
}

/// Returns the code blocks of a page that are written in one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = page.split(fence.as_str()).skip(1);
    blocks.filter_map(|rest| rest.split("\n```").next()).collect()
}

/// Returns the TOML tables of a block that have this name.
fn tables(block: &Value, name: &str) -> Vec<Value> {
    block[name].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn every_page_of_a_control_has_an_example_that_is_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controls");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|it| it != "md")
            || ["at-a-glance.md", "combining.md"].contains(&name.as_str())
        {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        assert!(!blocks(&page, "rust").is_empty(), "{name}: the page has no example in Rust");
        let mut defined = 0;
        for block in blocks(&page, "toml") {
            let read: Value =
                toml::from_str(block).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut builder = TestHarness::new().engine();
            for pool in tables(&read, "pool") {
                builder = builder.pool(Pool::from_definition(pool));
            }
            for mut workflow in tables(&read, "workflow") {
                // The server finds the code by URL. Here the test passes a handler instead.
                workflow.as_object_mut().unwrap().remove("url");
                builder = builder.workflow(Workflow::from_definition(workflow, nothing));
                defined += 1;
            }
            for mut flow in tables(&read, "flow") {
                for (_, action) in flow["actions"].as_object_mut().unwrap() {
                    action.as_object_mut().unwrap().remove("url");
                }
                let actions = flow["actions"].as_object().cloned().unwrap_or_default();
                let mut flow = Flow::from_definition(flow);
                for action in actions.keys() {
                    flow = flow.action(Action::new(action, nothing));
                }
                builder = builder.flow(flow);
                defined += 1;
            }
            let engine = builder.start().await;
            engine.map_or_else(|error| panic!("{name}: {error}\n{block}"), drop);
        }
        assert!(defined > 0, "{name}: the page has no example in TOML");
    }
}
