//! Checks the tables of refused definitions on the pages of the controls.
//!
//! The first cell of a row is a definition in TOML, lines of a workflow or one pool; the engine
//! refuses it, and the other cells are the codes and the messages of its problems.

use std::fs;

use expect_test::expect_file;
use serde_json::{Map, Value, json};
use tidegate::{Error, Flow, Pool, Workflow, testing::TestHarness};
use tidegate_core::definition::Problem;

use crate::examples::{control_pages, nothing};

/// Header of the table.
const HEADER: &str = "| definition | code | message |\n|---|---|---|\n";

#[tokio::test]
async fn every_page_of_a_control_says_what_is_refused_with_which_error() {
    let mut accepted = Vec::new();
    for (name, path) in control_pages() {
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) =
            page.split_once(HEADER).unwrap_or_else(|| panic!("{name}: no table of refusals"));
        let rows = rest.lines().take_while(|line| line.starts_with('|'));
        let mut checked = Vec::new();
        for row in rows.clone() {
            let cell = row[1..].split(" | ").next().unwrap_or_default().trim();
            let problems = problems(cell).await;
            accepted.extend(problems.is_empty().then(|| format!("{name}: {cell}")));
            checked.push(shown(cell, &problems));
        }
        let after: Vec<&str> = rest.lines().skip(checked.len()).collect();
        let expected = format!("{before}{HEADER}{}\n{}\n", checked.join("\n"), after.join("\n"));
        expect_file![path].assert_eq(&expected);
    }
    assert!(accepted.is_empty(), "these definitions are accepted: {accepted:#?}");
}

fn shown(cell: &str, problems: &[Problem]) -> String {
    let codes: Vec<String> = problems.iter().map(|it| format!("`{}`", it.code.as_str())).collect();
    let messages: Vec<String> =
        problems.iter().map(|it| format!("{} {}", it.field, it.message)).collect();
    let messages = messages.join("; ").replace('|', "\\|");
    format!("| {cell} | {} | {messages} |", codes.join(", "))
}

/// Returns the problems of the definition in a cell: code spans, which are lines of TOML.
async fn problems(cell: &str) -> Vec<Problem> {
    let lines: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    let read: Map<String, Value> =
        toml::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{cell}: {error}"));
    let with = |more: Value| {
        let mut all = more.as_object().unwrap().clone();
        all.extend(read.clone());
        Value::Object(all)
    };
    let gpu = json!({ "name": "gpu", "concurrency": { "limit": 4 } });
    let engine = TestHarness::new().engine();
    let engine = if let Some(pool) = read.get("pool") {
        engine.pool(Pool::from_definition(pool.clone()))
    } else if read.contains_key("actions") {
        engine.flow(Flow::from_definition(with(json!({ "name": "flow" }))))
    } else {
        let workflow = Workflow::from_definition(with(json!({ "name": "work" })), nothing);
        engine.pool(Pool::from_definition(gpu)).workflow(workflow)
    };
    match engine.start().await {
        Err(Error::Definition(problems)) => problems,
        Err(other) => panic!("{cell}: {other}"),
        Ok(_) => Vec::new(),
    }
}
