//! Checks of the specification in `docs/spec`: every citation has an anchor, every anchor is cited,
//! and no document outside the repository is cited.
//!
//! A citation in code is the word `spec` and a list of anchors, such as `(spec G9)` or
//! `spec sessions, B3`. In the docs it is a link to the anchor. See `docs/spec/README.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Tree, extension_of, numbered};

const SPEC: &str = "docs/spec/";
/// The page with the rules of limits.
const FLOW: &str = "docs/spec/flow-control.md";
/// The stories that are played on every store.
const STORIES: &str = "crates/tidegate-testkit/src/behaviour/";
/// This file is not checked, because it contains samples of citations.
const SAMPLES: &str = "crates/tidegate-testkit/tests/tidy/spec.rs";

/// First letters of numbered anchors. Such a letter with up to three digits in a comment is a
/// citation.
const LETTERS: &str = "ABCFGILMNPR";

/// Start of the line on a page that lists anchors that no code cites.
const NOT_CITED: &str = "Not cited:";

/// Documents from which the code was written, and which are not in the repository.
const OUTSIDE: [&str; 7] =
    ["SPEC", "BEHAVIOURS", "RELIABILITY", "DESIGN", "BENCH", "FLOW", "STYLE"];

/// Every anchor must be on one page only, and its label must be the same as its id.
pub(super) fn anchors_are_unique(tree: &Tree) -> Vec<String> {
    let (mut places, mut complaints) = (BTreeMap::new(), Vec::new());
    for (file, number, line) in pages(tree) {
        for (id, rest) in ids(&line) {
            let at = format!("{}:{number}", file.path);
            if let Some(first) = places.insert(id.to_owned(), at.clone()) {
                complaints.push(format!("{at}: anchor `{id}` is also in {first}: rename one"));
            }
            let label = id.to_ascii_uppercase();
            if tag(&label).is_some() && !rest.starts_with(&format!("**{label}**")) {
                complaints.push(format!("{at}: begin the rule with `**{label}**` behind `{id}`"));
            }
        }
    }
    if places.is_empty() {
        complaints.push(format!("{SPEC}: no page has an anchor: keep the specification there"));
    }
    complaints
}

/// Every citation must name an existing anchor, and the number of a rule in a comment must be
/// written as a citation.
pub(super) fn citations_resolve(tree: &Tree) -> Vec<String> {
    let anchors = Anchors::of(tree);
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| is_code(&file.path)) {
        for (number, cited) in citations(&file.text, &anchors) {
            let at = format!("{}:{number}", file.path);
            match cited {
                Cited::Anchors(names) => {
                    let missing = names.iter().filter(|name| !anchors.has(name));
                    complaints.extend(missing.map(|name| {
                        format!("{at}: `spec {name}`: no such anchor in {SPEC}: add or correct it")
                    }));
                }
                Cited::Bare(tag) => complaints
                    .push(format!("{at}: `{tag}`: write a citation as `spec {tag}`, see {SPEC}")),
            }
        }
    }
    for file in tree.with_extension("md") {
        for (number, line) in numbered(&file.text) {
            let (at, line) = (format!("{}:{number}", file.path), without_code(line));
            let broken = links(&line).filter(|(page, id)| !anchors.is_at(&file.path, page, id));
            complaints.extend(broken.map(|(page, id)| {
                format!("{at}: `{page}#{id}`: no such anchor: correct the link")
            }));
            complaints.extend(
                bare_links(&line)
                    .map(|tag| format!("{at}: `[{tag}]`: link it to its anchor in {SPEC}")),
            );
        }
    }
    complaints
}

/// Every numbered anchor must either be cited by code or be listed as not cited.
pub(super) fn anchors_are_cited(tree: &Tree) -> Vec<String> {
    let anchors = Anchors::of(tree);
    let mut cited = BTreeSet::new();
    for file in tree.files.iter().filter(|file| is_code(&file.path)) {
        for (_, found) in citations(&file.text, &anchors) {
            if let Cited::Anchors(names) = found {
                cited.extend(names);
            }
        }
        if extension_of(&file.path) == "rs" {
            let literals = file.text.split('"').skip(1);
            cited.extend(
                literals.filter_map(tag).filter(|tag| tag.starts_with('I')).map(str::to_owned),
            );
        }
    }
    let exempt: BTreeSet<String> = pages(tree)
        .filter_map(|(_, _, line)| Some(line.strip_prefix(NOT_CITED)?.to_owned()))
        .flat_map(|list| {
            let list = list.split(". ").next().unwrap_or_default();
            tags(list).map(|(_, tag)| tag.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let numbered = anchors.places.iter().map(|(id, page)| (id.to_ascii_uppercase(), page));
    numbered
        .filter(|(label, _)| tag(label).is_some())
        .filter_map(|(label, page)| match (cited.contains(&label), exempt.contains(&label)) {
            (false, false) => Some(format!(
                "{page}: {label} is not cited: write `spec {label}` where it is tested, or list \
                 it in the line `{NOT_CITED}` of the page"
            )),
            (true, true) => Some(format!("{page}: {label} is cited: take it out of `{NOT_CITED}`")),
            _ => None,
        })
        .collect()
}

/// Every rule of [`FLOW`] with the letter L must be cited by a story, which is played on every store.
pub(super) fn limits_are_played_on_every_store(tree: &Tree) -> Vec<String> {
    let anchors = Anchors::of(tree);
    let stories = tree.files.iter().filter(|file| file.path.starts_with(STORIES));
    let cited = stories.flat_map(|file| citations(&file.text, &anchors));
    let cited: BTreeSet<String> = cited
        .filter_map(|(_, cited)| if let Cited::Anchors(names) = cited { Some(names) } else { None })
        .flatten()
        .collect();
    let rules = anchors.places.iter().filter(|(_, page)| page.starts_with(FLOW));
    let rules = rules.map(|(id, _)| id.to_ascii_uppercase());
    let rules = rules.filter(|label| tag(label).is_some() && label.starts_with('L'));
    rules
        .filter(|label| !cited.contains(label))
        .map(|label| {
            format!("{FLOW}: {label} is in no story: write one that cites it in {STORIES}")
        })
        .collect()
}

/// No file may cite a document that is not in the repository.
pub(super) fn cited_documents_exist(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        if !(is_code(&file.path) || extension_of(&file.path) == "md") {
            continue;
        }
        for (number, line) in numbered(&file.text) {
            let names = OUTSIDE.into_iter().filter(|name| cites(line, name));
            complaints.extend(names.map(|name| {
                format!("{}:{number}: `{name}` is not in the tree: cite {SPEC}", file.path)
            }));
        }
    }
    complaints
}

/// Location of each anchor.
struct Anchors {
    /// Path of the page of each anchor, by id.
    places: BTreeMap<String, String>,
}

impl Anchors {
    fn of(tree: &Tree) -> Self {
        let mut places = BTreeMap::new();
        for (file, _, line) in pages(tree) {
            places.extend(ids(&line).map(|(id, _)| (id.to_owned(), file.path.clone())));
        }
        Self { places }
    }

    fn has(&self, name: &str) -> bool {
        self.places.contains_key(&name.to_ascii_lowercase())
    }

    /// Returns whether the target of a link exists. Links to pages outside the specification count
    /// as existing.
    fn is_at(&self, from: &str, page: &str, id: &str) -> bool {
        let target = if page.is_empty() { from.to_owned() } else { resolve(from, page) };
        !target.starts_with(SPEC) || self.places.get(id) == Some(&target)
    }
}

enum Cited {
    Anchors(Vec<String>),
    /// The number of a rule without the word `spec` before it.
    Bare(String),
}

/// Returns the lines of all pages of the specification, without the parts in backticks.
fn pages(tree: &Tree) -> impl Iterator<Item = (&File, usize, String)> {
    let pages = tree.with_extension("md").filter(|file| file.path.starts_with(SPEC));
    pages.flat_map(|file| {
        numbered(&file.text).map(move |(number, line)| (file, number, without_code(line)))
    })
}

/// Returns a line of a page without the parts in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Returns the ids of the anchors in a line, each with the text after the anchor.
fn ids(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("<a id=\"").skip(1).filter_map(|rest| {
        let (id, rest) = rest.split_once('"')?;
        Some((id, rest.strip_prefix("></a>").unwrap_or_default()))
    })
}

/// Returns whether a file is source code, SQL or a script. Migrations are left out: they are never
/// edited, so their citations may be outdated.
fn is_code(path: &str) -> bool {
    let kinds = ["rs", "sql", "lua", "mjs", "js", "css", "sh", "py", "toml", "yml", "yaml"];
    let script = path.starts_with("scripts/") && extension_of(path).is_empty();
    (script || kinds.contains(&extension_of(path)))
        && path != SAMPLES
        && !path.contains("/migrations/")
        && !path.contains("/vendor/")
}

/// Returns the citations of a file, with line numbers. A citation may continue in the next line of
/// a comment.
fn citations(text: &str, anchors: &Anchors) -> Vec<(usize, Cited)> {
    let mut found = Vec::new();
    for (start, block, comment) in blocks(text) {
        let mut rest = block.clone();
        for (at, _) in block.match_indices("spec ") {
            if block[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
                continue;
            }
            let (names, length) = list(&block[at + 5..], anchors, comment);
            if names.is_empty() {
                continue;
            }
            let end = at + 5 + length;
            rest.replace_range(at..end, &" ".repeat(end - at));
            found.push((line_at(start, &block, at), Cited::Anchors(names)));
        }
        if comment {
            let bare = tags(&rest)
                .map(|(at, tag)| (line_at(start, &block, at), Cited::Bare(tag.to_owned())));
            found.extend(bare);
        }
    }
    found
}

fn line_at(start: usize, block: &str, at: usize) -> usize {
    start + block[..at].matches('\n').count()
}

/// Splits a file into blocks: consecutive lines of a comment are joined into one block, any other
/// line is a block of its own. Each has the number of its first line, and whether it is a comment.
fn blocks(text: &str) -> Vec<(usize, String, bool)> {
    let mut blocks: Vec<(usize, String, bool)> = Vec::new();
    for (number, line) in numbered(text) {
        let words = comment(line);
        match (words, blocks.last_mut()) {
            (Some(words), Some((start, block, true)))
                if *start + block.lines().count() == number =>
            {
                block.push_str(words);
                block.push('\n');
            }
            (Some(words), _) => blocks.push((number, format!("{words}\n"), true)),
            (None, _) => blocks.push((number, line.to_owned(), false)),
        }
    }
    blocks
}

/// Returns the text of a line that is only a comment; `None` for any other line.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let marks = ["///", "//!", "//", "-- ", "--", "# ", "/*", "* "];
    let (mark, words) = marks.iter().find_map(|mark| Some((mark, line.strip_prefix(mark)?)))?;
    // Not a comment, but an attribute of Rust or an option of a command.
    let other = (*mark == "--" && !words.is_empty()) || words.starts_with("![");
    (!other).then_some(words)
}

/// Returns the list of anchors at the start of a text, and its length in bytes. In a comment, the
/// first name may be unknown: it is returned, too, so that the mistake is reported.
fn list(text: &str, anchors: &Anchors, comment: bool) -> (Vec<String>, usize) {
    let (mut names, mut end) = (Vec::new(), 0);
    loop {
        let gap = text[end..].len() - text[end..].trim_start_matches([' ', '\n']).len();
        let start = end + gap;
        let name: &str = text[start..]
            .split(|c: char| !(c.is_alphanumeric() || c == '-'))
            .next()
            .unwrap_or_default()
            .trim_end_matches('-');
        let after = start + name.len();
        if let Some(first) = tag(name) {
            let last = text[after..].strip_prefix('–').map(word).and_then(tag);
            names.extend(range(first, last.unwrap_or(first), anchors));
            end = after + last.map_or(0, |last| '–'.len_utf8() + last.len());
        } else if comment
            && is_name(name)
            && (names.is_empty() || closes(text, after) || anchors.has(name))
        {
            names.push(name.to_owned());
            end = after;
        } else {
            break;
        }
        match text[end..].strip_prefix(',') {
            Some(_) => end += 1,
            None => break,
        }
    }
    (names, end)
}

/// Returns whether the text after a name shows that the name belongs to the list: the list ends
/// there or continues.
fn closes(text: &str, after: usize) -> bool {
    text[after..].starts_with([',', ':', ')'])
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Expands the range `B3` to `B5` to `B3`, `B4`, `B5`. Both ends are always returned; numbers
/// between them only if they exist.
fn range(first: &str, last: &str, anchors: &Anchors) -> Vec<String> {
    let number = |tag: &str| tag[1..].parse::<u32>().unwrap_or_default();
    let all = (number(first)..=number(last)).map(|number| format!("{}{number}", &first[..1]));
    all.filter(|tag| tag == first || tag == last || anchors.has(tag)).collect()
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// Returns the numbers of rules in a text, with their positions: `G9`, but not `xG9`, `G9a`, `#G9`
/// or `-G9`.
fn tags(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = text.match_indices(|c: char| LETTERS.contains(c));
    starts.filter_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let apart = before.is_none_or(|c| !c.is_alphanumeric() && !"_#-%$".contains(c));
        let name = text[at..].split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        (apart && tag(name).is_some()).then_some((at, name))
    })
}

/// Returns the word if it is the number of a rule.
fn tag(word: &str) -> Option<&str> {
    let digits = word.strip_prefix(|c: char| LETTERS.contains(c))?;
    let number = (1..=3).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit());
    (number && !digits.starts_with('0')).then_some(word)
}

/// Returns the links of a line that have a fragment, each as page and id.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("](").skip(1).filter_map(|rest| {
        let (page, id) = rest.split(')').next()?.split_once('#')?;
        (!page.contains("://")).then_some((page, id))
    })
}

/// Returns the numbers of rules in a line that are in brackets but not linked.
fn bare_links(line: &str) -> impl Iterator<Item = &str> {
    line.split('[').skip(1).filter_map(|rest| {
        let (word, after) = rest.split_once(']')?;
        tag(word).filter(|_| !after.starts_with('('))
    })
}

/// Returns the target path of a relative link of a page.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns whether a line cites a document: by its file name, or by its name with a number.
fn cites(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + name.len()..];
        let numbered = |text: &str| {
            let word = word(text);
            tag(word).is_some() || (!word.is_empty() && word.chars().all(|c| c.is_ascii_digit()))
        };
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-".contains(c))
            && (after.starts_with(".md") || after.strip_prefix(' ').is_some_and(numbered))
    })
}

/// Each check fails on a bad sample and passes on a good one.
mod tests {
    use super::{
        super::tests::{fails, passes},
        *,
    };

    const PAGE: &str = "docs/spec/a.md";
    const RULES: (&str, &str) = (
        PAGE,
        "<a id=\"sessions\"></a>\n- <a id=\"g1\"></a>**G1** one\n- <a id=\"g2\"></a>**G2** two\n",
    );

    #[test]
    fn an_anchor_is_in_one_place_and_has_its_label() {
        passes(anchors_are_unique, &[RULES]);
        fails(
            anchors_are_unique,
            &[RULES, ("docs/spec/b.md", "<a id=\"sessions\"></a>")],
            "rename",
        );
        fails(anchors_are_unique, &[(PAGE, "<a id=\"g1\"></a>**G2**")], "begin the rule");
        fails(anchors_are_unique, &[(PAGE, "# A page\n")], "no page has an anchor");
    }

    #[test]
    fn a_citation_resolves_to_an_anchor() {
        for text in [
            "/// Takes them in order (spec G1, G2).",
            "//! spec G1–G2: both.",
            "/// spec sessions,\n/// G1: over two lines, and so on",
            "// Where it is said, in spec G1, it holds.",
            "(\"spec G1: a case\", 7)",
            "let spec = spec.version(1);",
            "/// The specification says so.",
        ] {
            passes(citations_resolve, &[RULES, ("a.rs", text)]);
        }
        for (text, name) in [
            ("/// Takes them (spec G3).", "a.rs:1: `spec G3`"),
            ("fn f() {}\n\n// spec G1–G3: all", "a.rs:3: `spec G3`"),
            ("/// spec nothing: it is not there", "`spec nothing`"),
            ("/// spec G1, sesions: a slip", "`spec sesions`"),
            ("(\"spec G3: a case\", 7)", "`spec G3`"),
        ] {
            fails(citations_resolve, &[RULES, ("a.rs", text)], name);
        }
        passes(citations_resolve, &[RULES, ("a.sql", "-- It is an error (spec G1).\nselect 1;")]);
        passes(citations_resolve, &[RULES, ("sql/migrations/1.sql", "-- It is (G7).")]);
    }

    #[test]
    fn a_number_without_the_word_is_named() {
        for text in ["/// G1: one", "/// It holds (G1).", "-- G1", "/// [G1]", "# G1"] {
            fails(citations_resolve, &[RULES, ("a.rs", text)], "write a citation as `spec G1`");
        }
        for text in ["/// W2 and V4, g1, G1a, xG1, %G1, #G1, G1000", "let g = \"G1\";"] {
            passes(citations_resolve, &[RULES, ("a.rs", text)]);
        }
    }

    #[test]
    fn a_link_of_the_docs_resolves() {
        let from = "docs/controls/b.md";
        for text in ["[G1](../spec/a.md#g1)", "[x](c.md#anything)", "[x](https://a.b/c#d)"] {
            passes(citations_resolve, &[RULES, (from, text)]);
        }
        for text in ["[G3](../spec/a.md#g3)", "[G1](../spec/b.md#g1)"] {
            fails(citations_resolve, &[RULES, (from, text)], "correct the link");
        }
        fails(citations_resolve, &[RULES, (from, "It holds [G1].")], "link it");
        let inside = |id: &str| format!("{}[x](#{id})\n", RULES.1);
        passes(citations_resolve, &[(PAGE, &inside("g1"))]);
        fails(citations_resolve, &[(PAGE, &inside("g3"))], "correct the link");
    }

    #[test]
    fn a_rule_is_cited_or_listed() {
        let code = ("a.rs", "/// spec G1: a test");
        fails(anchors_are_cited, &[RULES, code], "G2 is not cited");
        passes(anchors_are_cited, &[RULES, ("a.rs", "/// spec G1–G2: a test")]);
        let listed = |list: &str| format!("{}\nNot cited: {list}. For a reason.\n", RULES.1);
        passes(anchors_are_cited, &[(PAGE, &listed("G2")), code]);
        fails(anchors_are_cited, &[(PAGE, &listed("G1, G2")), code], "G1 is cited");
        let invariant = (PAGE, "| <a id=\"i7\"></a>**I7** | it holds |");
        passes(anchors_are_cited, &[invariant, ("a.rs", "report(\"I7\", text)")]);
        fails(anchors_are_cited, &[invariant, ("a.rs", "report(\"I8\", text)")], "I7 is not");
    }

    #[test]
    fn a_rule_of_limits_needs_a_story() {
        let rules = (FLOW, "- <a id=\"l4\"></a>**L4** one\n- <a id=\"g2\"></a>**G2** two\n");
        let check = limits_are_played_on_every_store;
        let story = format!("{STORIES}pools.rs");
        passes(check, &[rules, (&story, "/// spec L4, G1: a story")]);
        fails(check, &[rules, (&story, "/// spec G2: a story")], "L4 is in no story");
        fails(check, &[rules, ("a.rs", "/// spec L4: one store")], "L4 is in no story");
    }

    #[test]
    fn a_document_outside_of_the_tree_is_named() {
        for name in OUTSIDE {
            for text in
                [format!("// see {name}.md"), format!("/// ({name} 4)"), format!("{name} G9")]
            {
                fails(cited_documents_exist, &[("a.rs", &text)], "not in the tree");
                fails(cited_documents_exist, &[("docs/a.md", &text)], "not in the tree");
            }
            let other = format!("const {name}: &str = \"{name}IAL\"; // {name} is a word");
            passes(cited_documents_exist, &[("a.rs", &other)]);
        }
    }
}
