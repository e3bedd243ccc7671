//! Connection that sends several statements in one flight (a pipeline, see `mod.rs`).

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_core::Stream;
use tokio::{sync::watch, task::AbortHandle};
use tokio_postgres::{AsyncMessage, Client, Row, Statement, types::Type};

use super::{
    Settings,
    call::{self, Call, Param},
    error::Trouble,
    flight::Flight,
    sql,
};
use crate::StoreError;

/// Connection to the server, with the task that drives it. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    driver: AbortHandle,
    /// Channel that is closed when the driver task ends.
    gone: watch::Receiver<()>,
    /// Prepared statements by text. `None` behind a pooler, because the next statement may go to
    /// another server connection, on which it is not prepared.
    prepared: Option<Mutex<HashMap<&'static str, Statement>>>,
    round_trip: Duration,
    flight: Arc<Flight>,
    /// Whether statements that are sent together share one Sync message. They do not behind a
    /// pooler, which detects a disconnected client late, nor in the transaction of a step, which
    /// rolls back to its savepoint.
    merges: bool,
    /// Whether a commit since the last flight was answered before the synchronous standby had it.
    unreplicated: Arc<AtomicBool>,
}

/// Function of the server that waits for synchronous standbys. If an administrator or a timeout
/// ends that wait early, the server sends a warning and answers the commit as done. The warning is
/// recognized by this name, because its text depends on the server's language.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";

/// Answer to each statement of a flight.
pub(super) type Answers = Vec<Result<Vec<Row>, tokio_postgres::Error>>;

type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to the server. Fails if the server is unsuitable, for example if it may lose
    /// commits.
    ///
    /// `heard` is called for every notification.
    pub(super) async fn open(
        settings: &Settings,
        heard: impl Fn() + Send + 'static,
    ) -> Result<Self, Trouble> {
        let flight = Arc::<Flight>::default();
        let (client, mut driven) = settings.connect(flight.clone()).await?;
        let (here, gone) = watch::channel(());
        let unreplicated = Arc::new(AtomicBool::new(false));
        let noted = unreplicated.clone();
        let task = tokio::spawn(async move {
            let _here = here;
            loop {
                match poll_fn(|cx| driven.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(_))) => heard(),
                    Some(Ok(AsyncMessage::Notice(notice))) => {
                        if notice.routine() == Some(STANDBY_WAIT) {
                            noted.store(true, Ordering::Release);
                        }
                        tracing::debug!(message = notice.message(), "notice from the database");
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a connection to the database ended");
                        return;
                    }
                    None => return,
                }
            }
        });
        let connection = Self {
            client,
            driver: task.abort_handle(),
            gone,
            prepared: (!settings.options.pooler).then(Mutex::default),
            round_trip: settings.options.round_trip_timeout,
            merges: !settings.options.pooler && flight.merges(),
            flight,
            unreplicated,
        };
        connection.greet(settings).await?;
        Ok(connection)
    }

    async fn greet(&self, settings: &Settings) -> Result<(), Trouble> {
        self.be_answered().await?;
        let mut calls = vec![Call::new(sql::own().server_check, Vec::new())];
        calls.extend(settings.for_session());
        let mut answers = self.run_unnamed(&calls).await?.into_iter();
        // Checked before the other answers: on an unsuitable server the settings may fail, too.
        let check = answers.next().ok_or_else(|| Trouble::lost("no answer after connecting"))??;
        settings.check_server(only(&check)?)?;
        first_error(answers.collect()).map(|_| ())
    }

    /// Waits until the server has answered everything that was sent. The driver does not wait for
    /// the last message after a preparation, nor after its own query on connecting. If that message
    /// arrived later, it would be taken for an answer to the next flight.
    async fn be_answered(&self) -> Result<(), Trouble> {
        Ok(self.in_time(self.client.check_connection()).await??)
    }

    /// Sends all statements at once and waits for all answers.
    ///
    /// The error of a statement is in its answer. The statements after it fail, too. If the flight
    /// was merged or ends with COMMIT, the transaction is then rolled back. This function itself
    /// fails if the connection is lost, or if the COMMIT at the end has rolled back.
    pub(super) async fn run(&self, calls: &[Call]) -> Result<Answers, Trouble> {
        self.prepare(calls).await?;
        self.fly(calls).await
    }

    /// Like [`Connection::run`], but does not prepare the statements.
    pub(super) async fn run_unnamed(&self, calls: &[Call]) -> Result<Answers, Trouble> {
        self.send(calls, Sending::Unnamed).await
    }

    /// Sends statements that are already prepared, all at once, and waits for all answers.
    pub(super) async fn fly(&self, calls: &[Call]) -> Result<Answers, Trouble> {
        self.send(calls, Sending::Named).await
    }

    /// Runs several statements without parameters.
    pub(super) async fn script(&self, statements: &str) -> Result<(), Trouble> {
        self.client.batch_execute(statements).await.map_err(Trouble::from)
    }

    /// Runs a single control statement, such as `rollback`.
    pub(super) async fn control(&self, statement: &'static str) -> Result<(), Trouble> {
        let answers = self.run(&[Call::new(statement, Vec::new())]).await?;
        first_error(answers).map(|_| ())
    }

    /// Prepares, in one flight, the statements that are not yet prepared on this connection. This
    /// is done before any of them is sent: a statement that waited for its preparation would be
    /// sent after later statements.
    pub(super) async fn prepare(&self, calls: &[Call]) -> Result<(), Trouble> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        let missing: BTreeMap<&'static str, &Call> = {
            let statements = locked(prepared);
            // Each text is prepared once: the driver would drop a duplicate, and would send a
            // message for that in the middle of a flight.
            calls
                .iter()
                .filter(|call| !sql::is_control(call.sql))
                .filter(|call| !statements.contains_key(call.sql))
                .map(|call| (call.sql, call))
                .collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let preparing = missing.values().map(|call| -> Answering<'_, _> {
            let kinds: Vec<Type> = call.params.iter().map(Param::kind).collect();
            Box::pin(async move { self.client.prepare_typed(call.sql, &kinds).await })
        });
        let statements = self.in_time(all(preparing.collect())).await?;
        self.be_answered().await?;
        let mut failed = None;
        for (sql, statement) in missing.into_keys().zip(statements) {
            match statement {
                Ok(statement) => drop(locked(prepared).insert(sql, statement)),
                // Only the first error is returned: the later statements fail because of it.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Runs a statement without parameters and calls `show` for each row, one row at a time.
    pub(super) async fn each(
        &self,
        sql: &'static str,
        mut show: impl FnMut(&Row) -> Result<(), StoreError>,
    ) -> Result<(), Trouble> {
        let none: [(&str, Type); 0] = [];
        let rows = self.client.query_typed_raw(sql, none);
        let mut rows = pin!(self.in_time(rows).await??);
        while let Some(row) = self.in_time(poll_fn(|cx| rows.as_mut().poll_next(cx))).await? {
            show(&row?)?;
            // While rows are already received, this loop never waits; this lets other tasks run.
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    async fn send(&self, calls: &[Call], sending: Sending) -> Result<Answers, Trouble> {
        let commits = calls.last().is_some_and(|call| call.sql == sql::COMMIT);
        let merged = self.merges && can_merge(calls);
        if merged {
            // COMMIT gets its own Sync, so that the server runs it after a failed statement, too,
            // and ends the transaction.
            self.flight.announce(calls.len() - usize::from(commits));
        }
        let flight = calls.iter().map(|call| self.answer(call, sending)).collect();
        let answers: Answers = match self.in_time(all_or_unsent(flight)).await? {
            Ok(answers) => answers,
            Err(unsent) => {
                // The connection is closed, because the server waits for statements of the flight
                // that are never sent.
                self.driver.abort();
                return Err(unsent);
            }
        };
        let closed = |answer: &Result<_, tokio_postgres::Error>| {
            answer.as_ref().err().filter(|error| error.is_closed()).map(ToString::to_string)
        };
        if let Some(reason) = answers.iter().find_map(closed) {
            return Err(Trouble::Lost(reason.into()));
        }
        if self.unreplicated.swap(false, Ordering::Acquire) {
            // Treated like a lost answer: the server has committed, but without the standby, so a
            // failover may undo the commit.
            return Err(Trouble::lost("the wait for the synchronous standby was cancelled"));
        }
        match answers.iter().any(Result::is_err) {
            // The server has skipped the statements after the failed one, and the transaction is
            // still open.
            true if merged && !commits => {
                self.in_time(self.client.batch_execute(sql::ROLLBACK)).await??;
            }
            false if self.merges && commits && !self.flight.committed() => {
                return Err(Trouble::Contended("COMMIT rolled back the transaction".into()));
            }
            _ => {}
        }
        Ok(answers)
    }

    fn answer<'a>(
        &'a self,
        call: &'a Call,
        sending: Sending,
    ) -> Answering<'a, Result<Vec<Row>, tokio_postgres::Error>> {
        let script = match call.sql {
            sql::COMMIT if !self.merges => Some(sql::COMMIT_IF_INTACT),
            script if sql::SCRIPTS.contains(&script) => Some(script),
            _ => None,
        };
        if let Some(script) = script {
            return Box::pin(async {
                self.client.batch_execute(script).await.map(|()| Vec::new())
            });
        }
        let prepared = match (&self.prepared, sending) {
            (Some(prepared), Sending::Named) => locked(prepared).get(call.sql).cloned(),
            (_, Sending::Named | Sending::Unnamed) => None,
        };
        Box::pin(async move {
            if let Some(statement) = prepared {
                let params: Vec<_> = call.params.iter().map(Param::value).collect();
                return self.client.query(&statement, &params).await;
            }
            let params: Vec<_> =
                call.params.iter().map(|param| (param.value(), param.kind())).collect();
            self.client.query_typed(call.sql, &params).await
        })
    }

    /// Waits for an answer, at most for `round_trip_timeout`: TCP would detect an unreachable
    /// server much later.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Trouble> {
        match tokio::time::timeout(self.round_trip, work).await {
            Ok(done) => Ok(done),
            Err(_) => Err(Trouble::lost("the database did not answer in time")),
        }
    }

    /// Returns the driver's client, for the statements of transactional steps.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits until the connection is closed.
    pub(super) async fn closed(&self) {
        let mut gone = self.gone.clone();
        while gone.changed().await.is_ok() {}
    }
}

/// Whether statements are sent as prepared statements, by name, or as text.
#[derive(Clone, Copy, Debug)]
enum Sending {
    Named,
    Unnamed,
}

/// Returns whether the statements may share a Sync message.
///
/// Until it gets the Sync, the server does not end a transaction for being idle. A process that is
/// suspended must therefore have sent all of a flight or nothing (spec R16), so the whole flight
/// must fit into the buffer of a socket.
fn can_merge(calls: &[Call]) -> bool {
    let size = |call: &Call| call.params.iter().map(Param::size).sum::<usize>();
    calls.iter().all(|call| !sql::SCRIPTS.contains(&call.sql))
        && calls.iter().map(size).sum::<usize>() <= LARGEST_MERGED
}

/// Largest flight that is merged, in bytes of parameters.
const LARGEST_MERGED: usize = 32 << 10;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls all futures once before it waits for any of them. A statement is sent when its future is
/// first polled, so all statements are sent together and in order.
async fn all<T>(mut futures: Vec<Answering<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Like [`all`], but stops at a statement that cannot be sent, so that the later statements, such
/// as COMMIT, are not sent without it. The caller must roll back the transaction.
async fn all_or_unsent<T>(
    mut flight: Vec<Answering<'_, Result<T, tokio_postgres::Error>>>,
) -> Result<Vec<Result<T, tokio_postgres::Error>>, Trouble> {
    let mut sent = Vec::with_capacity(flight.len());
    for statement in &mut flight {
        // The first poll sends the statement. An error that is not from the server means that it
        // could not be sent.
        let first = poll_fn(|cx| Poll::Ready(statement.as_mut().poll(cx))).await;
        match first {
            Poll::Ready(Err(error)) if error.as_db_error().is_none() => return Err(error.into()),
            Poll::Ready(answer) => sent.push(Some(answer)),
            Poll::Pending => sent.push(None),
        }
    }
    let waiting = flight.into_iter().zip(&sent).filter(|(_, answer)| answer.is_none());
    let mut rest = all(waiting.map(|(statement, _)| statement).collect()).await.into_iter();
    Ok(sent.into_iter().filter_map(|answer| answer.or_else(|| rest.next())).collect())
}

/// Returns all answers, or the first error. Later errors only say that the transaction has failed.
pub(super) fn first_error(answers: Answers) -> Result<Vec<Vec<Row>>, Trouble> {
    answers.into_iter().map(|answer| answer.map_err(Trouble::from)).collect()
}

/// Returns the only row of a statement's answer.
pub(super) fn only(rows: &[Row]) -> Result<&Row, StoreError> {
    rows.first().ok_or_else(|| StoreError::Corrupt("a statement answered nothing".into()))
}

/// Returns the number in the only row of a statement's answer.
pub(super) fn only_int(rows: &[Row]) -> Result<i64, StoreError> {
    call::int(only(rows)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement whose parameters cannot be encoded is never sent: the COMMIT that follows it in
    /// the flight must not be sent either.
    #[tokio::test]
    async fn nothing_is_sent_after_a_statement_that_could_not_be() {
        let error = "port=x".parse::<tokio_postgres::Config>().unwrap_err();
        let sent = Mutex::new(Vec::new());
        let make = |name: &'static str, error: Option<tokio_postgres::Error>| -> Answering<'_, _> {
            let sent = &sent;
            Box::pin(async move {
                if let Some(error) = error {
                    return Err(error);
                }
                locked(sent).push(name);
                tokio::task::yield_now().await;
                Ok(name)
            })
        };
        let answers = all_or_unsent(vec![make("begin", None), make("commit", None)]).await;
        let answers: Vec<_> = answers.unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, ["begin", "commit"]);
        locked(&sent).clear();
        let flight = vec![make("begin", None), make("insert", Some(error)), make("commit", None)];
        assert!(all_or_unsent(flight).await.is_err());
        assert_eq!(*locked(&sent), ["begin"]);
    }
}
