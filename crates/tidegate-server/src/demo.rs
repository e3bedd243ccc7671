//! `tidegate demo`: a demo with live traffic, to watch in the console.
//!
//! The engine, the server and the clock are real; only the work is simulated. The workflows and
//! their traffic are under `world/`, one file per theme.

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
use tidegate::{DEFAULT_WORKSPACE, Engine, Retention};
use tidegate_store::{SqliteStore, SystemClock};
use tokio::sync::watch;

use self::{judge::Seen, ledger::Ledger, town::Town};
use crate::{
    call::{Calls, Private},
    http::{self, Access, App},
    inngest::Inngest,
    listen::{self, Routes},
    metrics, serve,
};

/// Retention of ended runs, events and receipts, so that a demo that runs for days stays small.
const KEPT: Duration = Duration::from_mins(10);

/// Minimum of `--for`: in less time there would be no data for some checks.
const SHORTEST: Duration = Duration::from_secs(5);

/// Maximum time to wait for all runs to end after the traffic has stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval at which the demo checks whether all runs have ended.
const LOOK: Duration = Duration::from_millis(500);

/// The arguments of the demo.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Address and port to listen on; port 0 means any free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Do not open a browser.
    #[arg(long)]
    no_open: bool,
    /// Run for a while without a browser, print the counts of each workflow and the result of each
    /// check, and fail if a check fails.
    #[arg(long)]
    headless: bool,
    /// How long to run, such as 30s or 2m.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "30s")]
    #[arg(requires = "headless")]
    time: Duration,
    /// Seed of the random traffic.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Parses a duration such as `30s`.
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

/// Runs the demo until a signal stops it, or its time is over.
pub(crate) async fn run(demo: Demo, out: &mut impl Write) -> anyhow::Result<()> {
    metrics::install();
    let folder = Folder::new()?;
    let listener = serve::bind(&demo.listen, false).await?;
    let server = format!("http://{}", listener.local_addr()?);
    let ([engine, printer], ledger) = begin(&demo, &folder).await?;
    let access = Arc::new(Access::new(vec![DEFAULT_WORKSPACE.into()], true));
    let ways = Arc::new(world::ways()?);
    let calls = Calls::new(Private::Loopback, Duration::from_secs(30), Vec::new())?;
    let app = App {
        engine: engine.clone(),
        access,
        ways,
        inngest: Inngest::without_apps(calls),
        requests: http::Underway::default(),
        demo: true,
    };
    // Open console pages keep their connections forever, so the shutdown does not wait for
    // connections to close.
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

/// Generates the traffic, forever or for the given time.
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
        "demo running at {}\n\
         its data is in a temporary folder, deleted at the end; Ctrl-C stops it\n",
        town.server
    );
    // A write error is ignored: output that is not read must not end the demo.
    let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
    if !demo.no_open {
        open(&town.server);
    }
    world::traffic(town).join_all().await;
    Ok(())
}

/// Returns the result of a demo that a signal stopped: success, but an error if it is headless,
/// because its checks did not run.
fn stopped(demo: &Demo) -> anyhow::Result<()> {
    if demo.headless {
        bail!("stopped before the checks");
    }
    Ok(())
}

/// Starts the engine with the workflows of the demo, and the printer as a second engine.
async fn begin(demo: &Demo, folder: &Folder) -> anyhow::Result<([Engine; 2], Arc<Ledger>)> {
    let store = SqliteStore::open(folder.0.join("demo.db"), Arc::new(SystemClock)).await?;
    let (store, ledger) = (Arc::new(store), Ledger::new());
    let mut builder = world::serve(Engine::builder(store.clone()), &ledger);
    if !demo.headless {
        builder =
            builder.retention(Retention { runs: KEPT, events: KEPT, receipts: KEPT, audit: KEPT });
    }
    // Workflows that a user defines in the running demo are called by URL, as on any server.
    let calls = Calls::new(Private::Loopback, Duration::from_secs(30), Vec::new())?;
    let engine = builder
        .handler_resolver(move |definition| calls.handler_resolver(definition))
        .start()
        .await?;
    let printer = world::printer::start(store, &ledger).await?;
    Ok(([engine, printer], ledger))
}

/// Runs the traffic for a while, waits for all runs to end, and checks the results.
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
        let word = if check.holds { "ok    " } else { "BROKEN" };
        writeln!(out, "{word}  {}", check.what)?;
    }
    let broken = checks.iter().filter(|check| !check.holds).count();
    if broken > 0 {
        bail!("{broken} of {} checks failed; the seed was {}", checks.len(), town.seed);
    }
    Ok(())
}

/// A temporary folder. It is deleted when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("no random bytes from the operating system")?;
        let name = format!("tidegate-demo-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        let made = std::fs::create_dir(&path);
        made.with_context(|| format!("{} cannot be created", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If the folder cannot be removed, it stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a URL in a browser, if this machine has a display.
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
    // Without a browser, the user can still read the printed URL.
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
