//! Bare group commit: one writer commits the rows of all waiting callers together.
//!
//! Any engine with durable answers does at least this much work. It is measured on the same machine
//! at the same time as the engine. A caller writes either one row of a plain table, or the same
//! rows that a call of the engine wrote.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::{
    raw::{self, Prepared, Transaction},
    stores::{Bare, Raw},
};

/// The maximum number of callers in one commit.
const MOST: usize = 512;

/// One caller's rows.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// A row of the plain table.
    Plain(i64),
    /// Rows of the store's own tables.
    Rows(Transaction),
}

type Call = (Job, oneshot::Sender<()>);

/// Writes all jobs for `callers` concurrent callers, each of which waits for one job after another.
/// Returns the time that it took.
pub(crate) async fn commit(
    place: &Raw,
    jobs: Vec<Job>,
    callers: usize,
) -> anyhow::Result<Duration> {
    let sink = Sink::new(place.connect().await?, &jobs).await?;
    let (calls, inbox) = mpsc::unbounded_channel::<Call>();
    let serving = match sink {
        // The SQLite store writes on a thread of its own, so this does the same.
        Sink::Sqlite(_) => {
            let runtime = tokio::runtime::Handle::current();
            tokio::task::spawn_blocking(move || runtime.block_on(serve(sink, inbox)))
        }
        Sink::Postgres { .. } => tokio::spawn(serve(sink, inbox)),
    };
    let mut shares: Vec<Vec<Job>> = vec![Vec::new(); callers];
    for (at, job) in jobs.into_iter().enumerate() {
        shares[at % callers].push(job);
    }
    let started = Instant::now();
    let clients: Vec<_> = shares
        .into_iter()
        .map(|share| {
            let calls = calls.clone();
            tokio::spawn(async move {
                for job in share {
                    let (done, answer) = oneshot::channel();
                    calls.send((job, done))?;
                    answer.await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    drop(calls);
    for client in clients {
        client.await??;
    }
    let took = started.elapsed();
    serving.await??;
    Ok(took)
}

async fn serve(mut sink: Sink, mut inbox: mpsc::UnboundedReceiver<Call>) -> anyhow::Result<()> {
    let mut calls = Vec::new();
    while inbox.recv_many(&mut calls, MOST).await > 0 {
        let (jobs, waiting): (Vec<_>, Vec<_>) = calls.drain(..).unzip();
        sink.write(jobs).await?;
        for caller in waiting {
            // The caller still waits for this answer, so the send cannot fail.
            let _ = caller.send(());
        }
    }
    Ok(())
}

enum Sink {
    Sqlite(Box<rusqlite::Connection>),
    Postgres {
        client: Box<tokio_postgres::Client>,
        prepared: Box<Prepared>,
        plain: tokio_postgres::Statement,
    },
}

impl Sink {
    async fn new(bare: Bare, jobs: &[Job]) -> anyhow::Result<Self> {
        Ok(match bare {
            Bare::Sqlite(connection) => {
                connection.execute_batch(PLAIN_SQLITE)?;
                Self::Sqlite(connection)
            }
            Bare::Postgres(client) => {
                client.batch_execute(PLAIN_POSTGRES).await?;
                let rows = jobs.iter().filter_map(|job| match job {
                    Job::Rows(rows) => Some(rows.clone()),
                    Job::Plain(_) => None,
                });
                let prepared = Box::new(Prepared::new(&client, &rows.collect::<Vec<_>>()).await?);
                let plain = client.prepare(PLAIN_MANY).await?;
                Self::Postgres { client: Box::new(client), prepared, plain }
            }
        })
    }

    async fn write(&mut self, jobs: Vec<Job>) -> anyhow::Result<()> {
        let (mut plain, mut rows) = (Vec::new(), Vec::new());
        for job in jobs {
            match job {
                Job::Plain(n) => plain.push(n),
                Job::Rows(of) => rows.push(of),
            }
        }
        let rows = Transaction::merged(rows);
        match self {
            Self::Sqlite(connection) => {
                connection.execute_batch("begin immediate")?;
                raw::execute(connection, &rows)?;
                let mut statement = connection.prepare_cached(PLAIN_ONE)?;
                for n in plain {
                    statement.execute((n, PAD))?;
                }
                connection.execute_batch("commit")?;
            }
            Self::Postgres { client, plain: statement, .. } if rows.rows() == 0 => {
                client.execute(statement, &[&plain, &PAD]).await?;
            }
            Self::Postgres { client, prepared, .. } => {
                prepared.fly(client, &rows, &raw::columns(&rows)).await?;
            }
        }
        Ok(())
    }
}

/// Text that makes a plain row and a payload the same size.
pub(crate) const PAD: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                              xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// Statements that create the plain table and insert one or many rows into it.
pub(crate) const PLAIN_SQLITE: &str =
    "create table if not exists plain (n integer primary key, pad text not null) strict";
pub(crate) const PLAIN_POSTGRES: &str =
    "create table if not exists plain (n bigint primary key, pad text not null)";
pub(crate) const PLAIN_ONE: &str = "insert into plain (n, pad) values ($1, $2)";
pub(crate) const PLAIN_MANY: &str = "insert into plain (n, pad) select unnest($1::bigint[]), $2";
