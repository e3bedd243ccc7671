//! Checks of names and phrases: code and docs must not use the old identifiers that ADR 23
//! replaced, nor the unclear phrases of the first version.

use super::{File, Tree, extension_of, numbered};

/// This file is not checked, because it contains the lists of refused words.
const LIST: &str = "crates/tidegate-testkit/tests/tidy/words.rs";

/// Identifiers that ADR 23 replaced, each with its new name. Ordinary English words (`Which`,
/// `Told`) are not in the list, because other code may use them.
const OLD_IDENTIFIERS: [(&str, &str); 22] = [
    ("shut_down", "shutdown"),
    ("look_only", "read_only"),
    ("kept_states", "stream_state_cache"),
    ("code_for", "handler_resolver"),
    ("CodeFor", "HandlerResolver"),
    ("OrFault", "StepResultExt"),
    ("Passage", "GateStep"),
    ("Salted", "SeededCommand"),
    ("MadeAgain", "Recomputable"),
    ("NeverAgain", "NotReplayable"),
    ("Logged", "StreamEventRow"),
    ("testing::Lab", "testing::TestHarness"),
    ("Phase::Line", "Phase::Queued"),
    ("Scan::Line", "Scan::Queue"),
    ("Count::Line", "Count::Queue"),
    ("row::Fault", "row::RunError"),
    ("workflow::Workflow as", "definition::Definition"),
    ("tidegate_core::workflow", "tidegate_core::definition"),
    ("tidegate_core::reply", "tidegate_core::idempotency_key"),
    ("run.needs", "run.plan"),
    ("run.has", "run.entered"),
    ("planted!", "a patch in crates/tidegate-testkit/mutants"),
];

/// Unclear phrases of the first version, each with the plain words to use instead.
const OLD_PHRASES: [(&str, &str); 5] = [
    ("stands in line", "is queued"),
    ("place in line", "position in the queue"),
    ("what is due", "the due rows, by name"),
    ("at the most", "at most"),
    ("whoever", "the subject, by name"),
];

pub(super) fn old_identifiers_stay_away(tree: &Tree) -> Vec<String> {
    let files = tree.with_extension("rs").filter(|file| file.path != LIST);
    files.flat_map(|file| hits(file, &OLD_IDENTIFIERS, |_| true)).collect()
}

/// Checks comments of Rust files, and Markdown pages. Decisions and the changelog are not checked,
/// because they are history.
pub(super) fn old_phrases_stay_away(tree: &Tree) -> Vec<String> {
    let history = |file: &File| file.path.starts_with("docs/adr/") || file.path == "CHANGELOG.md";
    let files = tree.files.iter().filter(|file| file.path != LIST && !history(file));
    let complaints = files.flat_map(|file| match extension_of(&file.path) {
        "rs" => hits(file, &OLD_PHRASES, |line| line.trim_start().starts_with("//")),
        "md" => hits(file, &OLD_PHRASES, |_| true),
        _ => Vec::new(),
    });
    complaints.collect()
}

fn hits(file: &File, words: &[(&str, &str)], counts: fn(&str) -> bool) -> Vec<String> {
    let lines = numbered(&file.text).filter(|(_, line)| counts(line));
    let hits = lines.flat_map(|(number, line)| {
        let found = words.iter().filter(|(old, _)| contains_word(line, old));
        found.map(move |(old, new)| {
            format!("{}:{number}: `{old}` was replaced: write {new}", file.path)
        })
    });
    hits.collect()
}

/// Returns whether a line contains the text as a whole word, that is, without a letter, digit or
/// underscore next to it.
fn contains_word(line: &str, text: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(text).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + text.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{fails, passes};

    #[test]
    fn an_old_identifier_is_named_with_the_new_one() {
        for (old, new) in OLD_IDENTIFIERS {
            let text = format!("    let x = {old} ();\n");
            fails(old_identifiers_stay_away, &[("crates/a/src/b.rs", &text)], new);
        }
        passes(old_identifiers_stay_away, &[("crates/a/src/b.rs", "let not_shut_down = 1;")]);
    }

    #[test]
    fn an_old_phrase_is_named_in_comments_and_pages() {
        for (old, new) in OLD_PHRASES {
            let comment = format!("/// A run {old}.\n");
            fails(old_phrases_stay_away, &[("crates/a/src/b.rs", &comment)], new);
            let page = format!("A run {old}.\n");
            fails(old_phrases_stay_away, &[("docs/a.md", &page)], new);
            let text = format!("    let text = \"{old}\";\n");
            passes(old_phrases_stay_away, &[("crates/a/src/b.rs", &text)]);
        }
    }
}
