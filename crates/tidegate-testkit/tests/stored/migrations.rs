//! Tests that released migrations are not edited: a database records the checksum of each applied
//! migration, and a store with another checksum cannot open it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use tidegate_store::migrate::Migration;

const LIST: &str = include_str!("migrations.txt");

/// Returns the checksum of every migration, as databases record it, by dialect and file.
fn checksums() -> BTreeMap<String, String> {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidegate-store/sql");
    let mut checksums = BTreeMap::new();
    for dialect in ["postgres", "sqlite"] {
        let files = fs::read_dir(sql.join(dialect).join("migrations")).expect("the folder exists");
        for file in files {
            let path = file.expect("the folder can be read").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a migration is text");
            let migration = Migration { version: 0, name: "", sql: text.leak() };
            checksums.insert(format!("{dialect}/{name}"), migration.checksum());
        }
    }
    checksums
}

/// `UPDATE_EXPECT=1` adds the lines of new migrations to the list; use it when they are final.
/// Lines in the list never change.
#[test]
fn migrations_are_never_edited() {
    let listed = LIST.lines().map(|line| line.split_once(' ').expect("a file and a checksum"));
    let checksums = checksums();
    let mut missing: BTreeSet<&str> = checksums.keys().map(String::as_str).collect();
    for (file, checksum) in listed {
        missing.remove(file);
        assert_eq!(
            checksums.get(file).map(String::as_str),
            Some(checksum),
            "{file}: a migration that was released is never edited, renamed or removed; undo the \
             change, and write a new migration if the schema has to change"
        );
    }
    if !missing.is_empty() && std::env::var("UPDATE_EXPECT").is_ok() {
        let lines = checksums.iter().map(|(file, sum)| format!("{file} {sum}\n"));
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored/migrations.txt");
        return fs::write(list, lines.collect::<Vec<_>>().concat())
            .expect("the list can be written");
    }
    assert!(
        missing.is_empty(),
        "migrations that are not in the list: {missing:?}; add them with UPDATE_EXPECT=1 when they \
         are final"
    );
}
