//! Checks the links of the book: every link has a target, and every page is reachable from the
//! index.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Page from which every other page must be reachable.
const INDEX: &str = "docs/README.md";

/// Texts of the pages, by their paths from the root of the tree.
type Texts = BTreeMap<String, String>;

#[test]
fn every_page_is_found_and_every_link_leads_somewhere() {
    let texts = read();
    let complaints = [broken(&texts), lost(&texts)].concat();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Reads the pages and pictures of the root folder, of docs/ and of bench/.
fn read() -> Texts {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut texts, mut folders) = (Texts::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                let inside = ["docs", "bench"].iter().any(|top| path.starts_with(top));
                folders.extend(inside.then(|| format!("{path}/")));
            } else {
                texts.insert(path, fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
    }
    texts
}

/// Returns the targets of a page's links, as paths from the root of the tree, each with its heading
/// if the link names one. Web addresses are skipped.
fn links(path: &str, text: &str) -> Vec<(String, Option<String>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let near = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    near.map(|target| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let mut parts: Vec<&str> = path.split('/').collect();
        parts.pop();
        if file.is_empty() {
            parts = path.split('/').collect();
        }
        for part in file.split('/') {
            match part {
                ".." => drop(parts.pop()),
                "" | "." => {}
                name => parts.push(name),
            }
        }
        (parts.join("/"), Some(heading.to_owned()).filter(|heading| !heading.is_empty()))
    })
    .collect()
}

/// Returns the headings and the anchors (`<a id="g1"></a>`) of a page, in the form that links use.
fn headings(text: &str) -> Vec<String> {
    let anchors = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    titles
        .map(|title| {
            let title = title.trim_start_matches('#').trim().to_lowercase();
            title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .chain(anchors.map(str::to_owned))
        .collect()
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_folder(texts: &Texts, path: &str) -> bool {
    let folder = format!("{path}/");
    texts.keys().any(|file| file.starts_with(&folder))
}

fn pages(texts: &Texts) -> impl Iterator<Item = (&String, &String)> {
    texts.iter().filter(|(path, _)| extension(path) == "md")
}

fn broken(texts: &Texts) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in pages(texts) {
        for (target, heading) in links(path, text) {
            let page = texts.get(&target);
            if page.is_none() && !outside(&target) && !is_folder(texts, &target) {
                complaints.push(format!("{path}: {target} does not exist: correct the link"));
            }
            let headings = page.map(|text| headings(text)).unwrap_or_default();
            if let Some(heading) = heading.filter(|it| page.is_some() && !headings.contains(it)) {
                complaints.push(format!("{path}: {target} has no heading `{heading}`"));
            }
        }
    }
    complaints
}

/// Returns whether a target is a code file. Such a target must exist; its content is not checked.
fn outside(target: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_code = ["crates/", "examples/"].iter().any(|folder| target.starts_with(folder));
    is_code && root.join(target).exists()
}

/// Returns the pages and pictures of the book that no path of links from the index reaches.
fn lost(texts: &Texts) -> Vec<String> {
    let mut found = BTreeSet::from([INDEX.to_owned()]);
    let mut next = vec![INDEX.to_owned()];
    while let Some(path) = next.pop() {
        let text = texts.get(&path).map(String::as_str).unwrap_or_default();
        for (target, _) in links(&path, text) {
            let folder = format!("{target}/");
            let reached = texts.keys().filter(|it| **it == target || it.starts_with(&folder));
            next.extend(reached.filter(|it| found.insert((*it).clone())).cloned());
        }
    }
    let mut lost = Vec::new();
    for path in texts.keys().filter(|path| path.starts_with("docs/")) {
        if ["md", "svg"].contains(&extension(path)) && !found.contains(path) {
            lost.push(format!(
                "{path}: not reachable by links from {INDEX}: link it, or delete it"
            ));
        }
    }
    lost
}

#[test]
fn a_broken_link_and_a_lost_page_are_named() {
    let tree = |texts: &[(&str, &str)]| -> Texts {
        texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    };
    let whole = [
        (INDEX, "[a](a/b.md), [web](https://c.d/e)"),
        (
            "docs/a/b.md",
            "## The `x`, y\n<a id=\"g1\"></a>\n![p](p.svg) [up](../README.md) [here](#the-x-y) [g](#g1)",
        ),
        ("docs/a/p.svg", ""),
    ];
    assert_eq!([broken(&tree(&whole)), lost(&tree(&whole))].concat(), Vec::<String>::new());
    let texts = tree(&[whole[0], whole[2], ("docs/a/b.md", "[c](c.md) [d](../README.md#z)")]);
    assert_eq!(
        [broken(&texts), lost(&texts)].concat(),
        [
            "docs/a/b.md: docs/a/c.md does not exist: correct the link",
            "docs/a/b.md: docs/README.md has no heading `z`",
            "docs/a/p.svg: not reachable by links from docs/README.md: link it, or delete it",
        ]
    );
}
