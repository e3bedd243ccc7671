//! Inngest's SDKs: applications that are written with them run on this server unchanged.
//!
//! An app registers its functions as workflows whose code is remote; the server calls the app for
//! each run, until the function returns. `docs/reference/inngest.md` says what is the same, what
//! differs and what is refused. The engine knows nothing of the protocol: a function is a definition
//! (`function.rs`), and its code a handler.

mod access;
mod api;
mod call;
mod canonical;
mod checkpoint;
mod duration;
mod events;
mod execute;
mod fault;
mod fields;
mod function;
mod group;
mod keys;
mod large;
mod memo;
mod moment;
mod name;
mod opcode;
mod register;
mod signal;
mod sync;
mod wait;

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use reqwest::Url;
use tidegate::Handler;
use tidegate_core::{
    definition::{Definition, Remote},
    row::Workspace,
};

use self::keys::Keys;
pub(crate) use self::{access::routes, sync::start};
use crate::{call::Calls, config::Config};

/// Name of the protocol in definitions.
pub(crate) const PROTOCOL: &str = "inngest";

/// Returns where the code of a definition is, if it is in an app.
fn remote_of(definition: &Definition) -> Option<&Remote> {
    definition.remote.as_ref().filter(|remote| remote.protocol == PROTOCOL)
}

/// What the server knows of SDKs: its keys, and the apps to sync.
#[derive(Clone, Debug)]
pub(crate) struct Inngest {
    keys: Keys,
    calls: Calls,
    apps: Arc<[ConfiguredApp]>,
    reports: Arc<Reports>,
}

/// An app to sync.
#[derive(Clone, Debug, PartialEq)]
struct ConfiguredApp {
    url: Url,
    /// The workspace in which its functions are registered; none means the server's own.
    environment: Option<String>,
}

impl ConfiguredApp {
    /// Reads `URL` or `ENVIRONMENT=URL`.
    fn read(text: &str, served: &[Workspace]) -> anyhow::Result<Self> {
        let named = text.split_once('=').filter(|(name, _)| !name.contains("://"));
        let (environment, url) = named.map_or((None, text), |(name, url)| (Some(name), url));
        let url = Url::parse(url).ok().filter(Url::has_host);
        let url = url.with_context(|| {
            format!("`inngest.apps` must be URLs or ENVIRONMENT=URL, got `{text}`")
        })?;
        let environment = environment.map(str::to_owned);
        if let Some(name) = &environment {
            let is_served = served.iter().any(|ws| **ws == **name);
            anyhow::ensure!(
                is_served,
                "`inngest.apps`: this server has no environment `{name}`: add it to `workspaces`"
            );
        }
        Ok(Self { url, environment })
    }
}

impl Inngest {
    /// Reads the settings. Keys are in environment variables, whose names are settings.
    pub(crate) fn read(config: &Config, calls: Calls) -> anyhow::Result<Self> {
        let variable = |setting: &str| std::env::var(config.text(setting)).unwrap_or_default();
        let [signing, fallback, events] =
            ["signingKeyEnv", "fallbackKeyEnv", "eventKeyEnv"].map(|it| format!("inngest.{it}"));
        let keys = if config.is_dev() {
            Keys::default()
        } else {
            Keys::read(&variable(&signing), &variable(&fallback), &variable(&events))
                .with_context(|| format!("keys of Inngest SDKs in {}", config.text(&signing)))?
        };
        let (apps, served) = (config.list("inngest.apps")?, config.workspaces()?);
        let apps = apps.iter().map(|text| ConfiguredApp::read(text, &served));
        let apps = apps.collect::<anyhow::Result<Vec<_>>>()?.into();
        let reports = Reports { to_terminal: config.is_dev(), last: Mutex::default() };
        Ok(Self { keys, calls, apps, reports: Arc::new(reports) })
    }

    /// Creates the state of a server that syncs no app and has no keys.
    pub(crate) fn without_apps(calls: Calls) -> Self {
        let reports = Reports { to_terminal: false, last: Mutex::default() };
        Self { keys: Keys::default(), calls, apps: Arc::default(), reports: Arc::new(reports) }
    }

    /// Returns the handler of a definition that an SDK has registered.
    pub(crate) fn handler_resolver(&self, definition: &Definition) -> Option<Arc<dyn Handler>> {
        let (calls, keys) = (self.calls.clone(), self.keys.clone());
        execute::handler(&call::Client { calls, keys }, definition)
    }
}

/// Reports about apps: on the terminal of a developer, or in the log. A report is repeated only if
/// it has changed, because apps are synced again and again.
#[derive(Debug)]
struct Reports {
    to_terminal: bool,
    /// The last report about each app or URL.
    last: Mutex<BTreeMap<String, String>>,
}

impl Reports {
    fn say(&self, about: &str, line: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(about).is_some_and(|said| said == line) {
            return;
        }
        last.insert(about.to_owned(), line.to_owned());
        if self.to_terminal {
            // A write error is ignored: output that is not read must not end the server.
            let _ = writeln!(std::io::stdout(), "{line}");
        } else {
            tracing::info!(report = line, "Inngest app");
        }
    }
}
