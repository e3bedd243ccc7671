//! Checks the tables of the page `at-a-glance` against the table of controls in the code.

use std::{collections::BTreeMap, fs, path::Path};

use expect_test::expect_file;
use tidegate_core::flow::{CONTROLS, Control, FieldType};

/// Header of the table with one row for each control. The last two cells of a row are written by
/// hand.
const OVERVIEW: &str =
    "| control | purpose | acts on | on overflow | missing key | verdict for the caller |";
/// Empty hand-written cells, as the row of a new control gets them.
const TO_FILL_IN: &str = "|  |  |";
/// Header of the table with one row for each field.
const FIELDS: &str = "| control | field | type | default |";

#[test]
fn the_page_at_a_glance_is_the_table_of_controls() {
    let page = include_str!("../../../../docs/controls/at-a-glance.md");
    let overview = with_rows(page, OVERVIEW, &overview(page));
    let expected = with_rows(&overview, FIELDS, &fields());
    expect_file!["../../../../docs/controls/at-a-glance.md"].assert_eq(&expected);
    assert!(!expected.contains(TO_FILL_IN), "fill in the empty cells of the new row");
}

#[test]
fn every_control_has_a_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controls");
    for control in &CONTROLS {
        let page = page_of(control);
        assert!(fs::exists(folder.join(&page)).unwrap(), "write docs/controls/{page}");
    }
}

#[test]
fn a_changed_cell_and_an_unknown_row_are_noticed() {
    let page = format!("{OVERVIEW}\n|---|\n| [gone](gone.md) | x | y | z | k | v |\n\nend\n");
    let rows = ["| a |".to_owned(), "| b |".to_owned()];
    assert_eq!(
        with_rows(&page, OVERVIEW, &rows),
        format!("{OVERVIEW}\n|---|\n| a |\n| b |\n\nend\n")
    );
    let [first, ..] = &overview(&page)[..] else { panic!("no rows") };
    assert!(
        first.ends_with(TO_FILL_IN),
        "the row of a new control must end with empty cells: {first}"
    );
}

/// Returns one row for each control. The hand-written cells are copied from the page.
fn overview(page: &str) -> Vec<String> {
    let written: BTreeMap<&str, &str> = rows(page, OVERVIEW)
        .filter_map(|row| {
            let cells: Vec<(usize, &str)> = row.match_indices(" | ").collect();
            let (control, rest) = (row.split_once(" | ")?.0, cells.get(3)?.0);
            Some((control, &row[rest + 1..]))
        })
        .collect();
    let row = |control: &Control| {
        let Control { name, purpose, acts, on_overflow, .. } = control;
        let link = format!("| [{name}]({})", page_of(control));
        let by_hand = written.get(link.as_str()).unwrap_or(&TO_FILL_IN);
        format!("{link} | {purpose} | {} | {on_overflow} {by_hand}", acts.as_str())
    };
    CONTROLS.iter().map(row).collect()
}

/// Returns one row for each field of each control.
fn fields() -> Vec<String> {
    let rows = CONTROLS.iter().flat_map(|control| {
        control.fields.iter().map(|field| {
            let kind = match field.kind {
                FieldType::OneOf(words) => format!("`{}`", words.join("`, `")),
                FieldType::Count => "count".to_owned(),
                FieldType::Duration => "duration".to_owned(),
                FieldType::Key => "[key](../reference/definitions.md#keys)".to_owned(),
                FieldType::Condition => "[expression](../reference/expressions.md)".to_owned(),
                FieldType::Amount => "count, or [from data](limits-from-data.md)".to_owned(),
                FieldType::Shift => "ms, or [from data](priority.md#from-data)".to_owned(),
                FieldType::Cost => "count or path".to_owned(),
                FieldType::Pool => "pool".to_owned(),
                FieldType::Queue => "`{maxWaiting, onOverflow}`".to_owned(),
                FieldType::Adaptive => "`{min, max, cooldownMs}`".to_owned(),
                FieldType::Fair => "`{by, weights, defaultWeight}`".to_owned(),
                FieldType::Event => "event".to_owned(),
                FieldType::Match => "match".to_owned(),
                other => panic!("the default {other:?} has no text for the table yet"),
            };
            let default = field.default.unwrap_or("required");
            format!("| {} | `{}` | {kind} | {default} |", control.name, field.name)
        })
    });
    rows.collect()
}

/// Returns the rows of the table below a header.
fn rows<'a>(page: &'a str, header: &str) -> impl Iterator<Item = &'a str> {
    let (_, rest) = page.split_once(header).expect("the page has the table");
    rest.lines().skip(2).take_while(|line| line.starts_with('|'))
}

/// Returns the page with other rows below a header.
fn with_rows(page: &str, header: &str, other: &[String]) -> String {
    let (before, rest) = page.split_once(header).expect("the page has the table");
    let lines: Vec<&str> = rest.lines().collect();
    let mark = lines[1];
    let after = lines[2..].iter().skip_while(|line| line.starts_with('|'));
    let other = other.iter().map(String::as_str);
    let lines: Vec<&str> = [header, mark].into_iter().chain(other).chain(after.copied()).collect();
    format!("{before}{}\n", lines.join("\n"))
}

/// Returns the file name of a control's page, such as `rate-limit.md`.
fn page_of(control: &Control) -> String {
    let kebab = control.name.chars().map(|letter| match letter {
        upper if upper.is_ascii_uppercase() => format!("-{}", upper.to_ascii_lowercase()),
        other => other.to_string(),
    });
    format!("{}.md", kebab.collect::<String>())
}
