//! Contract of listings: the output of commands on a fixed store, which is the database of an
//! earlier build.

use std::{collections::BTreeSet, fs, path::Path};

use expect_test::expect_file;
use serde_json::Value;

use crate::tidegate;

const DATABASE: &str = "../tidegate/tests/old_databases/before_0023/sqlite.db";

/// Beginning of all times in the fixed database. Other times come from the clock of this machine.
const NOW: &str = "2026-02-0";

/// Commands that read the file. `RUN` stands for a run with steps, and `EVENT` for its event.
const LOOKS: [&[&str]; 15] = [
    &["runs", "list", "--limit", "12"],
    &["runs", "list", "--state", "failed"],
    &["runs", "show", "RUN"],
    &["why", "RUN"],
    &["workflows"],
    &["streams", "list"],
    &["streams", "show", "account-1"],
    &["reactions"],
    &["gates"],
    &["events", "list", "--limit", "5"],
    &["events", "show", "EVENT"],
    &["receipts", "--limit", "12"],
    &["stats"],
    &["schedules"],
    &["schedules", "--workspace", "other"],
];

/// Commands that open the store themselves.
const OPENS: [&[&str]; 2] = [&["keys", "list"], &["doctor"]];

/// A listing command with its output.
struct Printed {
    command: String,
    plain: String,
    json: String,
}

fn all() -> Vec<Printed> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.db");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(DATABASE), &file).unwrap();
    let file = file.display().to_string();
    // An earlier build has written the file.
    tidegate(&["migrate", "--store", &format!("sqlite:{file}")]);
    let listed = tidegate(&["runs", "list", "--file", &file, "--json", "--limit", "500"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let run = listed["runs"].as_array().unwrap().iter().find(|run| run["workflow"] == "retrying");
    let run = run.expect("the database must have a run with steps");
    let text = |field: &str| run[field].as_str().unwrap();
    let looks = LOOKS.iter().map(|arguments| (arguments, ["--file".to_owned(), file.clone()]));
    let opens = OPENS.iter().map(|it| (it, ["--store".to_owned(), format!("sqlite:{file}")]));
    let printed = looks.chain(opens).map(|(arguments, at)| {
        let arguments = arguments.iter().map(|argument| match *argument {
            "RUN" => text("id"),
            "EVENT" => text("eventId"),
            argument => argument,
        });
        let mut arguments: Vec<_> = arguments.collect();
        let command = arguments.join(" ");
        arguments.extend(at.iter().map(String::as_str));
        let plain = tidegate(&arguments);
        arguments.push("--json");
        Printed { command, plain, json: tidegate(&arguments) }
    });
    printed.collect()
}

/// Replaces the times that come from the clock of this machine.
fn without_now(text: &str) -> String {
    let words = text.split_inclusive(|c: char| c.is_whitespace() || c == '"');
    let is_now = |word: &str| {
        let date: Vec<_> = word.split('-').collect();
        date.len() == 3 && date[0].len() == 4 && word.contains('T') && !word.starts_with(NOW)
    };
    words.map(|word| if is_now(word) { "(now) " } else { word }).collect()
}

/// Freezes every listing as text, and of its JSON form the members and the types of their values.
#[test]
fn listings_are_printed_as_agreed() {
    let printed = all();
    let texts = printed.iter().map(|it| {
        let lines: Vec<_> = it.plain.lines().map(str::trim_end).collect();
        format!("$ tidegate {}\n{}\n", it.command, without_now(&lines.join("\n")))
    });
    expect_file!["listings.txt"].assert_eq(&texts.collect::<Vec<_>>().join("\n"));
    let texts = printed.iter().map(|it| {
        let value: Value = serde_json::from_str(&it.json).unwrap();
        let mut members = BTreeSet::new();
        collect(&value, "", &mut members);
        let members: Vec<_> = members.into_iter().collect();
        format!("$ tidegate {} --json\n{}\n", it.command, members.join("\n"))
    });
    expect_file!["listings_json.txt"].assert_eq(&texts.collect::<Vec<_>>().join("\n"));
}

fn collect(value: &Value, path: &str, members: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(values) => {
            return values.iter().for_each(|it| collect(it, &format!("{path}[]"), members));
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            return fields.for_each(|(name, it)| collect(it, &format!("{path}.{name}"), members));
        }
    };
    members.insert(format!("{path} {kind}"));
}
