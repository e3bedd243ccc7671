//! The limits of the machine: rates of syncs, commits and rows, measured without Tidegate code.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    figures::{Figures, ms_since},
    group::{self, Job, PAD, PLAIN_MANY, PLAIN_ONE, PLAIN_POSTGRES, PLAIN_SQLITE},
    stores::{Bare, Kind, Opened, Raw},
};

/// The time for which each limit is measured.
const EACH: Duration = Duration::from_millis(700);

/// The number of rows in a large commit.
const MANY: usize = 500;

/// Returns the name under which the limits of a store are stored in the figures.
pub(crate) fn peer(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "raw-sqlite",
        Kind::Postgres => "raw-pg",
    }
}

/// Measures the limits that all stores share.
pub(crate) fn disk(figures: &mut Figures) -> anyhow::Result<()> {
    let path = std::env::temp_dir().join(tidegate_testkit::postgres::fresh_schema("sync"));
    let mut file = std::fs::File::create(&path)?;
    let (mut each, started) = (Vec::new(), Instant::now());
    while started.elapsed() < EACH {
        let began = Instant::now();
        file.write_all(&[b'x'; 4096])?;
        file.sync_data()?;
        each.push(ms_since(began));
    }
    figures.throughput("raw", "fdatasync", each.len(), started.elapsed(), Value::Null);
    figures.latency("raw", "fdatasync.ms", each);
    std::fs::remove_file(path)?;
    Ok(())
}

/// Measures the limits of one store.
pub(crate) async fn store(figures: &mut Figures, kind: Kind) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let place = opened.into_raw();
    match place.connect().await? {
        Bare::Sqlite(connection) => sqlite(figures, &connection)?,
        Bare::Postgres(client) => postgres(figures, &place, client).await?,
    }
    for callers in [16_u8, 64] {
        let jobs: Vec<Job> = (0..i64::from(callers) * 150).map(|n| Job::Plain(-1 - n)).collect();
        let place = Opened::new(kind).await?.into_raw();
        let n = jobs.len();
        let took = group::commit(&place, jobs, usize::from(callers)).await?;
        figures.throughput(peer(kind), &format!("group.c{callers}"), n, took, Value::Null);
        place.close().await?;
    }
    place.close().await
}

fn sqlite(figures: &mut Figures, connection: &rusqlite::Connection) -> anyhow::Result<()> {
    connection.execute_batch(PLAIN_SQLITE)?;
    let mut next: i64 = 0;
    for (name, rows) in [("commit.c1", 1), ("rows500", MANY)] {
        let (mut each, started) = (Vec::new(), Instant::now());
        while started.elapsed() < EACH {
            let began = Instant::now();
            connection.execute_batch("begin immediate")?;
            let mut statement = connection.prepare_cached(PLAIN_ONE)?;
            for _ in 0..rows {
                next += 1;
                statement.execute((next, PAD))?;
            }
            connection.execute_batch("commit")?;
            each.push(ms_since(began));
        }
        let n = each.len() * rows;
        figures.throughput("raw-sqlite", name, n, started.elapsed(), Value::Null);
        if rows == 1 {
            figures.latency("raw-sqlite", "commit.ms", each);
        }
    }
    Ok(())
}

async fn postgres(
    figures: &mut Figures,
    place: &Raw,
    client: tokio_postgres::Client,
) -> anyhow::Result<()> {
    client.batch_execute(PLAIN_POSTGRES).await?;
    let mut first = 0;
    for connections in [1, 16, 64] {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let Bare::Postgres(client) = place.connect().await? else { continue };
            first += 1_000_000;
            clients.push((client, first));
        }
        let (mut each, started) = (Vec::new(), Instant::now());
        let loops: Vec<_> = clients
            .into_iter()
            .map(|(client, first)| tokio::spawn(one_by_one(client, first)))
            .collect();
        for done in loops {
            each.extend(done.await??);
        }
        let took = started.elapsed();
        let name = format!("commit.c{connections}");
        figures.throughput("raw-pg", &name, each.len(), took, Value::Null);
        if connections == 1 {
            figures.latency("raw-pg", "commit.ms", each);
        }
    }
    let many = client.prepare(PLAIN_MANY).await?;
    let (mut n, started) = (0, Instant::now());
    while started.elapsed() < EACH {
        first += 1_000_000;
        let rows: Vec<i64> = (first..).take(MANY).collect();
        n += rows.len();
        client.execute(&many, &[&rows, &PAD]).await?;
    }
    figures.throughput("raw-pg", "rows500", n, started.elapsed(), Value::Null);
    Ok(())
}

/// Commits one row at a time on one connection, and returns the time of each commit.
async fn one_by_one(client: tokio_postgres::Client, first: i64) -> anyhow::Result<Vec<f64>> {
    let one = client.prepare(PLAIN_ONE).await?;
    let (mut each, started) = (Vec::new(), Instant::now());
    for n in first.. {
        if started.elapsed() >= EACH {
            break;
        }
        let began = Instant::now();
        client.execute(&one, &[&n, &PAD]).await?;
        each.push(ms_since(began));
    }
    Ok(each)
}
