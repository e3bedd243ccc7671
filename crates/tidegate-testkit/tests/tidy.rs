//! Checks of the house style, as far as a program can check it.
//!
//! A check is a function from the files of the repository to complaints. Each complaint says how to
//! fix the problem. `CHECKS` lists all checks; the module `tests` tests each of them.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

#[path = "tidy/spec.rs"]
mod spec;
#[path = "tidy/words.rs"]
mod words;

type Check = fn(&Tree) -> Vec<String>;

/// All checks.
const CHECKS: [Check; 20] = [
    files_stay_short,
    the_store_stays_narrow,
    crates_stay_few,
    statements_come_in_both_dialects,
    errors_are_documented,
    the_architecture_names_real_paths,
    the_architecture_names_real_functions,
    public_types_use_our_words,
    nothing_is_left_unfinished,
    pages_have_one_title,
    decisions_have_a_status,
    nothing_names_this_machine,
    statements_are_files,
    spec::anchors_are_unique,
    spec::citations_resolve,
    spec::anchors_are_cited,
    spec::limits_are_played_on_every_store,
    spec::cited_documents_exist,
    words::old_identifiers_stay_away,
    words::old_phrases_stay_away,
];

/// The crates of the architecture. Any other crate needs a decision in `docs/adr` that names it.
const CRATES: [&str; 5] =
    ["tidegate", "tidegate-core", "tidegate-server", "tidegate-store", "tidegate-testkit"];

/// Nouns that other engines use, each with the word of this project. With two words for a run or a
/// gate, readers would look for a difference.
const BANNED_NOUNS: [(&str, &str); 9] = [
    ("Job", "Run"),
    ("Task", "Run or Step"),
    ("Execution", "Run or Attempt"),
    ("Invocation", "Run or Request"),
    ("Limiter", "the control's name"),
    ("Bucket", "Gate"),
    ("Permit", "Hold"),
    ("Consumer", "Reaction"),
    ("Manager", "what it does"),
];

const STORE: &str = "crates/tidegate-store/src/store.rs";
const STORE_METHODS: usize = 25;
const ERRORS: &str = "docs/reference/errors.md";
/// The files with error codes of runs, which the same page must list.
const FAULTS: [&str; 3] =
    ["crates/tidegate-server/src/call", "crates/tidegate/src/", "crates/tidegate-core/src/run/"];
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// Minimum number of functions that the tables of `ARCHITECTURE.md` must name.
const WALK: usize = 8;
const DIALECTS: [&str; 2] =
    ["crates/tidegate-store/sql/sqlite/", "crates/tidegate-store/sql/postgres/"];
/// The only file that may compose SQL. Its results are checked in as `derived.sql`.
const GENERATOR: &str = "crates/tidegate-store/src/sql/derive.rs";

#[test]
fn the_tree_is_tidy() {
    let tree = Tree::read();
    let complaints: Vec<String> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    assert!(complaints.is_empty(), "the tree is not tidy:\n{}", complaints.join("\n"));
}

/// A text file of the repository.
struct File {
    /// Path from the root of the repository.
    path: String,
    text: String,
}

/// All text files of the repository that git tracks or does not ignore.
struct Tree {
    files: Vec<File>,
}

impl Tree {
    fn read() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new("git")
            // The files may belong to another user than the one who runs the test.
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .expect("git, which lists the files, can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list = String::from_utf8(output.stdout).expect("paths in the tree are UTF-8");
        let paths: BTreeSet<&str> = list.split_terminator('\0').collect();
        let files: Vec<File> = paths
            .into_iter()
            // A file that cannot be read as text is an image, or was deleted: it is not checked.
            .filter_map(|path| {
                let text = fs::read_to_string(root.join(path)).ok()?;
                Some(File { path: path.to_owned(), text })
            })
            .collect();
        assert!(!files.is_empty(), "git lists no file");
        Tree { files }
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| extension_of(&file.path) == extension)
    }

    /// Returns whether `named` is the path of a file or directory, or the end of such a path.
    fn has_path(&self, named: &str) -> bool {
        let (inside, end) = (format!("/{named}/"), format!("/{named}"));
        self.files.iter().any(|file| {
            let path = format!("/{}", file.path);
            path.contains(&inside) || path.ends_with(&end)
        })
    }
}

fn files_stay_short(tree: &Tree) -> Vec<String> {
    let too_long = tree.files.iter().filter_map(|file| {
        let (limit, advice) = limit_of(&file.path)?;
        // A file of SQL has many statements: the limit is for its longest statement.
        let parts = file.text.split("-- name: ");
        let lines = match extension_of(&file.path) {
            "sql" => parts.map(|part| part.lines().count()).max().unwrap_or_default(),
            _ => file.text.lines().count(),
        };
        (lines > limit).then(|| format!("{}: {lines} lines, at most {limit}: {advice}", file.path))
    });
    too_long.collect()
}

/// Returns the maximum number of lines of a file, and the fix if it has more.
fn limit_of(path: &str) -> Option<(usize, &'static str)> {
    match (Path::new(path).file_name()?.to_str()?, extension_of(path)) {
        ("lib.rs" | "mod.rs", _) => {
            Some((250, "keep docs, lists and re-exports, and move code to a module of its own"))
        }
        (_, "rs") => Some((800, "split it by topic, a noun, not by kind")),
        // Written by a test, so it has no limit.
        ("schema.sql", _) => None,
        (_, "sql") if path.contains("/migrations/") => None,
        (_, "sql") => Some((80, "split the statement in two")),
        ("ARCHITECTURE.md", _) => Some((300, "move detail into docs/")),
        // Grows with every release, so it has no limit.
        ("CHANGELOG.md", _) => None,
        (_, "md") => Some((400, "split it into pages of one sitting each")),
        _ => None,
    }
}

fn the_store_stays_narrow(tree: &Tree) -> Vec<String> {
    let Some(file) = tree.file(STORE) else { return missing(STORE) };
    match methods_of_trait(&file.text, "Store") {
        None => vec![format!("{STORE}: no `pub trait Store`: keep the trait in this file")],
        Some(methods) if methods > STORE_METHODS => vec![format!(
            "{STORE}: `Store` has {methods} methods, at most {STORE_METHODS}: \
             express the new one as a change inside `transact`"
        )],
        Some(_) => Vec::new(),
    }
}

/// Returns the number of methods of a public trait; `None` if the trait is missing.
fn methods_of_trait(text: &str, name: &str) -> Option<usize> {
    let heads = [format!("pub trait {name} "), format!("pub trait {name}:")];
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let head = lines.find(|line| heads.iter().any(|head| line.starts_with(head)))?;
    let mut depth = braces(head);
    let mut methods = 0;
    for line in lines {
        let starts_method = ["fn ", "async fn "].iter().any(|start| line.starts_with(start));
        if depth == 1 && starts_method {
            methods += 1;
        }
        depth += braces(line);
        if depth == 0 && line.contains('}') {
            break;
        }
    }
    Some(methods)
}

/// Returns the number of opening braces of a line minus the number of closing ones.
fn braces(line: &str) -> i32 {
    line.chars()
        .map(|character| match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        })
        .sum()
}

fn crates_stay_few(tree: &Tree) -> Vec<String> {
    let crates: BTreeSet<&str> = tree
        .files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .collect();
    let decided = |name: &str| {
        tree.files.iter().any(|file| is_decision(file) && file.text.contains(&format!("`{name}`")))
    };
    crates
        .into_iter()
        .filter(|name| !CRATES.contains(name) && !decided(name))
        .map(|name| {
            format!("crates/{name}: a new crate: make it a module, or name it in docs/adr/")
        })
        .collect()
}

fn statements_come_in_both_dialects(tree: &Tree) -> Vec<String> {
    let names = |dialect: &str| -> BTreeSet<String> {
        tree.with_extension("sql")
            .filter_map(|file| file.path.strip_prefix(dialect).map(str::to_owned))
            // Files in `only/` are for one database, so the other one has no such file.
            .filter(|name| !name.starts_with("only/"))
            .collect()
    };
    let [one, other] = DIALECTS.map(names);
    let lonely = one.symmetric_difference(&other).map(|name| {
        let [has, lacks] = if one.contains(name) { DIALECTS } else { [DIALECTS[1], DIALECTS[0]] };
        format!("{has}{name}: write {lacks}{name}, too, or delete the file")
    });
    lonely.collect()
}

/// Every error code must have a row in the reference, because callers rely on codes.
fn errors_are_documented(tree: &Tree) -> Vec<String> {
    let page = tree.file(ERRORS).map_or("", |page| page.text.as_str());
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs").filter(|file| file.path.starts_with("crates/")) {
        let ends_runs = FAULTS.iter().any(|path| file.path.starts_with(path))
            && !file.path.contains("/testing");
        let codes = codes_of(&file.text).chain(faults_of(&file.text).filter(|_| ends_runs));
        for code in codes.filter(|code| !page.contains(&format!("| `{code}` |"))) {
            complaints.push(format!("{}: `{code}`: add a row to {ERRORS}", file.path));
        }
    }
    complaints
}

/// Returns the string literals in functions named `code`, which return the codes of errors.
fn codes_of(text: &str) -> impl Iterator<Item = &str> {
    let bodies = text.split(concat!("pub fn code", "(&self)")).skip(1);
    let bodies = bodies.map(|rest| rest.split("\n    }\n").next().unwrap_or_default());
    let words = bodies.flat_map(|body| body.split('"').skip(1).step_by(2));
    let is_code = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    words.filter(|word| !word.is_empty()).filter(is_code)
}

/// Returns the error codes with which runs and steps can fail, without those in examples and tests.
fn faults_of(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let marks = [r#"StepError::coded(""#, r#"Self::coded(""#, r#"code: ""#];
    lines.filter_map(move |line| {
        let (_, rest) = marks.iter().find_map(|mark| line.split_once(mark))?;
        rest.split('"').next()
    })
}

fn the_architecture_names_real_paths(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.file(ARCHITECTURE) else { return missing(ARCHITECTURE) };
    let paths = page.text.lines().flat_map(quoted).filter(|word| is_path(word));
    paths
        .filter(|path| !tree.has_path(path.trim_end_matches('/')))
        .map(|path| format!("{ARCHITECTURE}: `{path}` does not exist: correct or remove it"))
        .collect()
}

/// In tables of `ARCHITECTURE.md`, a row that names one file must name functions of that file.
fn the_architecture_names_real_functions(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.file(ARCHITECTURE) else { return missing(ARCHITECTURE) };
    let (mut complaints, mut checked) = (Vec::new(), 0);
    for row in page.text.lines().filter(|line| line.starts_with('|')) {
        let (paths, words): (Vec<&str>, Vec<&str>) =
            quoted(row).into_iter().partition(|word| extension_of(word) == "rs");
        let [path] = paths[..] else { continue };
        let end = format!("/{path}");
        let files: Vec<&File> =
            tree.files.iter().filter(|file| format!("/{}", file.path).ends_with(&end)).collect();
        for function in words.into_iter().filter_map(function_name) {
            checked += 1;
            if !files.iter().any(|file| defines(&file.text, function)) {
                complaints.push(format!(
                    "{ARCHITECTURE}: no `fn {function}` in `{path}`: write its current name"
                ));
            }
        }
    }
    if checked < WALK {
        complaints.push(format!(
            "{ARCHITECTURE}: {checked} table rows name a file and a function, {WALK} should: \
             write the walk as | `path.rs` | `function` | what happens |"
        ));
    }
    complaints
}

/// Returns a complaint about a missing file that a check needs.
fn missing(path: &str) -> Vec<String> {
    vec![format!("{path}: the file is missing: restore it, or change its path in the tidy test")]
}

/// Returns the parts of a line that are in backticks.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Returns whether a quoted word is a path of this repository, and not a route, type or pattern.
fn is_path(word: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
    let named = ["rs", "md", "sql", "toml"].contains(&extension_of(word));
    !word.starts_with('/') && word.chars().all(plain) && (word.contains('/') || named)
}

/// Returns the function name in `name`, `name()` or `Type::name`, if it is spelled like a function.
fn function_name(word: &str) -> Option<&str> {
    let name = word.trim_end_matches("()").rsplit("::").next()?;
    let snake =
        |character: char| character.is_ascii_lowercase() || "_0123456789".contains(character);
    (!name.is_empty() && name.chars().all(snake)).then_some(name)
}

fn defines(text: &str, function: &str) -> bool {
    text.split(&format!("fn {function}")).skip(1).any(|rest| rest.starts_with(['(', '<']))
}

fn public_types_use_our_words(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs") {
        for name in file.text.lines().filter_map(public_type) {
            for (banned, instead) in BANNED_NOUNS {
                if words_of(name).contains(&banned) {
                    complaints.push(format!(
                        "{}: public type `{name}`: not `{banned}` but {instead}",
                        file.path
                    ));
                }
            }
        }
    }
    complaints
}

fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|character: char| !character.is_alphanumeric()).next()
}

/// Splits a type name into words: `RateLimiter` into `Rate` and `Limiter`.
fn words_of(name: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at).collect();
    starts.push(name.len());
    starts.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}

fn nothing_is_left_unfinished(tree: &Tree) -> Vec<String> {
    // Each in two halves, because this file is checked, too.
    let marks = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
    let is_mark = |word: &str| marks[..2].contains(&word) || word.eq_ignore_ascii_case(marks[2]);
    let mut complaints = Vec::new();
    for file in &tree.files {
        // A manifest may contain the name of a lint against such marks.
        if extension_of(&file.path) == "toml" {
            continue;
        }
        for (number, line) in numbered(&file.text) {
            let mut words = line.split(|character: char| !character.is_alphanumeric());
            if let Some(mark) = words.find(|word| is_mark(word)) {
                complaints.push(format!(
                    "{}:{number}: `{mark}`: do it, or open an issue and take the mark out",
                    file.path
                ));
            }
        }
    }
    complaints
}

fn pages_have_one_title(tree: &Tree) -> Vec<String> {
    let untitled = tree.with_extension("md").filter_map(|file| {
        let titles = prose(&file.text).filter(|line| line.starts_with("# ")).count();
        (titles != 1).then(|| {
            format!("{}: {titles} lines start with `# `: a page has exactly one title", file.path)
        })
    });
    untitled.collect()
}

/// Returns the lines of a page that are not in code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

fn decisions_have_a_status(tree: &Tree) -> Vec<String> {
    let undecided = tree
        .files
        .iter()
        .filter(|file| is_decision(file))
        .filter(|file| !file.text.lines().any(|line| line.starts_with("Status: ")));
    undecided
        .map(|file| {
            let path = &file.path;
            format!("{path}: add a line with the status, such as `Status: accepted`")
        })
        .collect()
}

fn is_decision(file: &File) -> bool {
    let name = file.path.strip_prefix("docs/adr/");
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_digit()))
}

fn nothing_names_this_machine(tree: &Tree) -> Vec<String> {
    // Each in two halves, because this file is checked, too.
    let homes = [
        concat!("/", "work/"),
        concat!("/", "root/"),
        concat!("/", "home/"),
        concat!("/", "Users/"),
        concat!("/", "tmp/wt"),
    ];
    let index = "registry+https://github.com/rust-lang/crates.io-index";
    let mirrors =
        [concat!("sparse", "+http"), concat!("registry", "+"), concat!("replace", "-with")];
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (number, line) in numbered(&file.text) {
            let at = format!("{}:{number}", file.path);
            if let Some(home) = homes.iter().find(|home| starts_path(line, home)) {
                complaints.push(format!(
                    "{at}: `{home}` is a path of one machine: start from the tree's root"
                ));
            }
            let line = line.replace(index, "");
            if mirrors.iter().any(|mirror| line.contains(mirror)) {
                complaints.push(format!(
                    "{at}: names a registry: keep mirrors in the configuration of your home"
                ));
            }
        }
    }
    complaints
}

/// Returns whether `start` is at the beginning of a path in the line, not inside a longer path.
fn starts_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"._-~}".contains(before))
    })
}

fn statements_are_files(tree: &Tree) -> Vec<String> {
    let sources = tree
        .with_extension("rs")
        .filter(|file| file.path.starts_with("crates/tidegate-store/") && file.path != GENERATOR);
    let built = sources.flat_map(|file| {
        file.text.match_indices("format!(").filter_map(|(at, call)| {
            let statement = file.text[at + call.len()..]
                .trim_start()
                .trim_start_matches(['r', '#'])
                .strip_prefix('"')?
                .trim_start_matches(|character: char| {
                    character == '\\' || character.is_whitespace()
                });
            let verb = statement.split_whitespace().next()?.to_ascii_lowercase();
            ["select", "insert", "update", "delete", "with"].contains(&verb.as_str()).then(|| {
                let number = file.text[..at].lines().count().max(1);
                format!(
                    "{}:{number}: SQL in `format!`: write it in sql/ and hand lists in as one \
                     parameter; only {GENERATOR} composes statements",
                    file.path
                )
            })
        })
    });
    built.collect()
}

fn extension_of(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or("")
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Each check fails on a bad sample and passes on a good one.
mod tests {
    use super::*;

    #[test]
    fn long_files_are_named_with_their_limit() {
        for (path, limit) in [
            ("crates/a/src/b.rs", 800),
            ("crates/a/src/lib.rs", 250),
            ("crates/a/src/flow/mod.rs", 250),
            ("crates/a/sql/sqlite/run_due.sql", 80),
            ("docs/start.md", 400),
            ("ARCHITECTURE.md", 300),
        ] {
            passes(files_stay_short, &[(path, &"line\n".repeat(limit))]);
            fails(files_stay_short, &[(path, &"line\n".repeat(limit + 1))], &limit.to_string());
        }
        let statements = "-- name: a\nselect 1\n".repeat(50);
        passes(files_stay_short, &[("crates/a/sql/sqlite/run.sql", &statements)]);
    }

    #[test]
    fn a_wide_store_is_counted_without_comments_and_bodies() {
        let store = |methods: usize| {
            let method =
                "    /// fn in a comment\n    async fn m(&self) {\n        fn n() {}\n    }\n";
            format!("pub trait Store: Send {{\n{}}}\nfn after() {{}}\n", method.repeat(methods))
        };
        passes(the_store_stays_narrow, &[(STORE, &store(25))]);
        fails(the_store_stays_narrow, &[(STORE, &store(26))], "26 methods");
        fails(the_store_stays_narrow, &[(STORE, "pub trait Stores {}\n")], "no `pub trait Store`");
    }

    #[test]
    fn a_sixth_crate_needs_a_decision_that_names_it() {
        let sixth = ("crates/tidegate-sixth/Cargo.toml", "");
        fails(crates_stay_few, &[sixth], "crates/tidegate-sixth");
        fails(crates_stay_few, &[sixth, ("docs/adr/0002-x.md", "`other`")], "docs/adr/");
        passes(crates_stay_few, &[sixth, ("docs/adr/0002-x.md", "a crate `tidegate-sixth`")]);
        passes(crates_stay_few, &[("crates/tidegate-core/Cargo.toml", "")]);
    }

    #[test]
    fn a_statement_in_one_dialect_only_is_named() {
        let [sqlite, postgres] = DIALECTS.map(|dialect| format!("{dialect}run_due.sql"));
        passes(statements_come_in_both_dialects, &[(&sqlite, ""), (&postgres, "")]);
        fails(statements_come_in_both_dialects, &[(&sqlite, "")], &format!("write {postgres}"));
        fails(statements_come_in_both_dialects, &[(&postgres, "")], &format!("write {sqlite}"));
    }

    #[test]
    fn an_error_needs_a_row() {
        let code = (
            "crates/a/src/error.rs",
            "    pub fn code(&self) -> &'static str {\n        \"no_run\"\n    }\n",
        );
        passes(errors_are_documented, &[code, (ERRORS, "| `no_run` | there is none |")]);
        fails(errors_are_documented, &[code, (ERRORS, "`no_run`")], "add a row");
        let fault = ("crates/tidegate-server/src/call/a.rs", "StepError::coded(\"Lost\", x)");
        passes(errors_are_documented, &[fault, (ERRORS, "| `Lost` | it is |")]);
        fails(errors_are_documented, &[fault, (ERRORS, "")], "`Lost`: add a row");
        let fault = ("crates/tidegate-core/src/run/a.rs", r#"Fault { code: "Late".to_owned() }"#);
        fails(errors_are_documented, &[fault, (ERRORS, "")], "`Late`: add a row");
    }

    #[test]
    fn a_path_in_the_architecture_must_exist() {
        let file = ("crates/a/src/ingest.rs", "");
        for text in ["`crates/a/`", "`src/ingest.rs`", "`POST /events`", "`/events`", "`A::b`"] {
            passes(the_architecture_names_real_paths, &[file, (ARCHITECTURE, text)]);
        }
        for text in ["`crates/b`", "`src/digest.rs`", "`gest.rs`", "text `x` and `b/c.sql`"] {
            fails(the_architecture_names_real_paths, &[file, (ARCHITECTURE, text)], "not exist");
        }
    }

    #[test]
    fn a_function_in_the_walk_must_be_in_its_file() {
        let file = ("crates/a/src/ingest.rs", "pub async fn post<T>(x: T) {}\nfn poster() {}\n");
        for row in ["| `src/ingest.rs` | `post` |\n", "| `ingest.rs` | `Ingest::poster()` |\n"] {
            let text = row.repeat(WALK);
            passes(the_architecture_names_real_functions, &[file, (ARCHITECTURE, &text)]);
            let short = row.repeat(WALK - 1);
            let walk = (ARCHITECTURE, short.as_str());
            fails(the_architecture_names_real_functions, &[file, walk], "write the walk");
        }
        let walk = (ARCHITECTURE, "| `src/ingest.rs` | `pos` | and more |");
        fails(the_architecture_names_real_functions, &[file, walk], "no `fn pos`");
        let none = (ARCHITECTURE, "| `src/ingest.rs` | what happens |");
        fails(the_architecture_names_real_functions, &[file, none], "write the walk");
    }

    #[test]
    fn a_noun_of_another_engine_is_named() {
        for (banned, _) in BANNED_NOUNS {
            let text = format!("    pub struct My{banned}Row {{}}");
            fails(public_types_use_our_words, &[("a.rs", &text)], banned);
            let hidden = format!("struct {banned};\npub fn {banned}() {{}}\npub struct {banned}s;");
            passes(public_types_use_our_words, &[("a.rs", &hidden)]);
        }
    }

    #[test]
    fn a_mark_of_unfinished_work_is_found() {
        for mark in [concat!("FIX", "ME"), concat!("XX", "X"), concat!("to", "do")] {
            for path in ["a.rs", "a.sql", "a.md", "scripts/test"] {
                let text = format!("fine\n// {mark}: later");
                fails(nothing_is_left_unfinished, &[(path, &text)], &format!("{path}:2"));
            }
        }
        passes(nothing_is_left_unfinished, &[("a.rs", "mastodon, XXXXXXXX")]);
    }

    #[test]
    fn a_page_has_exactly_one_title() {
        passes(pages_have_one_title, &[("a.md", "# One\n## Two\n```sh\n# a comment\n```\n")]);
        fails(pages_have_one_title, &[("a.md", "## None\n")], "0 lines");
        fails(pages_have_one_title, &[("a.md", "# One\n# Two\n")], "2 lines");
    }

    #[test]
    fn a_decision_says_where_it_stands() {
        passes(decisions_have_a_status, &[("docs/adr/0001-a.md", "# A\n\nStatus: accepted\n")]);
        passes(decisions_have_a_status, &[("docs/adr/README.md", "# The list\n")]);
        fails(decisions_have_a_status, &[("docs/adr/0001-a.md", "# A\n")], "Status: accepted");
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for home in [concat!("/", "work/a"), concat!("/", "root/.cargo"), concat!("/", "tmp/wt/a")]
        {
            fails(nothing_names_this_machine, &[("a.md", &format!("see `{home}`"))], "a.md:1");
            passes(nothing_names_this_machine, &[("a.md", &format!("docs{home}"))]);
        }
        let lock = |source: &str| format!("name = \"a\"\nsource = \"{source}\"\n");
        let official = "registry+https://github.com/rust-lang/crates.io-index";
        passes(nothing_names_this_machine, &[("Cargo.lock", &lock(official))]);
        let mirror = concat!("sparse", "+https://mirror.example/index/");
        fails(nothing_names_this_machine, &[("Cargo.lock", &lock(mirror))], "a registry");
    }

    #[test]
    fn a_statement_built_in_code_is_found() {
        let path = "crates/tidegate-store/src/sqlite/mod.rs";
        for text in [
            "format!(\"select {x}\")",
            "format!(\n    \"INSERT into {x}\")",
            "format!(r#\"\n  with a as ({x})\"#)",
            "format!(\"\\\n update {x}\")",
        ] {
            fails(statements_are_files, &[(path, text)], "SQL in `format!`");
            passes(statements_are_files, &[("crates/tidegate/src/lib.rs", text)]);
            passes(statements_are_files, &[(GENERATOR, text)]);
        }
        passes(statements_are_files, &[(path, "format!(\"selected {x}\")")]);
    }

    #[track_caller]
    pub(super) fn fails(check: Check, files: &[(&str, &str)], expected: &str) {
        let complaints = check(&tree(files)).join("\n");
        assert!(complaints.contains(expected), "`{expected}` is not in `{complaints}`");
    }

    #[track_caller]
    pub(super) fn passes(check: Check, files: &[(&str, &str)]) {
        assert_eq!(check(&tree(files)), Vec::<String>::new());
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Tree { files: files.iter().map(file).collect() }
    }
}
