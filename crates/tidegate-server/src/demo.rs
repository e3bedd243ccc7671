//! `tidegate demo`: a small world that is alive, to be watched in the console.
//!
//! The engine, the server and the clock are real; only the work is made up. What is in the world
//! is under `world/`, a theme a file.

mod chance;
mod judge;
mod ledger;
mod town;
mod world;

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use tidegate::{
    DEFAULT_WORKSPACE, Engine, Retention,
    store::{SqliteStore, SystemClock},
};
use tokio::sync::watch;

use self::{judge::Seen, ledger::Ledger, town::Town};
use crate::{
    call::{Calls, Private},
    http::{self, Access, App},
    listen::{self, Routes},
    metrics, serve,
};

/// How long what is over is kept, so that a demo that runs for days stays small.
const KEPT: Duration = Duration::from_mins(10);

/// In less time not everything has happened that there is to judge.
const SHORTEST: Duration = Duration::from_secs(5);

/// How long the world may take to come to rest once nobody asks anything any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// What the demo is asked for.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// The address and port to listen at; port 0 is any that is free.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Opens no browser.
    #[arg(long)]
    no_open: bool,
    /// Runs for a while without a browser, prints what became of everything and whether the
    /// promises were kept, and fails if one was not.
    #[arg(long)]
    headless: bool,
    /// For how long, such as 30s or 2m.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "30s")]
    #[arg(requires = "headless")]
    time: Duration,
    /// What all chance of the traffic is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A time as people write it.
fn time(text: &str) -> Result<Duration, String> {
    let unit = |text: &str| match text {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(60 * 60),
        _ => None,
    };
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (text[..at].parse::<u32>().ok(), unit(&text[at..]));
    let seconds = number.zip(unit).map(|(number, unit)| u64::from(number) * unit);
    let time = seconds.map(Duration::from_secs).filter(|time| *time >= SHORTEST);
    let wrong =
        || format!("must be a number of s, m or h, such as 30s, and 5s or more, got `{text}`");
    time.ok_or_else(wrong)
}

/// Runs the demo until it is told to stop, or its time is over.
pub(crate) async fn run(demo: Demo, out: &mut impl Write) -> anyhow::Result<()> {
    metrics::install();
    let folder = Folder::new()?;
    let listener = serve::bind(&demo.listen, false).await?;
    let server = format!("http://{}", listener.local_addr()?);
    let ([engine, printer], ledger) = begin(&demo, &folder).await?;
    let access = Arc::new(Access::new(vec![DEFAULT_WORKSPACE.into()], true));
    let ways = Arc::new(world::ways()?);
    let app = App {
        engine: engine.clone(),
        access,
        ways,
        requests: http::Underway::default(),
        demo: true,
    };
    // Open pages follow it for ever: it does not wait for them at the end.
    let answering = tokio::spawn(listen::serve(
        listener,
        Routes::to(http::router(app)),
        listen::IDLE,
        std::future::pending(),
    ));
    let (close, closing) = watch::channel(false);
    let http = reqwest::Client::builder().no_proxy().build()?;
    let town = Town { engine: engine.clone(), ledger, server, http, seed: demo.seed, closing };
    let mut signals = serve::Signals::listen();
    let lived = tokio::select! {
        lived = live(&demo, &town, &close, out) => lived,
        () = signals.next() => stopped(&demo),
    };
    answering.abort();
    tokio::join!(engine.shutdown(), printer.shutdown());
    lived
}

/// Has the world be asked things, for ever or for as long as it is said.
async fn live(
    demo: &Demo,
    town: &Town,
    close: &watch::Sender<bool>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if demo.headless {
        return judge(town, close, demo.time, out).await;
    }
    let said = format!(
        "The demo is alive at {}\n\
         Its data is in a temporary folder, and goes with it. Ctrl-C stops it.\n",
        town.server
    );
    // A demo does not end because nobody reads what it says.
    let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
    if !demo.no_open {
        open(&town.server);
    }
    world::traffic(town).join_all().await;
    Ok(())
}

/// To be stopped by hand is how a demo ends, but for one that was to judge.
fn stopped(demo: &Demo) -> anyhow::Result<()> {
    if demo.headless {
        bail!("it was stopped before its time");
    }
    Ok(())
}

/// Starts the engine that has the world's code, and the printer beside it.
async fn begin(demo: &Demo, folder: &Folder) -> anyhow::Result<([Engine; 2], Arc<Ledger>)> {
    let store = SqliteStore::open(folder.0.join("demo.db"), Arc::new(SystemClock)).await?;
    let (store, ledger) = (Arc::new(store), Ledger::new());
    let mut builder = world::serve(Engine::builder(store.clone()), &ledger);
    if !demo.headless {
        builder = builder.retention(Retention { runs: KEPT, events: KEPT, receipts: KEPT });
    }
    // Workflows that somebody defines while it runs are called by URL, as on any server.
    let calls = Calls::new(Private::Loopback, Duration::from_secs(30), Vec::new())?;
    let engine = builder
        .handler_resolver(move |definition| calls.handler_resolver(definition))
        .start()
        .await?;
    let printer = world::printer::start(store, &ledger).await?;
    Ok(([engine, printer], ledger))
}

/// Lets the world live for a while and come to rest, and holds it against its promises.
async fn judge(
    town: &Town,
    close: &watch::Sender<bool>,
    time: Duration,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let traffic = world::traffic(town);
    tokio::time::sleep(time).await;
    close.send_replace(true);
    traffic.join_all().await;
    let closed = Instant::now();
    let (seen, checks) = loop {
        world::orders::mend(town).await?;
        let seen = Seen::look(&town.engine, &town.ledger).await?;
        let checks = seen.checks();
        if checks.iter().all(|check| check.holds) || closed.elapsed() > PATIENCE {
            break (seen, checks);
        }
        tokio::time::sleep(LOOK).await;
    };
    seen.print(out)?;
    writeln!(out)?;
    for check in &checks {
        let word = if check.holds { "kept  " } else { "BROKEN" };
        writeln!(out, "{word}  {}", check.what)?;
    }
    let broken = checks.iter().filter(|check| !check.holds).count();
    if broken > 0 {
        bail!("{broken} of {} promises were broken; the seed was {}", checks.len(), town.seed);
    }
    Ok(())
}

/// A folder that is there for as long as the demo.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("there is no chance to be had")?;
        let name = format!("tidegate-demo-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        let made = std::fs::create_dir(&path);
        made.with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Shows an address in a browser, where there is somebody to see it.
fn open(address: &str) {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mac = cfg!(target_os = "macos");
    let screen = mac || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(is_set);
    if !screen || ["SSH_CONNECTION", "SSH_TTY"].iter().any(is_set) {
        return;
    }
    let program = if mac { "open" } else { "xdg-open" };
    let mut browser = Command::new(program);
    let quiet = browser.arg(address).stdin(Stdio::null()).stdout(Stdio::null());
    // Without a browser there is still the address to be read.
    let _ = quiet.stderr(Stdio::null()).spawn();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(super::time("8s"), Ok(Duration::from_secs(8)));
        assert_eq!(super::time("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(super::time("1h"), Ok(Duration::from_hours(1)));
        for wrong in ["", "8", "s", "-1s", "8 s", "8d", "4s", "99999999999s"] {
            let said = super::time(wrong).unwrap_err();
            assert!(said.ends_with(&format!("5s or more, got `{wrong}`")), "{said}");
        }
    }
}
