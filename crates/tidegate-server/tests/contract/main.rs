//! What users and their scripts rely on, frozen in files beside this one: commands and flags, what
//! commands print, settings with their defaults and variables, and the codes of errors.
//!
//! Elsewhere: the HTTP API in `docs/reference/openapi.json`, metrics in `crates/tidegate/tests/metrics`,
//! what is stored in `crates/tidegate-testkit/tests/stored`. Log lines are no contract.
//!
//! `UPDATE_EXPECT=1` writes the files anew. `help.txt` may change with every better sentence; a
//! line of any other file that goes or changes is a break that the changelog has to name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commands;
mod errors;
mod listings;

use std::process::Command;

/// Runs the binary without any settings from outside; what it prints.
fn tidegate(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.env_clear().args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tidegate {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}
