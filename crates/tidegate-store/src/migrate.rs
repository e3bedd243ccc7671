//! Finds the pending migrations of a database; shared by SQLite and PostgreSQL.
//!
//! Migrations are numbered from 1 without a gap and cannot be undone. Each database records its
//! applied migrations, with the SHA-256 of their text.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::StoreError;

/// Migration of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Number of the migration.
    pub version: i64,
    /// File name without number and extension.
    pub name: &'static str,
    /// Statements of the migration.
    pub sql: &'static str,
}

impl Migration {
    /// Creates the migration of a file: `0018_turns` is number 18, called `turns`.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "no database is built in")
    )]
    pub(crate) const fn of(file: &'static str, sql: &'static str) -> Self {
        let (number, name) = file.split_at(4);
        let Ok(version) = i64::from_str_radix(number, 10) else {
            panic!("the name of a migration file must begin with a number of four digits");
        };
        Self { version, name: name.split_at(1).1, sql }
    }

    /// Returns the SHA-256 of the migration's text, in hex.
    pub fn checksum(&self) -> String {
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(self.sql) {
            write!(hex, "{byte:02x}").expect("a string takes all that is written");
        }
        hex
    }

    /// Returns the record that the database stores when this migration is applied.
    pub fn applied(&self) -> Applied {
        Applied { version: self.version, name: self.name.to_owned(), checksum: self.checksum() }
    }
}

/// Migration that a database has recorded as applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Number of the migration.
    pub version: i64,
    /// Name of the migration.
    pub name: String,
    /// SHA-256 of the migration's text when it was applied.
    pub checksum: String,
}

/// Logs all newly applied migrations in one line, because a new store gets many of them at once.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "no database is built in")
)]
pub(crate) fn log_migrated(migrated: &[Migration]) {
    if let [first, .., last] | [first @ last] = migrated {
        let (from, to) = (first.version - 1, last.version);
        tracing::info!(from, to, last = last.name, "migrated the schema");
    }
}

/// Compares the applied migrations of a database with the migrations of this program, and returns
/// those that are not yet applied.
///
/// `applied` is in order of version.
pub fn pending<'a>(
    migrations: &'a [Migration],
    applied: &[Applied],
) -> Result<&'a [Migration], StoreError> {
    let newest = migrations.last().map_or(0, |migration| migration.version);
    if let Some(beyond) = applied.iter().find(|done| done.version > newest) {
        return Err(StoreError::Schema(format!(
            "the schema is of a newer Tidegate: it has migration {} `{}`, and this version has \
             only {newest}; start the newer Tidegate, or restore a backup from before it",
            beyond.version, beyond.name
        )));
    }
    for (migration, done) in migrations.iter().zip(applied) {
        if migration.applied() != *done {
            return Err(StoreError::Schema(format!(
                "migration {} `{}` is not the one that was applied ({} `{}`, checksum {:.12}); \
                 start the Tidegate that applied it, or restore a backup: \
                 a released migration is never edited",
                migration.version, migration.name, done.version, done.name, done.checksum
            )));
        }
    }
    Ok(&migrations[applied.len().min(migrations.len())..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIGRATIONS: &[Migration] = &[
        Migration { version: 1, name: "init", sql: "create table a (id integer)" },
        Migration { version: 2, name: "more", sql: "create table b (id integer)" },
    ];

    #[test]
    fn a_new_database_needs_everything() {
        assert_eq!(pending(MIGRATIONS, &[]).unwrap().len(), 2);
    }

    #[test]
    fn what_was_applied_is_not_applied_again() {
        let left = pending(MIGRATIONS, &[MIGRATIONS[0].applied()]).unwrap();
        assert_eq!(left[0].version, 2);
        assert!(
            pending(MIGRATIONS, &[MIGRATIONS[0].applied(), MIGRATIONS[1].applied()])
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_newer_schema_is_refused_with_what_to_do() {
        let applied = [MIGRATIONS[0].applied(), MIGRATIONS[1].applied()];
        let error = pending(&MIGRATIONS[..1], &applied).unwrap_err().to_string();
        assert!(error.contains("migration 2 `more`"), "{error}");
        assert!(error.contains("start the newer Tidegate"), "{error}");
    }

    #[test]
    fn an_edited_migration_is_refused_with_what_to_do() {
        let edited = Applied { checksum: "00".repeat(32), ..MIGRATIONS[0].applied() };
        let error = pending(MIGRATIONS, &[edited]).unwrap_err().to_string();
        assert!(error.contains("migration 1 `init` is not the one"), "{error}");
        assert!(error.contains("restore a backup"), "{error}");
    }

    #[test]
    fn a_gap_in_what_was_applied_is_refused() {
        assert!(pending(MIGRATIONS, &[MIGRATIONS[1].applied()]).is_err());
    }
}
