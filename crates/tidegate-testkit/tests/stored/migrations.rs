//! Applied migrations are never edited: databases remember the checksum of each, and an engine
//! refuses one that differs.

use std::{collections::BTreeMap, fs, path::Path};

use tidegate_store::migrate::Migration;

const LIST: &str = include_str!("migrations.txt");

/// The checksum of every migration, as databases record it, by dialect and file.
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

/// The list is not written by `UPDATE_EXPECT`: a new migration adds its line by hand, and no line
/// ever changes.
#[test]
fn migrations_are_never_edited() {
    let listed = LIST.lines().map(|line| line.split_once(' ').expect("a file and a checksum"));
    let mut missing = checksums();
    for (file, checksum) in listed {
        let found = missing.remove(file);
        assert_eq!(
            found.as_deref(),
            Some(checksum),
            "{file}: a migration that was released is never edited, renamed or removed; undo the \
             change, and write a new migration if the schema has to change"
        );
    }
    let lines: Vec<_> = missing.iter().map(|(file, sum)| format!("{file} {sum}")).collect();
    let lines = lines.join("\n");
    assert!(missing.is_empty(), "add to migrations.txt once the migration is final:\n{lines}");
}
