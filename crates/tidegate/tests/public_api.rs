//! Snapshot of the public items of the crate. A difference is a change for users.
//!
//! The list is read from the source: the exports of the root, and the public functions of exported
//! types and of public modules. Functions that a macro generates (for the controls) are listed
//! under the name of the macro. Items of other crates are listed by name only.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "it names the items that it lists")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, TraitItem, UseTree, Visibility};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn items(path: &Path) -> Vec<Item> {
    syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap().items
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the names that a `use` imports, each with its path.
fn names(tree: &UseTree, path: &str) -> Vec<(String, String)> {
    match tree {
        UseTree::Path(it) => names(&it.tree, &format!("{path}{}::", it.ident)),
        UseTree::Name(it) => vec![(it.ident.to_string(), format!("{path}{}", it.ident))],
        UseTree::Rename(it) => vec![(it.rename.to_string(), format!("{path}{}", it.ident))],
        UseTree::Group(it) => it.items.iter().flat_map(|tree| names(tree, path)).collect(),
        UseTree::Glob(_) => vec![("*".to_owned(), format!("{path}*"))],
    }
}

/// Returns the names that a file exports, each with its path.
fn exports(path: &Path) -> BTreeMap<String, String> {
    let uses = items(path).into_iter().filter_map(|item| match item {
        Item::Use(item) if is_public(&item.vis) => Some(names(&item.tree, "")),
        _ => None,
    });
    let uses = uses.flatten().filter(|(_, path)| path != "exports::*");
    let names: BTreeMap<String, String> = uses.collect();
    assert!(!names.contains_key("*"), "an export with `*` hides the exported names");
    names
}

/// Returns all source files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .collect();
    all.sort();
    all
}

/// Formats tokens with the usual spaces.
fn text(tokens: impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" > ", "> "),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ;", ";"),
        (" :", ":"),
        ("< ", "<"),
        ("> (", ">("),
        ("> ,", ">,"),
        ("> ::", ">::"),
        ("- > ", "-> "),
        ("'_ ", "'_"),
    ] {
        text = text.replace(from, to);
    }
    text.trim().to_owned()
}

/// Adds the public functions of an item to `all`, each with the name of its type.
fn functions(item: &Item, own: &BTreeSet<String>, all: &mut BTreeSet<String>) {
    match item {
        Item::Impl(item) if item.trait_.is_none() => {
            let name = text(&item.self_ty);
            if !own.contains(name.split(['<', ' ']).next().unwrap_or_default()) {
                return;
            }
            let functions = item.items.iter().filter_map(|it| match it {
                ImplItem::Fn(it) if is_public(&it.vis) => Some(text(&it.sig)),
                _ => None,
            });
            all.extend(functions.map(|function| format!("{name}: {function}")));
        }
        Item::Trait(item) if own.contains(&item.ident.to_string()) => {
            let functions = item.items.iter().filter_map(|it| match it {
                TraitItem::Fn(it) => Some(text(&it.sig)),
                _ => None,
            });
            all.extend(functions.map(|function| format!("trait {}: {function}", item.ident)));
        }
        Item::Macro(item) => {
            let Some(name) = &item.ident else { return };
            let body = item.mac.tokens.to_string();
            let words: Vec<&str> = body.split_whitespace().collect();
            for three in words.windows(3).filter(|it| it[..2] == ["pub", "fn"]) {
                all.insert(format!("macro {name}: fn {}", three[2]));
            }
        }
        _ => {}
    }
}

#[test]
fn the_public_items_are_the_agreed_ones() {
    let mut root = exports(&source().join("lib.rs"));
    root.extend(exports(&source().join("exports.rs")));
    let modules = items(&source().join("lib.rs")).into_iter().filter_map(|item| match item {
        Item::Mod(item) if is_public(&item.vis) => Some(item.ident.to_string()),
        _ => None,
    });
    let modules: BTreeSet<String> = modules.collect();
    let mut own: BTreeSet<String> = root
        .iter()
        .filter(|(_, path)| !path.starts_with("tidegate_"))
        .map(|it| it.0.clone())
        .collect();
    let mut lists = format!("pub mod {}\n", modules.iter().cloned().collect::<Vec<_>>().join(", "));
    lists.extend(root.iter().map(|(name, path)| match path.split_once("::") {
        Some((of @ ("tidegate_core" | "tidegate_store"), _)) => format!("pub use {of}: {name}\n"),
        _ => format!("pub {name}\n"),
    }));
    let all = files(&source());
    for path in &all {
        let folder = path.strip_prefix(source()).unwrap().with_extension("");
        let module = folder.iter().next().unwrap().to_str().unwrap().to_owned();
        if modules.contains(&module) {
            own.extend(items(path).iter().filter_map(|item| match item {
                Item::Struct(it) if is_public(&it.vis) => Some(it.ident.to_string()),
                Item::Enum(it) if is_public(&it.vis) => Some(it.ident.to_string()),
                _ => None,
            }));
        }
    }
    let mut found = BTreeSet::new();
    for item in all.iter().flat_map(|path| items(path)) {
        functions(&item, &own, &mut found);
    }
    lists.extend(found.into_iter().map(|function| function + "\n"));
    expect_file!["public_api.txt"].assert_eq(&lists);
}

fn has_example(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|it| it.path().is_ident("doc") && it.to_token_stream().to_string().contains("```"))
}

/// Every name of the prelude has an example in its documentation, which is executed as a doctest.
#[test]
fn every_name_of_the_prelude_has_an_example() {
    let mut without: BTreeSet<String> = exports(&source().join("prelude.rs")).into_keys().collect();
    assert!(without.len() > 20, "{without:?}");
    for item in files(&source()).iter().flat_map(|path| items(path)) {
        let (names, example) = match &item {
            Item::Struct(it) => (vec![it.ident.to_string()], has_example(&it.attrs)),
            Item::Enum(it) => (vec![it.ident.to_string()], has_example(&it.attrs)),
            Item::Trait(it) => (vec![it.ident.to_string()], has_example(&it.attrs)),
            Item::Type(it) => (vec![it.ident.to_string()], has_example(&it.attrs)),
            Item::Use(it) => {
                let names = names(&it.tree, "").into_iter().map(|it| it.0).collect();
                (names, has_example(&it.attrs))
            }
            // The macro `control!` takes a documented name.
            Item::Macro(it) if it.mac.path.is_ident("control") => {
                let tokens = it.mac.tokens.to_string();
                let name = tokens.split_whitespace().last().unwrap_or_default().to_owned();
                (vec![name], tokens.contains("```"))
            }
            _ => continue,
        };
        if example {
            without.retain(|name| !names.contains(name));
        }
    }
    assert!(without.is_empty(), "these names of the prelude have no example: {without:?}");
}
