//! Contract tests. The interfaces that users and scripts rely on are frozen in the text files
//! beside this file: commands and flags, output of commands, settings with their defaults and
//! variables, error codes.
//!
//! Other contracts: the HTTP API in `docs/reference/openapi.json`, metrics in
//! `crates/tidegate/tests/metrics`, the storage format in `crates/tidegate-testkit/tests/stored`.
//! Log lines are no contract.
//!
//! `UPDATE_EXPECT=1` rewrites the files. Texts in `help.txt` may change at any time. A removed or
//! changed line of any other file is a breaking change, which the changelog must list.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commands;
mod errors;
mod listings;

use std::process::Command;

/// Runs the binary without settings from the environment. Returns its output.
fn tidegate(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.env_clear().args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tidegate {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}
