//! Contract of the command line: commands, arguments, flags and settings.

use std::{fmt::Write as _, process::Command};

use expect_test::expect_file;

use crate::tidegate;

/// Returns the lines of a help text under a heading.
fn section<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let lines = help.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| line.is_empty() || line.starts_with(' '))
}

/// Returns the help texts of a command and its subcommands, in order.
fn helps(path: &[&str]) -> Vec<(String, String)> {
    let help = tidegate(&[path, &["--help"]].concat());
    let mut all =
        vec![(["tidegate"].iter().chain(path).copied().collect::<Vec<_>>().join(" "), help)];
    let commands: Vec<String> = section(&all[0].1, "Commands:")
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    for name in &commands {
        all.extend(helps(&[path, &[name]].concat()));
    }
    all
}

/// Returns the parts of a help text that scripts rely on: usage, flags, defaults, variables and
/// values.
fn facts(help: &str) -> Vec<String> {
    let usage = help.lines().filter_map(|line| line.strip_prefix("Usage: ")).map(str::to_owned);
    let mut facts: Vec<String> = usage.collect();
    for line in section(help, "Arguments:").chain(section(help, "Options:")) {
        let trimmed = line.trim_start();
        // The description of a flag follows after two spaces, or on the next lines with more
        // indentation.
        if trimmed.starts_with(['-', '[', '<']) && !trimmed.starts_with("[env") {
            let name = trimmed.split("  ").next().unwrap_or_default().to_owned();
            facts.push(name);
        }
        for tag in ["[env: ", "[default: ", "[possible values: ", "[aliases: "] {
            if let Some((_, rest)) = line.split_once(tag) {
                let value = rest.split(']').next().unwrap_or_default();
                let last = facts.last_mut().expect("a tag must follow a flag");
                write!(last, " {tag}{value}]").expect("writing to a string cannot fail");
            }
        }
    }
    facts
}

/// Freezes all help texts word by word, and separately all commands with their flags but without
/// descriptions.
#[test]
fn commands_and_flags_are_the_agreed_ones() {
    let helps = helps(&[]);
    let flags = helps.iter().map(|(command, help)| {
        let facts: Vec<_> = facts(help).into_iter().map(|fact| format!("  {fact}\n")).collect();
        format!("{command}\n{}", facts.concat())
    });
    expect_file!["commands.txt"].assert_eq(&flags.collect::<Vec<_>>().join("\n"));
    let texts = helps.iter().map(|(command, help)| format!("$ {command} --help\n{help}"));
    expect_file!["help.txt"].assert_eq(&texts.collect::<Vec<_>>().join("\n"));
}

/// Flags for a server are refused by commands that do not use a server.
#[test]
fn a_flag_that_a_command_does_not_use_is_refused() {
    for arguments in [
        &["serve", "--json"][..],
        &["--file", "x.db", "demo"],
        &["config", "print", "--server", "http://h"],
        &["--workspace", "w", "config", "print"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.env_clear().args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.contains("does not use it"), "{arguments:?}: {error}");
    }
}

/// Freezes all settings with their defaults and variables.
#[test]
fn settings_and_defaults_are_the_agreed_ones() {
    let printed = tidegate(&["config", "print"]);
    let lines: Vec<_> = printed.lines().collect();
    let settings = lines.chunks(2).map(|pair| {
        let [setting, about] = pair else { panic!("each setting must have two lines: {pair:?}") };
        let (_, variable) = about.rsplit_once("; ").expect("the line must end with the variable");
        let words: Vec<_> = setting.split_whitespace().collect();
        format!("{} {variable}\n", words.join(" "))
    });
    expect_file!["settings.txt"].assert_eq(&settings.collect::<Vec<_>>().concat());
}
