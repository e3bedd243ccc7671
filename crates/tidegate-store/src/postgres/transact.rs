//! Runs a transaction: reads under lock, decides, writes and commits, and retries after failures.

use std::time::Instant;

use tidegate_core::{
    reads::{Change, ReadSet, Snapshot},
    row::RowKey,
};

use super::{
    Shared,
    call::Call,
    connection::{Connection, first_error},
    error::Trouble,
    pool::{Lent, Retries},
    reading::{Held, Reading, Touch, load_catalogs},
    sql,
    token::{Outcome, TokenRow, outcome},
    writing::Writing,
};
use crate::{Decide, Decision, MAX_ROUNDS, StoreError, catalogs::Redefined};

/// Runs one transaction, with as many attempts as needed.
pub(super) async fn transact(
    shared: &Shared,
    reads: ReadSet,
    decide: Decide,
) -> Result<(), StoreError> {
    let mut retries = Retries::new(shared.settings.options.patience);
    let mut attempt = Attempt::new(shared, Ground::Own, reads, decide);
    loop {
        let mut row = shared.tokens.take(&shared.committers).await?;
        let trouble = match shared.committers.lend().await {
            Ok(lent) => match attempt.run(&lent.connection, &mut row).await {
                Ok(()) => {
                    shared.committers.give_back(lent);
                    shared.tokens.give_back(row);
                    return Ok(());
                }
                Err(trouble) => {
                    shared.committers.give_back_after(lent, &trouble).await;
                    trouble
                }
            },
            Err(trouble) => trouble,
        };
        match trouble {
            Trouble::InDoubt(reason) => {
                if outcome(shared, row, attempt.token, &reason).await? == Outcome::Committed {
                    return Ok(());
                }
                retries.after(Trouble::Lost(reason)).await?;
            }
            Trouble::Unnamed(_) => retries.after(trouble).await?,
            Trouble::Contended(_) | Trouble::Clash(..) | Trouble::Lost(_) | Trouble::Refused(_) => {
                shared.tokens.give_back(row);
                retries.after(trouble).await?;
            }
        }
    }
}

/// Records a transactional step in the step's own transaction, and commits both together.
///
/// After contention, rolls back to the savepoint and tries again. Any other error rolls back the
/// step's writes, too, and the caller has to run the step again.
pub(super) async fn transact_in_step(
    shared: &Shared,
    lent: Lent,
    reads: ReadSet,
    decide: Decide,
) -> Result<(), StoreError> {
    let mut row = match shared.tokens.take(&shared.committers).await {
        Ok(row) => row,
        Err(error) => {
            shared.steps.undo(lent).await;
            return Err(error);
        }
    };
    let mut retries = Retries::new(shared.settings.options.patience);
    let mut attempt = Attempt::new(shared, Ground::Step, reads, decide);
    let trouble = loop {
        match attempt.run(&lent.connection, &mut row).await {
            Ok(()) => {
                shared.steps.give_back(lent);
                shared.tokens.give_back(row);
                return Ok(());
            }
            Err(trouble @ (Trouble::Contended(_) | Trouble::Clash(..))) => {
                if let Err(error) = retries.after(trouble).await {
                    break error.into();
                }
            }
            Err(trouble) => break trouble,
        }
    };
    if let Trouble::InDoubt(reason) = trouble {
        // Closes the connection: the server then ends the transaction if it is still open.
        drop(lent);
        return match outcome(shared, row, attempt.token, &reason).await? {
            Outcome::Committed => Ok(()),
            Outcome::Aborted => Err(StoreError::Unavailable(reason)),
        };
    }
    shared.steps.give_back_after(lent, &trouble).await;
    if !matches!(trouble, Trouble::Lost(_) | Trouble::Unnamed(_)) {
        // The token row is given back only here. After a lost connection its server process may
        // still lock the row for a while, so it is not used again and deleted later.
        shared.tokens.give_back(row);
    }
    Err(trouble.into_error())
}

/// Whether the transaction is the store's own or that of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// The store began the transaction.
    Own,
    /// The transaction is that of a step. The store's part begins at a savepoint.
    Step,
}

/// A transaction with the state that is kept from one attempt to the next.
struct Attempt<'a> {
    shared: &'a Shared,
    ground: Ground,
    /// The rows to read. Rows are added whenever the decision needs more.
    reads: ReadSet,
    decide: Decide,
    rounds: usize,
    /// Token of the transaction for which COMMIT was last sent.
    token: i64,
}

/// Outcome of a try without an error.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Committed,
    /// The transaction must start again, because it needs a lock that comes before a held one in
    /// the lock order.
    Again,
}

/// Maximum number of tries on one connection without a pause. Each try reads more rows than the
/// previous one. If that is not enough, other transactions change the rows too often, and a pause
/// is needed.
const MAX_REPEATS: usize = 2 * MAX_ROUNDS;

impl<'a> Attempt<'a> {
    fn new(shared: &'a Shared, ground: Ground, reads: ReadSet, decide: Decide) -> Self {
        Self { shared, ground, reads, decide, rounds: 0, token: 0 }
    }

    async fn run(&mut self, connection: &Connection, row: &mut TokenRow) -> Result<(), Trouble> {
        for repeat in 0..MAX_REPEATS {
            match self.once(connection, row, repeat > 0).await? {
                End::Committed => return Ok(()),
                End::Again => {}
            }
        }
        Err(Trouble::Contended("the rows to lock were changed before every try".into()))
    }

    async fn once(
        &mut self,
        connection: &Connection,
        row: &mut TokenRow,
        again: bool,
    ) -> Result<End, Trouble> {
        let mut held = Held::default();
        let mut snapshot = Snapshot::default();
        snapshot.hold(&self.reads.latches);
        let mut reading = Reading::new(&self.reads, Touch::Lock)?;
        match self.ground {
            Ground::Own => reading.begin(&self.shared.settings, &self.reads),
            Ground::Step => reading.begin_in_step(self.shared.steps.settings(), &self.reads),
        }
        if again && self.ground == Ground::Own {
            reading.leave_last();
        }
        loop {
            let catalogs = &self.shared.catalogs;
            reading.run(connection, catalogs, &mut snapshot, &mut held).await?;
            let stale = std::mem::take(&mut held.stale);
            load_catalogs(connection, catalogs, stale, &mut snapshot).await?;
            let (more, back) = match (self.decide)(snapshot) {
                Decision::Apply(changes) => {
                    return self.apply(connection, row, changes, &held).await;
                }
                Decision::Need(more, back) => (more, back),
            };
            self.rounds += 1;
            if self.rounds >= MAX_ROUNDS {
                return Err(StoreError::TooManyRounds.into());
            }
            let fresh = beyond(&more, &self.reads);
            self.reads.merge(more);
            if !sorts_after(&fresh, &held) {
                return Ok(End::Again);
            }
            reading = Reading::new(&fresh, Touch::Lock)?;
            snapshot = back;
        }
    }

    async fn apply(
        &mut self,
        connection: &Connection,
        row: &mut TokenRow,
        changes: Vec<Change>,
        held: &Held,
    ) -> Result<End, Trouble> {
        let redefined = Redefined::by(&changes);
        let writing = Writing::new(changes, held)?;
        if writing.is_empty() {
            // Nothing is written. A COMMIT would wait for the disk all the same, because locks are
            // recorded there.
            connection.control(sql::ROLLBACK).await?;
            return Ok(End::Committed);
        }
        let unlocked = writing.unlocked(held);
        if !unlocked.is_empty() {
            self.reads.merge(unlocked);
            return Ok(End::Again);
        }
        match self.commit(connection, row, writing.calls()?).await {
            Ok(()) => {
                self.shared.catalogs.follow(redefined);
                Ok(End::Committed)
            }
            Err(Trouble::Clash(table, reason)) => {
                // Another transaction has inserted the row. The next try locks and reads it.
                tracing::debug!(%reason, "unique conflict, retrying");
                self.reads.merge(writing.inserted(table));
                Ok(End::Again)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Writes and commits in one flight. If the connection is lost after the flight was sent, the
    /// outcome is unknown.
    async fn commit(
        &mut self,
        connection: &Connection,
        row: &mut TokenRow,
        mut calls: Vec<Call>,
    ) -> Result<(), Trouble> {
        let begun = Instant::now();
        let (token, name) = row.name();
        calls.push(name);
        if self.ground == Ground::Step {
            // The writes are sent in a flight without COMMIT: with COMMIT in the same flight, a
            // failed statement would also roll back the step's writes.
            first_error(connection.run(&std::mem::take(&mut calls)).await?)?;
        }
        calls.push(Call::new(sql::COMMIT, Vec::new()));
        connection.prepare(&calls).await?;
        self.token = token;
        connection.fly(&calls).await.and_then(first_error).map_err(in_doubt)?;
        row.written_since(begun);
        Ok(())
    }
}

fn in_doubt(trouble: Trouble) -> Trouble {
    if let Trouble::Lost(reason) = trouble { Trouble::InDoubt(reason) } else { trouble }
}

/// Returns the reads of `more` that are not in `reads`.
fn beyond(more: &ReadSet, reads: &ReadSet) -> ReadSet {
    let mut fresh = more.clone();
    fresh.latches.retain(|latch, mode| reads.latches.get(latch).is_none_or(|held| held < mode));
    fresh.catalogs.retain(|ws| !reads.catalogs.contains(ws));
    fresh.rows.retain(|key| !reads.rows.contains(key));
    fresh.scans.retain(|scan, limit| reads.scans.get(scan).is_none_or(|read| read < limit));
    fresh.counts.retain(|count, limit| reads.counts.get(count).is_none_or(|read| read < limit));
    fresh
}

/// Returns whether all locks that the new reads need come after all held locks in the lock order.
///
/// Scans that skip locked rows never wait, so they are allowed at any time.
fn sorts_after(fresh: &ReadSet, held: &Held) -> bool {
    let after = |key: &RowKey| held.locked.last().is_none_or(|last| last < key);
    let rows = fresh.rows.iter().filter(|key| key.is_locked()).all(after);
    let lines = fresh.scans.keys().any(|scan| super::scans::line(scan, 0).is_some());
    let first_run = RowKey::Run(tidegate_core::id::Seq(i64::MIN));
    fresh.latches.is_empty() && rows && (!lines || after(&first_run))
}
