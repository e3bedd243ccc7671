//! Checks the examples of the book: the engine accepts the TOML definitions, those in JSON are the
//! same, and the programs in Rust are compiled.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tidegate::{Action, Ctx, Flow, Pool, Workflow, testing::TestHarness};

pub(crate) async fn nothing(_: Ctx, _: Value) -> tidegate::Result<()> {
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

/// Returns the pages of the controls by name.
pub(crate) fn control_pages() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controls");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let named = files.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    let overviews = ["at-a-glance.md", "combining.md"];
    named.filter(|(name, _)| !overviews.contains(&&**name)).collect()
}

/// Returns the pools, workflows and flows in the blocks of one language, by name.
fn definitions(page: &str, language: &str) -> BTreeMap<String, Value> {
    let read = |block: &str| -> Vec<Value> {
        if language == "json" {
            return vec![serde_json::from_str(block).unwrap()];
        }
        let block: Value = toml::from_str(block).unwrap();
        ["pool", "workflow", "flow"].iter().flat_map(|kind| tables(&block, kind)).collect()
    };
    let all = blocks(page, language).into_iter().flat_map(read);
    all.map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one)).collect()
}

#[test]
fn every_example_in_toml_is_there_in_json_too() {
    for (name, path) in control_pages() {
        let page = fs::read_to_string(&path).unwrap();
        assert_eq!(definitions(&page, "json"), definitions(&page, "toml"), "{name}");
    }
}

#[test]
fn every_page_of_a_control_has_a_picture() {
    for (name, path) in control_pages() {
        let page = fs::read_to_string(&path).unwrap();
        assert!(page.contains("](pictures/"), "{name}: add a story to pictures.rs");
    }
}

#[test]
fn every_page_with_a_program_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiled = include_str!("../../src/book.rs");
    for folder in ["docs", "docs/concepts", "docs/controls", "docs/operate", "docs/patterns"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|it| it != "md") {
                continue;
            }
            let file = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
            let page = fs::read_to_string(&path).unwrap();
            // An indented block is a part of a program.
            let programs = page.lines().any(|line| line == "```rust");
            assert!(!programs || compiled.contains(&file), "add {file} to src/book.rs");
        }
    }
}

#[tokio::test]
async fn every_page_of_a_control_has_an_example_that_is_accepted() {
    for (name, path) in control_pages() {
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
