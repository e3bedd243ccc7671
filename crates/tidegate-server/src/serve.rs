//! `tidegate serve`: starts the engine, the HTTP API, and what both need.

use std::{io::Write, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate::Engine;
use tidegate_core::{
    action::Flow,
    definition::{Definition, MAX_CALL_TIMEOUT_MS},
    row::Workspace,
};
use tidegate_store::{MemoryStore, PostgresStore, SqliteStore, Store, SystemClock};
use tokio::{net::TcpListener, signal::unix, sync::watch};

use crate::{
    call::Calls,
    config::{Config, Location},
    dev,
    http::{self, Access, App, Underway},
    inngest::{self, Inngest},
    keys,
    listen::{self, Routes},
    metrics, reload,
    sign::Secret,
    watchdog,
};

/// Serves until a signal stops the process. `load` reads the config file again on SIGHUP.
pub(crate) async fn serve(
    config: Config,
    load: impl Fn() -> anyhow::Result<Config> + Send + Sync + 'static,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    metrics::install();
    // Signals are handled first, so that they also stop a server that is waiting for its store.
    let mut signals = Signals::listen();
    let hangups = unix::signal(unix::SignalKind::hangup())?;
    let settings = Settings::read(&config)?;
    let drain = settings.drain;
    let opened = tokio::select! {
        biased;
        () = signals.next() => return stopped_early(),
        opened = open_and_bind(&config) => opened?,
    };
    let Opened { store, keys, listener, second } = opened;
    let at = listener.local_addr()?;
    let routes = Routes::to(http::starting());
    let (stop, stopped) = watch::channel(());
    let until_stopped = |mut stopped: watch::Receiver<()>| async move {
        // The error of a dropped sender is the stop.
        let _ = stopped.changed().await;
    };
    let second_at = second.as_ref().map(TcpListener::local_addr).transpose()?;
    let second = second.map(|second| {
        let until = until_stopped(stopped.clone());
        tokio::spawn(listen::serve(second, routes.clone(), settings.idle, until))
    });
    let until = until_stopped(stopped);
    let serving = tokio::spawn(listen::serve(listener, routes.clone(), settings.idle, until));
    let sdks = settings.inngest.clone();
    let workspaces = settings.workspaces.clone();
    let engine = tokio::select! {
        biased;
        () = signals.next() => return stopped_early(),
        engine = start(store, settings, &config) => engine?,
    };
    let requests = Underway::default();
    watchdog::start(engine.clone(), requests.clone())?;
    let access = Arc::new(Access::new(workspaces, at.ip().is_loopback()));
    let ways = config.ways.clone();
    let app =
        App { engine: engine.clone(), access, ways, inngest: sdks.clone(), requests, demo: false };
    routes.go_on(http::router(app));
    if config.is_dev() {
        dev::greet(out, (at, second_at), &config);
    } else {
        greet(out, at, &config.place(), keys);
    }
    inngest::start(&sdks, &engine);
    let reloads = tokio::spawn(reload::on_hangup(hangups, engine.clone(), config, load));
    signals.drain(&engine, drain).await;
    drop(stop);
    let served = serving.await;
    if let Some(second) = second {
        second.await??;
    }
    reloads.abort();
    engine.shutdown().await;
    // The engine's last wake-up tells other servers about the handed-over runs: wait until it is
    // sent.
    tokio::time::sleep(LAST_WAKE).await;
    tracing::info!("stopped");
    Ok(served??)
}

/// Time to wait for the last wake-up to be sent: several times the interval between wake-ups.
const LAST_WAKE: Duration = Duration::from_millis(50);

/// Result of a stop during startup. Nothing must be handed over: no run has started, and the lease
/// of the new engine expires.
#[expect(clippy::unnecessary_wraps, reason = "the caller returns this value")]
fn stopped_early() -> anyhow::Result<()> {
    tracing::info!("stopped during startup");
    Ok(())
}

/// Settings of the engine. All are read before the store is opened, so that an invalid config file
/// does not create a store.
struct Settings {
    drain: Duration,
    idle: Duration,
    workspaces: Vec<Workspace>,
    lease: Duration,
    workers: usize,
    deaths: u32,
    calls: Calls,
    inngest: Inngest,
}

impl Settings {
    fn read(config: &Config) -> anyhow::Result<Self> {
        let drain = Duration::from_millis(config.within("drainMs", 0, MAX_DRAIN_MS)?);
        let idle = Duration::from_millis(config.within("keepAliveMs", 1, MAX_KEEP_ALIVE_MS)?);
        let workspaces = config.workspaces()?;
        let lease = Duration::from_millis(config.number("leaseTtlMs")?);
        let calls = Calls::new(
            config.text("allowPrivate").parse()?,
            Duration::from_millis(config.within("callTimeoutMs", 1, MAX_CALL_TIMEOUT_MS)?),
            signing_secrets(config.text("signingSecretEnv"))?,
        )?;
        let workers =
            usize::try_from(config.number("workers")?).context("`workers` is too large")?;
        let deaths = u32::try_from(config.number("pauseAfterDeaths")?)
            .context("`pauseAfterDeaths` is too large")?;
        config.check_definitions()?;
        let inngest = Inngest::read(config, calls.clone())?;
        Ok(Self { drain, idle, workspaces, lease, workers, deaths, calls, inngest })
    }
}

struct Opened {
    store: Arc<dyn Store>,
    /// Number of API keys.
    keys: usize,
    listener: TcpListener,
    /// The listener of the setting `inngest.listen`.
    second: Option<TcpListener>,
}

async fn open_and_bind(config: &Config) -> anyhow::Result<Opened> {
    tracing::info!(store = config.place(), "opening the store");
    let store = open(config.location()?).await?;
    let keys = keys::all(&*store).await?.0.len();
    let listener = bind(config.text("listen"), keys > 0).await?;
    let second = match config.text("inngest.listen") {
        "" => None,
        address => Some(bind(address, keys > 0).await?),
    };
    Ok(Opened { store, keys, listener, second })
}

/// Starts the engine and registers the definitions of the config file.
async fn start(
    store: Arc<dyn Store>,
    settings: Settings,
    config: &Config,
) -> anyhow::Result<Engine> {
    let Settings { workspaces, lease, workers, deaths, calls, inngest, .. } = settings;
    let engine = Engine::builder(store)
        .workspaces(workspaces)
        .call_workers(workers)
        .lease_ttl(lease)
        .pause_after_deaths(deaths)
        .handler_resolver(move |definition| {
            inngest.handler_resolver(definition).or_else(|| calls.handler_resolver(definition))
        })
        .start()
        .await?;
    define(&engine, config).await?;
    Ok(engine)
}

/// Prints the address of the server. A write error is ignored, because a closed output must not
/// stop the server.
fn greet(out: &mut impl Write, at: SocketAddr, place: &str, keys: usize) {
    let version = env!("CARGO_PKG_VERSION");
    let who = match keys {
        0 => "no API keys: only requests from this machine are accepted".to_owned(),
        keys => format!("API keys: {keys}; every request needs one"),
    };
    let said = format!("tidegate {version} listening on http://{at}\nstore: {place}\n{who}\n");
    let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
}

/// Returns the secrets with which calls are signed. Empty if the variable is not set.
fn signing_secrets(variable: &str) -> anyhow::Result<Vec<Secret>> {
    let secrets = Secret::read_all(&std::env::var(variable).unwrap_or_default());
    secrets.with_context(|| format!("invalid secrets in {variable}"))
}

/// Registers the definitions of the config file: all, or none with one error that lists every
/// problem. Returns the number of changed definitions.
pub(crate) async fn define(engine: &Engine, config: &Config) -> anyhow::Result<usize> {
    let (workflows, flows) = (config.workflows.len(), config.flows.len());
    let pools = config.pools.len();
    tracing::info!(pools, workflows, flows, "registering definitions");
    // Pools come first, because a definition that uses one is refused without it.
    config.check_definitions()?;
    engine.declare_pools(&config.pools).await?;
    let mut wrong = Vec::new();
    for workflow in &config.workflows {
        wrong.extend(engine.would_define(workflow).await.err());
    }
    for flow in &config.flows {
        wrong.extend(engine.would_define_flow(flow).await.err());
    }
    if !wrong.is_empty() {
        let wrong: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        bail!(wrong.join("\n"));
    }
    log_warnings(config);
    let mut defined = Vec::new();
    let registered = engine.define_all(&config.workflows).await?;
    for (workflow, registered) in config.workflows.iter().zip(registered) {
        let name = workflow["name"].as_str().unwrap_or_default().to_owned();
        defined.push((app(workflow), name, registered));
    }
    for flow in &config.flows {
        let actions = engine.define_flow(flow).await?;
        defined.extend(actions.into_iter().map(|(name, registered)| (app(flow), name, registered)));
    }
    let catalog = http::workflows::catalog(engine).await?;
    let mut changed = 0;
    for (app, name, registered) in defined {
        if !registered.unchanged || registered.released.is_some() {
            changed += 1;
            if changed <= MAX_LOGGED {
                tracing::info!(name, version = registered.version, "defined");
            }
        }
        let current = catalog.entry(app, &name).and_then(|entry| entry.current.as_ref());
        if let Some(held) = current.filter(|it| it.version.number != registered.version) {
            tracing::warn!(
                name,
                app,
                file_version = registered.version,
                released_version = held.version.number,
                "the definition in the file is not the released version; `tidegate release` \
                 releases it"
            );
        }
    }
    if changed > MAX_LOGGED {
        tracing::info!(more = changed - MAX_LOGGED, "defined");
    }
    Ok(changed)
}

/// Maximum number of changed definitions that are logged by name; further ones are only counted.
const MAX_LOGGED: usize = 20;

/// Logs warnings about the definitions of the config file: they are valid, but probably not
/// intended.
fn log_warnings(config: &Config) {
    let workflows = config.workflows.iter().filter_map(|it| Definition::parse(it).ok());
    let workflows = workflows.flat_map(|parsed| parsed.warnings);
    let flows = config.flows.iter().filter_map(|it| Flow::parse(it).ok());
    for warning in workflows.chain(flows.flat_map(|parsed| parsed.warnings)) {
        tracing::warn!(code = warning.code.as_str(), %warning, "definition warning");
    }
}

/// Returns the app of a definition of the config file. Every such definition has one here.
fn app(definition: &Value) -> &str {
    definition["app"].as_str().unwrap_or_default()
}

/// Binds the address to listen on. Without API keys it must be a loopback address.
pub(crate) async fn bind(listen: &str, keys: bool) -> anyhow::Result<TcpListener> {
    let resolved = tokio::net::lookup_host(listen).await;
    let resolved =
        resolved.with_context(|| format!("`listen` must be ADDRESS:PORT, got `{listen}`"))?;
    let addresses: Vec<SocketAddr> = resolved.collect();
    let open = addresses.iter().find(|address| !address.ip().is_loopback());
    if let Some(open) = open.filter(|_| !keys) {
        bail!(
            "`listen` is {open}, which is not a loopback address, and there are no API keys: \
             create one with `tidegate keys create`, or listen on 127.0.0.1"
        );
    }
    let bound = TcpListener::bind(addresses.as_slice()).await;
    bound.with_context(|| format!("cannot listen on {listen}; is another server running?"))
}

/// Opens the store at a location.
pub(crate) async fn open(location: Location) -> anyhow::Result<Arc<dyn Store>> {
    let address = location.address.as_str();
    if address == "memory" {
        return Ok(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
    }
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(Arc::new(SqliteStore::open(path, Arc::new(SystemClock)).await?));
    }
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        return Ok(Arc::new(PostgresStore::open(address, location.postgres).await?));
    }
    bail!("`store` must be sqlite:PATH, a postgres:// URL or memory, got `{address}`")
}

/// Maximum of `drainMs`: an hour. Supervisors allow less time, so a larger value is probably a
/// mistake.
const MAX_DRAIN_MS: u64 = 60 * 60 * 1000;

/// Maximum of `keepAliveMs`: an hour, as for `drainMs`.
const MAX_KEEP_ALIVE_MS: u64 = 60 * 60 * 1000;

/// Signals that stop the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        let signal = |kind| unix::signal(kind).expect("signal handlers can be installed");
        Self {
            terminate: signal(unix::SignalKind::terminate()),
            interrupt: signal(unix::SignalKind::interrupt()),
        }
    }

    /// Waits for SIGTERM or SIGINT.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for a signal, then drains: waits until the active runs have ended. After `time`, or at
    /// a second signal, the remaining runs are handed over.
    async fn drain(&mut self, engine: &Engine, time: Duration) {
        self.next().await;
        tracing::info!(runs = engine.driven(), drain = ?time, "draining; no new runs are started");
        tokio::select! {
            () = engine.hand_over(time) => {}
            () = self.next() => {
                tracing::info!(runs = engine.driven(), "handing over runs immediately");
                engine.hand_over(Duration::ZERO).await;
            }
        }
    }
}
