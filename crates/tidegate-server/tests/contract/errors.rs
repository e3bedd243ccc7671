//! Contract of error codes. The codes of the server are string literals, so this test scans the
//! source files. The codes of refusals and their statuses are checked in `src/http/problem`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use tidegate_core::definition::Code;

/// Crates whose errors users see.
const CRATES: [&str; 4] = ["tidegate", "tidegate-core", "tidegate-server", "tidegate-store"];

/// Codes of problems in a definition. They are in the list `problems` of an answer with the code
/// `bad_definition`.
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

/// Collects all source files of a folder.
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

/// Returns the shipped part of every source file, without comments and tests.
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

/// Returns the first string literal of every call of a function, and the text before it.
fn calls<'a>(text: &'a str, function: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.split(function).skip(1).filter_map(|rest| {
        let (before, rest) = rest.split_once('"')?;
        // With one of these characters between, the literal is not an argument of this call.
        let plain = !before.contains([';', '{', '}', ')']);
        plain.then_some((before.trim(), rest.split('"').next()?))
    })
}

/// Freezes the status and code of the errors that the server itself returns.
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

/// Freezes the error codes of runs and steps, and those of every function `code`.
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
        for function in ["coded(", "code:", "RunError::new("] {
            let codes = calls(&text, function).map(|(_, code)| code);
            let is_code = |code: &&str| {
                code.starts_with(|c: char| c.is_ascii_uppercase())
                    && code.chars().all(char::is_alphanumeric)
            };
            lines.extend(codes.filter(is_code).map(str::to_owned));
        }
    }
    let answer = [include_str!("statuses.txt"), include_str!("problems.txt")].concat();
    for code in lines.iter().filter(|code| code.starts_with(|c: char| c.is_ascii_lowercase())) {
        let is_told = answer.lines().any(|line| line.split(' ').next() == Some(code));
        let of_expressions = code.starts_with("expression_"); // inside a definition's problem
        let inside = definitions.contains(code) || code == OF_FILTERS || of_expressions;
        assert!(
            is_told || inside,
            "no status for `{code}`: add its variant to src/http/problem/statuses.rs"
        );
    }
    let lines: Vec<_> = lines.into_iter().map(|line| line + "\n").collect();
    expect_file!["codes.txt"].assert_eq(&lines.concat());
}

/// Documented codes that no test expects by name, each with the reason.
const NOT_CAUSED: [(&str, &str); 20] = [
    ("BadRecord", "a record that the same program has written can be read"),
    ("BadValue", "a mistake in a handler; no test makes it yet"),
    ("ChunkTooLarge", "expected as `chunk_too_large`"),
    ("Conflict", "expected as `conflict`"),
    ("NoDatabase", "a mistake in a handler; no test makes it yet"),
    ("NoSession", "a mistake in a handler; no test makes it yet"),
    ("NotRecorded", "needs a store that refuses one report and takes the next"),
    ("StepNotFound", "expected by its text, in the tests of the SDKs"),
    ("TransactionFailed", "its text is the database's"),
    ("archive_failed", "only retention archives, and no request waits for it"),
    ("body_too_slow", "takes 30 s"),
    ("definition_unreadable", "needs a definition of a newer program"),
    ("input_gone", "needs an input that retention deleted and a run that it kept"),
    ("key_taken", "the public part of a key has 64 random bits"),
    ("overloaded", "needs 4,000 requests at once"),
    ("shutting_down", "expected as `Error::ShutDown`"),
    ("too_many_keys", "needs 1,000 keys"),
    ("too_many_overrides", "needs 10,000 overrides"),
    ("too_many_readers", "needs 1,000 connections"),
    ("too_slow", "takes 90 s"),
];

/// Returns the codes of the reference: words in backticks in a column of its tables.
fn documented() -> BTreeSet<String> {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut codes = BTreeSet::new();
    for (file, after, column) in
        [("errors.md", "# Errors", 1), ("http.md", "## What is refused", 2)]
    {
        let text = fs::read_to_string(reference.join(file)).unwrap();
        let (_, tables) = text.split_once(after).expect("the reference must have this heading");
        for row in tables.lines().filter(|line| line.starts_with('|')) {
            let cell = row.split('|').nth(column).unwrap_or_default();
            codes.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    codes
}

/// Returns the text of all tests: test files, test modules of source files, and the test kit.
fn tests() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = String::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        let mut files = Vec::new();
        rust_files(&folder, &mut files);
        for file in files.iter().filter(|file| !is_contract(file)) {
            let text = fs::read_to_string(file).unwrap();
            let is_test = file.starts_with(folder.join("tests"))
                || file.ends_with("tests.rs")
                || folder.ends_with("tidegate-testkit");
            let module = text.split_once("#[cfg(test)]\nmod tests {").map_or("", |(_, it)| it);
            all.push_str(if is_test { &text } else { module });
        }
    }
    all
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// Whether a file only lists codes, so that a code in it does not count as expected by a test.
fn is_contract(path: &Path) -> bool {
    path.ends_with("statuses.rs") || path.parent().is_some_and(|it| it.ends_with("contract"))
}

/// Returns the code in the spelling of step errors and variants: `SessionConflict` for
/// `session_conflict`.
fn in_words(code: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    code.split('_').map(capital).collect()
}

/// Every documented code is expected by a test: as a literal, in a message before a colon or in
/// parentheses, as commands print it, or as a variant. (The other direction, that every code that
/// is sent is documented, is checked by the client of the API tests.)
#[test]
fn every_documented_code_is_expected_by_a_test() {
    let (tests, codes) = (tests(), documented());
    assert!(codes.len() > 100, "{codes:?}");
    let is_expected = |code: &String| {
        let mut forms = vec![format!("\"{code}\""), format!("{code}: "), format!("({code})")];
        if code.contains('_') {
            forms.extend([
                format!("\"{}\"", in_words(code)),
                format!("Refusal::{}", in_words(code)),
            ]);
        }
        forms.iter().any(|form| tests.contains(form))
    };
    let exceptions: BTreeSet<_> = NOT_CAUSED.iter().map(|(code, _)| (*code).to_owned()).collect();
    let unexpected: BTreeSet<_> = codes.into_iter().filter(|code| !is_expected(code)).collect();
    assert_eq!(
        unexpected, exceptions,
        "wrong list of codes without a test: write a test, or give the reason in NOT_CAUSED"
    );
}
