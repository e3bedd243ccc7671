//! Settings: defaults, overridden by the file, then the environment, then flags. Each value records
//! its source.

mod inngest;
mod postgres;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use tidegate_core::{
    action::Flow,
    definition::{DEFAULT_APP, Definition},
    pool::Pool,
    row::Workspace,
};

pub(crate) use self::postgres::Location;
use crate::{http::workflows::check_urls, ingress::Ingress};

/// One setting: its name in the file, its default and its description.
struct Setting {
    name: &'static str,
    default: &'static str,
    what: &'static str,
}

const SETTINGS: [Setting; 12] = [
    Setting {
        name: "store",
        default: "sqlite:tidegate.db",
        what: "sqlite:PATH, a postgres:// URL, or memory",
    },
    Setting { name: "listen", default: "127.0.0.1:7400", what: "address and port" },
    Setting { name: "workers", default: "1000", what: "maximum number of concurrent calls" },
    Setting {
        name: "leaseTtlMs",
        default: "30000",
        what: "lease time, after which the runs of a dead server are free",
    },
    Setting {
        name: "pauseAfterDeaths",
        default: "10",
        what: "worker deaths in a row, after the first, that pause a run; 0 for never",
    },
    Setting {
        name: "callTimeoutMs",
        default: "30000",
        what: "timeout of a called service: before its answer, and between parts of it",
    },
    Setting {
        name: "drainMs",
        default: "25000",
        what: "time for active runs to end after SIGTERM before they are handed over",
    },
    Setting {
        name: "allowPrivate",
        default: "loopback",
        what: "private addresses that may be called: none, loopback or all",
    },
    Setting {
        name: "signingSecretEnv",
        default: "TIDEGATE_SIGNING_SECRET",
        what: "environment variable with the secrets that calls are signed with",
    },
    Setting { name: "keepAliveMs", default: "75000", what: "idle timeout of a connection" },
    Setting { name: "workspaces", default: "", what: "further workspaces to serve" },
    Setting { name: "log", default: "info", what: "log filter, such as info or tidegate=debug" },
];

/// Tables of the config file that contain settings. A setting in a table is named `table.name`.
const SECTIONS: [&str; 2] = ["inngest", "postgres"];

/// Returns all settings; those of sections come last.
fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(&inngest::SETTINGS).chain(&postgres::SETTINGS)
}

/// Source of a value; later sources win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File,
    Environment,
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// All settings, and the definitions of the config file.
#[derive(Debug)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, Source)>,
    /// Whether these are the settings of `tidegate dev`.
    dev: bool,
    pub(crate) workspace: String,
    /// Declarations of pools of the config file.
    pub(crate) pools: Vec<Value>,
    /// Workflow definitions of the config file, each with its app.
    pub(crate) workflows: Vec<Value>,
    /// Flow definitions of the config file, each with its app.
    pub(crate) flows: Vec<Value>,
    /// Ingress definitions of these flows: chat, webhooks and schedules.
    pub(crate) ways: Arc<Ingress>,
}

/// Returns the name of the environment variable of a setting.
fn variable(name: &str) -> String {
    let mut variable = "TIDEGATE_".to_owned();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            variable.push('_');
        }
        variable.push(if c == '.' { '_' } else { c.to_ascii_uppercase() });
    }
    variable
}

impl Config {
    /// Merges the settings of all sources.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, Option<String>)],
    ) -> anyhow::Result<Self> {
        let mut values: BTreeMap<_, _> =
            settings().map(|it| (it.name, (it.default.to_owned(), Source::Default))).collect();
        let mut read = file.map(read_file).transpose()?.unwrap_or_default();
        let app = take_name(&mut read, "app", DEFAULT_APP)?;
        let workspace = take_name(&mut read, "workspace", tidegate::DEFAULT_WORKSPACE)?;
        let pools = take_tables(&mut read, "pool")?;
        let workflows = in_app(take_tables(&mut read, "workflow")?, &app);
        let mut flows = in_app(take_tables(&mut read, "flow")?, &app);
        let ways = Arc::new(Ingress::take(&app, &mut flows, &environment)?);
        for (name, value) in with_sections(read)? {
            let Some(known) = settings().find(|it| it.name == name) else {
                bail!("`{name}` is not a setting; expected one of {}", known_beside(&name));
            };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.insert(known.name, (text, Source::File));
        }
        for setting in settings() {
            if let Some(value) = environment(&variable(setting.name)) {
                values.insert(setting.name, (value, Source::Environment));
            }
        }
        for (name, value) in flags {
            if let Some(value) = value {
                values.insert(name, (value.clone(), Source::Flag));
            }
        }
        Ok(Self { values, dev: false, workspace, pools, workflows, flows, ways })
    }

    /// Returns the value of a setting as text.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(value, _)| value)
    }

    /// Returns the value of a numeric setting.
    pub(crate) fn number(&self, name: &str) -> anyhow::Result<u64> {
        let (text, source) = &self.values[name];
        text.parse().with_context(|| {
            format!("`{name}` must be a whole number, got `{text}` (from: {source})")
        })
    }

    /// Returns the value of a numeric setting, which must be within these bounds.
    pub(crate) fn within(&self, name: &str, least: u64, most: u64) -> anyhow::Result<u64> {
        let (text, source) = &self.values[name];
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.with_context(|| {
            let rule = format!("must be a whole number from {least} to {most}");
            format!("`{name}` {rule}, got `{text}` (from: {source})")
        })
    }

    /// Returns the value of a boolean setting.
    fn flag(&self, name: &str) -> anyhow::Result<bool> {
        let (text, source) = &self.values[name];
        text.parse().with_context(|| {
            format!("`{name}` must be true or false, got `{text}` (from: {source})")
        })
    }

    /// Returns the values of a setting that is a list: a list of the file, or text with commas.
    pub(crate) fn list(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let text = self.text(name);
        let items: Vec<String> = if text.starts_with('[') {
            serde_json::from_str(text)
                .with_context(|| format!("`{name}` must be a list of texts, got {text}"))?
        } else {
            text.split(',').map(|item| item.trim().to_owned()).collect()
        };
        Ok(items.into_iter().filter(|it| !it.is_empty()).collect())
    }

    /// Marks the settings as those of `tidegate dev`.
    pub(crate) fn for_dev(self) -> Self {
        Self { dev: true, ..self }
    }

    /// Whether this is `tidegate dev`.
    pub(crate) fn is_dev(&self) -> bool {
        self.dev
    }

    /// Returns the workspaces to serve. The workspace of the config file is the first.
    pub(crate) fn workspaces(&self) -> anyhow::Result<Vec<Workspace>> {
        let names = self.list("workspaces")?;
        let others = names.into_iter().filter(|it| *it != self.workspace);
        Ok(std::iter::once(self.workspace.clone()).chain(others).map(Into::into).collect())
    }

    /// Checks each definition separately. The error lists all problems.
    pub(crate) fn check_definitions(&self) -> anyhow::Result<()> {
        let pools = self.pools.iter().filter_map(|it| Pool::parse(it).err());
        let workflows = self.workflows.iter().filter_map(|it| Definition::parse(it).err());
        let flows = self.flows.iter().filter_map(|it| Flow::parse(it).err());
        let mut wrong: Vec<_> =
            pools.chain(workflows).chain(flows).map(|it| it.to_string()).collect();
        let actions = self.flows.iter().filter_map(|flow| flow["actions"].as_object());
        let all = self.workflows.iter().chain(actions.flat_map(|actions| actions.values()));
        if wrong.is_empty() {
            wrong.extend(all.filter_map(|it| check_urls(it).err()));
        }
        anyhow::ensure!(wrong.is_empty(), wrong.join("\n"));
        Ok(())
    }

    /// Returns the names of the settings that differ from another configuration. A different
    /// ingress is listed as `chat and webhooks`.
    pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
        let mut names: Vec<_> = settings().map(|setting| setting.name).collect();
        names.retain(|name| self.text(name) != other.text(name));
        // `Ingress` has no equality, so the debug texts are compared.
        if format!("{:?}", self.ways) != format!("{:?}", other.ways) {
            names.push("chat and webhooks");
        }
        names
    }

    /// Returns the names of the workflows and flows that are missing in another configuration.
    pub(crate) fn dropped(&self, other: &Self) -> Vec<String> {
        let named = |config: &Self| -> Vec<_> {
            let all = config.workflows.iter().chain(&config.flows);
            all.map(|it| (it["app"].to_string(), it["name"].clone())).collect()
        };
        let there = named(other);
        let gone = named(self).into_iter().filter(|it| !there.contains(it));
        gone.filter_map(|(_, name)| Some(name.as_str()?.to_owned())).collect()
    }

    /// Replaces the definitions by those of another configuration. The settings stay.
    pub(crate) fn take_definitions(&mut self, other: Self) {
        (self.pools, self.workflows, self.flows) = (other.pools, other.workflows, other.flows);
    }

    /// Returns the address of the store, without passwords.
    pub(crate) fn place(&self) -> String {
        hide_password(self.text("store"))
    }

    /// Returns all settings as lines of text, each with its value and source.
    pub(crate) fn print(&self) -> String {
        let width = settings().map(|setting| setting.name.len()).max().unwrap_or_default();
        let lines = settings().map(|setting| {
            let (value, source) = &self.values[setting.name];
            let (name, what, variable) = (setting.name, setting.what, variable(setting.name));
            let line = format!("{name:width$} {source:12} {}", hide_password(value));
            format!("{}\n{:indent$} {what}; {variable}\n", line.trim_end(), "", indent = width + 13)
        });
        lines.collect()
    }
}

/// Returns the settings of a file. The name of a setting in a section is `section.name`.
fn with_sections(read: Map<String, Value>) -> anyhow::Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for (name, value) in read {
        match value {
            Value::Object(members) if SECTIONS.contains(&name.as_str()) => {
                all.extend(members.into_iter().map(|(part, it)| (format!("{name}.{part}"), it)));
            }
            other if SECTIONS.contains(&name.as_str()) => {
                bail!("`{name}` must be a table, `[{name}]`, got {other}");
            }
            other => all.push((name, other)),
        }
    }
    Ok(all)
}

/// Returns the valid names to suggest for an unknown name: those of its section, or of the top
/// level.
fn known_beside(name: &str) -> String {
    let section = |name: &str| name.split_once('.').map(|(section, _)| section.to_owned());
    let here = settings().map(|it| it.name).filter(|it| section(it) == section(name));
    let others = ["workspace", "app", "pool", "workflow", "flow", "[inngest]", "[postgres]"];
    let others = others.into_iter().filter(|_| section(name).is_none());
    others.chain(here).collect::<Vec<_>>().join(", ")
}

/// Returns a URL without its password, which may be before the host or among the parameters.
fn hide_password(url: &str) -> String {
    let url = hide_in_user(url);
    let Some((place, parameters)) = url.split_once('?') else { return url };
    let hidden = parameters.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}=***"),
        _ => parameter.to_owned(),
    });
    format!("{place}?{}", hidden.collect::<Vec<_>>().join("&"))
}

fn hide_in_user(url: &str) -> String {
    let hidden = url.split_once("://").and_then(|(scheme, rest)| {
        let (who, place) = rest.split_once('@')?;
        let (user, _) = who.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{place}"))
    });
    hidden.unwrap_or_else(|| url.to_owned())
}

fn read_file(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    toml::from_str(&text).with_context(|| format!("{shown} is not valid TOML"))
}

/// Removes a name from the file's table and returns it.
fn take_name(read: &mut Map<String, Value>, what: &str, otherwise: &str) -> anyhow::Result<String> {
    match read.remove(what) {
        None => Ok(otherwise.to_owned()),
        Some(Value::String(name)) if !name.is_empty() => Ok(name),
        Some(other) => bail!("`{what}` must be a name, got {other}"),
    }
}

/// Removes the definitions of one kind from the file's table and returns them.
fn take_tables(read: &mut Map<String, Value>, kind: &str) -> anyhow::Result<Vec<Value>> {
    match read.remove(kind) {
        None => Ok(Vec::new()),
        Some(Value::Array(tables)) => Ok(tables),
        Some(other) => bail!("`{kind}` must be tables, `[[{kind}]]`, got {other}"),
    }
}

/// Gives definitions without an app the app of the file.
fn in_app(mut tables: Vec<Value>, app: &str) -> Vec<Value> {
    for table in &mut tables {
        if let Some(fields) = table.as_object_mut() {
            fields.entry("app").or_insert_with(|| app.into());
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::{Config, hide_password, variable};

    pub(super) fn load(
        text: &str,
        flags: &[(&'static str, Option<String>)],
    ) -> anyhow::Result<Config> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tidegate.toml");
        std::fs::write(&file, text)?;
        let environment = |name: &str| (name == "TIDEGATE_LISTEN").then(|| "env:1".to_owned());
        Config::load(Some(&file), environment, flags)
    }

    #[test]
    fn a_later_source_wins_and_each_says_where_it_came_from() {
        let file = "store = \"memory\"\nlisten = \"file:1\"\nworkers = 7";
        let config = load(file, &[("store", Some("sqlite:x.db".to_owned()))]).unwrap();
        let printed = config.print();
        let lines = printed.lines().step_by(2).take(4);
        let lines: Vec<Vec<_>> = lines.map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            ["store", "flag", "sqlite:x.db"],
            ["listen", "environment", "env:1"],
            ["workers", "file", "7"],
            ["leaseTtlMs", "default", "30000"],
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_idle_connection_lives_as_long_as_the_page_says() {
        let default = load("", &[]).unwrap().number("keepAliveMs").unwrap();
        assert_eq!(u128::from(default), crate::listen::IDLE.as_millis());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (file, said) in [
            ("stor = \"x\"", "`stor` is not a setting"),
            ("workspace = 1", "`workspace` must be a name, got 1"),
            ("workflow = 1", "`[[workflow]]`, got 1"),
            ("flow = 1", "`[[flow]]`, got 1"),
            ("a =", "is not valid TOML"),
        ] {
            let error = format!("{:#}", load(file, &[]).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
        let config = load("workers = \"many\"", &[]).unwrap();
        let error = config.number("workers").unwrap_err().to_string();
        assert_eq!(error, "`workers` must be a whole number, got `many` (from: file)");
    }

    #[test]
    fn a_files_app_is_that_of_its_workflows() {
        let file = "app = \"shop\"\n[[workflow]]\nname = \"a\"\n[[workflow]]\napp = \"b\"";
        let config = load(file, &[]).unwrap();
        let apps: Vec<_> = config.workflows.iter().map(|it| it["app"].clone()).collect();
        assert_eq!(apps, ["shop", "b"]);
    }

    #[test]
    fn variables_are_spelled_as_such_and_passwords_are_not_shown() {
        assert_eq!(variable("leaseTtlMs"), "TIDEGATE_LEASE_TTL_MS");
        assert_eq!(variable("postgres.listenUrl"), "TIDEGATE_POSTGRES_LISTEN_URL");
        assert_eq!(hide_password("postgres://me:secret@db/x"), "postgres://me:***@db/x");
        assert_eq!(hide_password("postgres://me@db/x"), "postgres://me@db/x");
        assert_eq!(
            hide_password("postgres://db/x?user=me&password=secret&sslmode=disable"),
            "postgres://db/x?user=me&password=***&sslmode=disable"
        );
        let printed = load("[postgres]\nlistenUrl = \"postgres://me:secret@db/x\"", &[]).unwrap();
        assert!(printed.print().contains("postgres://me:***@db/x"));
    }
}
