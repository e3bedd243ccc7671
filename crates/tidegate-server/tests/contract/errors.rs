//! Contract of error codes. The codes of the server are literals in the code, so the sources are
//! scanned; the codes of refusals and their statuses are checked in `src/http/problem`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use tidegate_core::definition::Code;

/// Crates whose errors users see.
const CRATES: [&str; 4] = ["tidegate", "tidegate-core", "tidegate-server", "tidegate-store"];

/// Codes of problems of a definition: in the list `problems` of an answer with `bad_definition`.
const OF_DEFINITIONS: [Code; 14] = [
    Code::MissingField,
    Code::WrongType,
    Code::OutOfRange,
    Code::UnknownField,
    Code::UnknownValue,
    Code::BadPath,
    Code::BadName,
    Code::BadCron,
    Code::CronNeverOccurs,
    Code::UnknownTimeZone,
    Code::Conflict,
    Code::Misplaced,
    Code::NeverBinds,
    Code::NoEffect,
];

/// Code of an invalid filter, which the server sends as `bad_query`.
const OF_FILTERS: &str = "bad_stream_filter";

/// All source files of a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") && !is_test(&path) {
            files.push(path);
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.ends_with("statuses.rs")
}

/// Shipped part of every source file, without comments.
fn texts() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in CRATES {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let shipped = files.iter().map(|file| {
        let text = fs::read_to_string(file).unwrap();
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.collect::<Vec<_>>().join("\n")
    });
    shipped.collect()
}

/// First literal of every call of a function, and the text before it.
fn calls<'a>(text: &'a str, function: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.split(function).skip(1).filter_map(|rest| {
        let (before, rest) = rest.split_once('"')?;
        // A literal of another expression.
        let plain = !before.contains([';', '{', '}', ')']);
        plain.then_some((before.trim(), rest.split('"').next()?))
    })
}

/// Status and code of errors that the server itself returns.
#[test]
fn the_servers_own_problems_are_the_agreed_ones() {
    let mut lines = BTreeSet::new();
    for text in texts() {
        for (constructor, status) in
            [("invalid", "422"), ("not_found", "404"), ("unauthorized", "401")]
        {
            for kind in ["Problem", "Self"] {
                let function = format!("{kind}::{constructor}(");
                lines.extend(calls(&text, &function).map(|(_, code)| format!("{code} {status}")));
            }
        }
        let is_code = |code: &str| {
            code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        for function in ["Problem::new(", "Self::new("] {
            for (status, code) in calls(&text, function).filter(|(_, code)| is_code(code)) {
                let named = status.trim_end_matches(',').trim().strip_prefix("StatusCode::");
                if function == "Problem::new(" || named.is_some() {
                    lines.insert(format!("{code} {}", named.unwrap_or("(computed)")));
                }
            }
        }
    }
    let lines: Vec<_> = lines.into_iter().map(|line| line + "\n").collect();
    expect_file!["problems.txt"].assert_eq(&lines.concat());
}

/// Error codes of runs and steps, and those of every `code` function.
#[test]
fn the_codes_of_errors_are_the_agreed_ones() {
    let definitions = OF_DEFINITIONS.map(|code| code.as_str().to_owned());
    let mut lines = BTreeSet::from(definitions.clone());
    for text in texts() {
        let bodies = text
            .split("fn code(&self)")
            .skip(1)
            .map(|rest| rest.split("\n    }\n").next().unwrap_or_default());
        let words = bodies.flat_map(|body| body.split('"').skip(1).step_by(2));
        let is_code = |word: &&str| {
            word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        lines.extend(words.filter(|word| !word.is_empty()).filter(is_code).map(str::to_owned));
        for function in ["coded(", "code:"] {
            let codes = calls(&text, function).map(|(_, code)| code);
            let is_code = |code: &&str| {
                code.starts_with(|c: char| c.is_ascii_uppercase())
                    && code.chars().all(char::is_alphanumeric)
            };
            lines.extend(codes.filter(is_code).map(str::to_owned));
        }
    }
    let told = [include_str!("statuses.txt"), include_str!("problems.txt")].concat();
    for code in lines.iter().filter(|code| code.starts_with(|c: char| c.is_ascii_lowercase())) {
        let is_told = told.lines().any(|line| line.split(' ').next() == Some(code));
        let inside = definitions.contains(code) || code == OF_FILTERS;
        assert!(is_told || inside, "`{code}`: add its variant to src/http/problem/statuses.rs");
    }
    let lines: Vec<_> = lines.into_iter().map(|line| line + "\n").collect();
    expect_file!["codes.txt"].assert_eq(&lines.concat());
}
