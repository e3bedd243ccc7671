//! The maintenance commands. They open the store themselves and need no server.

use std::{
    fmt::Write as _,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate::Retention;
use tidegate_core::doctor::Report;
use tidegate_store::{Clock, PostgresStore, SqliteLook, SystemClock, check_up, migrate::Migration};

use crate::{
    client::{Remote, get},
    config::{Config, Location},
    exit::Failure,
    http::ReportView,
    serve,
};

/// The maintenance commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Operate {
    /// Check the invariants of a store: through the server or, if a store or config file is given,
    /// by reading the store directly, even while a server uses it.
    Doctor(Place),
    /// Back up a SQLite store to a new file, also while a server uses it, and check the copy.
    Backup {
        /// File to create.
        to: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Restore a SQLite store from a backup. No server may have it open.
    Restore {
        /// File of the backup.
        from: PathBuf,
        /// Restore even if the store has changed since the backup was made.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Migrate a store's schema to the latest version, as `serve` does when it opens it.
    Migrate {
        /// Only list the pending migrations; the exit status is 1 if there are any.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// The store that a command works on.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Store: `sqlite:PATH` or a `postgres://` URL.
    #[arg(long)]
    store: Option<String>,
    /// TOML file with the settings of the server.
    #[arg(long)]
    config: Option<PathBuf>,
}

impl Place {
    fn is_named(&self) -> bool {
        self.store.is_some() || self.config.is_some()
    }

    /// Returns the store's location, found by the same rules as for `serve`.
    fn location(self) -> anyhow::Result<Location> {
        let variable = |name: &str| std::env::var(name).ok();
        let config = self.config.or_else(|| variable("TIDEGATE_CONFIG").map(PathBuf::from));
        let config = Config::load(config.as_deref(), variable, &[("store", self.store)])?;
        config.location()
    }

    /// Returns the file of a SQLite store. For any other store, the error says what to use instead.
    fn file(self, verb: &str, instead: &str) -> anyhow::Result<PathBuf> {
        let address = self.location()?.address;
        match address.strip_prefix("sqlite:") {
            Some(path) => Ok(path.into()),
            None if address == "memory" => bail!("a memory store cannot be {verb}"),
            None => bail!("PostgreSQL has its own tools: {instead}"),
        }
    }
}

/// Runs a command and prints its result.
pub(crate) async fn run(
    remote: &Remote,
    operate: Operate,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (answer, shown, good) = match operate {
        Operate::Doctor(place) => {
            let answer = if place.is_named() {
                json!(ReportView::from(&examine(place.location()?).await?))
            } else {
                get(remote, "/doctor").await?
            };
            let (shown, good) = (show_report(&answer), answer["healthy"] == true);
            (answer, shown, good)
        }
        Operate::Backup { to, place } => {
            let (answer, shown) = back_up(place, &to).await?;
            (answer, shown, true)
        }
        Operate::Restore { from, force, place } => {
            let (answer, shown) = restore(place, &from, force).await?;
            (answer, shown, true)
        }
        Operate::Migrate { check, place } => migrate(place.location()?, check).await?,
    };
    remote.print(out, &answer, &shown)?;
    if good { Ok(()) } else { bail!("the check failed") }
}

async fn examine(location: Location) -> anyhow::Result<Report> {
    let kept_since = Retention::default().runs_kept_since(SystemClock.now());
    if let Some(path) = location.address.strip_prefix("sqlite:") {
        let look = SqliteLook::open(there(Path::new(path))?).await?;
        look.check_file().await?;
        return Ok(check_up(None, kept_since, |visit| look.walk(visit)).await?);
    }
    if let [first, ..] = pending(&location).await? {
        bail!("the schema lacks migration {}; run `tidegate migrate`", first.version);
    }
    let store = serve::open(location).await?;
    Ok(check_up(None, kept_since, |visit| store.walk(visit)).await?)
}

fn show_report(answer: &Value) -> String {
    let mut shown = String::new();
    let list = |name: &str| answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for check in list("checks") {
        let word = if check["holds"] == true { "holds" } else { "BROKEN" };
        let (number, what) = (text(&check["number"]), text(&check["what"]));
        let checked = check["checked"].to_string();
        let _ = writeln!(shown, "{number:<4} {word:<6} {checked:>9}  {what}");
    }
    for finding in list("findings") {
        let _ = writeln!(shown, "{}: {}", text(&finding["number"]), text(&finding["detail"]));
    }
    let _ = writeln!(shown, "{} rows, {} findings", answer["rows"], answer["found"]);
    shown
}

async fn back_up(place: Place, to: &Path) -> anyhow::Result<(Value, String)> {
    let from = place.file(
        "backed up",
        "use `pg_dump --format=custom --schema=tidegate --file=FILE URL`, which may run beside \
         the servers",
    )?;
    if to.exists() {
        bail!("{} exists already; name a new file", to.display());
    }
    say(&format!("copying {}", from.display()));
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let _ = std::fs::remove_file(&part);
    SqliteLook::open(there(&from)?).await?.copy(&part).await?;
    let report = verify(&part).await;
    if report.is_err() {
        // Deletes a copy that failed its check, so that nobody takes it for a backup.
        let _ = std::fs::remove_file(&part);
    }
    let rows = report?;
    for log in ["-wal", "-shm"] {
        let mut name = part.as_os_str().to_owned();
        name.push(log);
        let _ = std::fs::remove_file(name);
    }
    std::fs::rename(&part, to).with_context(|| to.display().to_string())?;
    let bytes = std::fs::metadata(to)?.len();
    let answer = json!({ "file": to.display().to_string(), "bytes": bytes, "rows": rows });
    Ok((answer, format!("{} has {rows} rows in {bytes} bytes, checked\n", to.display())))
}

/// Checks the pages and rows of a copy. Returns the number of rows.
async fn verify(path: &Path) -> anyhow::Result<u64> {
    say(&format!("checking {}", path.display()));
    let report = examine(Location::file(path)).await?;
    match report.findings.first() {
        None => Ok(report.rows),
        Some(finding) => bail!(
            "{} violations found, the first: {}; check the store with \
             `tidegate doctor`",
            report.found,
            finding.text
        ),
    }
}

async fn restore(place: Place, from: &Path, force: bool) -> anyhow::Result<(Value, String)> {
    let to = place.file(
        "restored",
        "stop the servers and use `pg_restore --clean --if-exists --dbname=URL FILE`",
    )?;
    let rows = verify(there(from)?).await?;
    let log = log_of(&to);
    if !force && !to.exists() && log.metadata().is_ok_and(|log| log.len() > 0) {
        bail!(
            "{} is missing, but its log {} still has the last commits: keep a copy of the log if \
             the file may be found again, then add --force",
            to.display(),
            log.display()
        );
    }
    if !force && let Some(changed) = last_change(&to)? {
        let made = std::fs::metadata(from)?.modified()?;
        if changed > made {
            bail!(
                "{} has changed since {} was made, and the changes would be lost: keep a copy with \
                 `tidegate backup`, then add --force",
                to.display(),
                from.display()
            );
        }
    }
    SqliteLook::restore(from, &to).await?;
    let answer = json!({ "file": to.display().to_string(), "rows": rows });
    Ok((answer, format!("{} has the {rows} rows of {}\n", to.display(), from.display())))
}

/// Returns the path of a store's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Returns the time at which a store or its log was last written; `None` if there is no store.
fn last_change(path: &Path) -> anyhow::Result<Option<std::time::SystemTime>> {
    let mut last = None;
    for path in [path, &log_of(path)] {
        match std::fs::metadata(path) {
            Ok(file) => last = last.max(Some(file.modified()?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    Ok(last)
}

pub(crate) async fn pending(location: &Location) -> anyhow::Result<&'static [Migration]> {
    let address = location.address.as_str();
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(SqliteLook::pending_of(there(Path::new(path))?).await?);
    }
    if address == "memory" {
        return Ok(&[]);
    }
    Ok(PostgresStore::pending(address, location.postgres.clone()).await?)
}

async fn migrate(location: Location, check: bool) -> anyhow::Result<(Value, String, bool)> {
    let left = pending(&location).await?;
    if !check {
        // Opening the store applies all pending migrations in one transaction.
        drop(serve::open(location).await?);
    }
    let names: Vec<String> = left.iter().map(|it| format!("{} {}", it.version, it.name)).collect();
    let word = if check { "left" } else { "applied" };
    let shown = if names.is_empty() {
        "the schema is up to date\n".to_owned()
    } else {
        names.iter().fold(String::new(), |shown, name| shown + word + ": " + name + "\n")
    };
    Ok((json!({ word: names }), shown, !check || left.is_empty()))
}

pub(crate) fn there(path: &Path) -> Result<&Path, Failure> {
    if path.exists() {
        return Ok(path);
    }
    Err(Failure::NotFound(format!("there is no file {}", path.display())))
}

/// Prints a progress message to standard error. Standard output is for the result.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
