//! Names the commit of a release build, for `tidegate --version`.
//!
//! `TIDEGATE_COMMIT` names it where the source has no repository. Other builds name none: each
//! commit would build the binary again.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=TIDEGATE_COMMIT");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = env::var("TIDEGATE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| is_release.then(head).flatten());
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let shown = commit.map_or(version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo:rustc-env=TIDEGATE_VERSION={shown}");
}

/// Returns the short name of the checked-out commit, and runs this program again after the next.
fn head() -> Option<String> {
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
