//! The workloads of `transact`: admission, hand-off and claim, in batches; and a recorder of their
//! changes.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::json;
use tidegate_core::{
    command::{Answer, Command},
    definition::Definition,
    event::NewEvent,
    id::Seq,
    json::Payload,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Run, Workspace},
    run::record::{Record, Then},
    turn::{Claim, Turn},
};
use tidegate_store::{Decide, Decision, SeededCommand, Store, StoreError, commit};
use tokio::sync::watch;

use crate::raw::Transaction;

/// Id of the engine to which all runs are leased.
const ENGINE: EngineId = 7;

/// A store and the commands that put load on it.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    store: Arc<dyn Store>,
    ws: Workspace,
    lane: Seq,
    salt: u64,
}

impl Load {
    /// Registers the only workflow, which allows `limit` runs at once for each key `k`.
    pub(crate) async fn new(store: Arc<dyn Store>, limit: u32) -> Result<Self, StoreError> {
        let definition = json!({ "name": "w", "concurrency": { "limit": limit, "key": "k" } });
        let workflow = Definition::parse(&definition).expect("a good definition").value;
        let ws: Workspace = "default".into();
        let register =
            Command::Register { ws: ws.clone(), workflow: Box::new(workflow), dev: false };
        store.heartbeat(ENGINE, 30_000).await?;
        let mut load = Self { store, ws, lane: Seq(0), salt: 0 };
        if let Some(Answer::Registered(registered)) = load.ask(vec![register]).await?.pop() {
            load.lane = registered.lane;
        }
        Ok(load)
    }

    async fn ask(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let salted: Vec<SeededCommand> = commands
            .into_iter()
            .map(|command| {
                self.salt += 1;
                (command, self.salt)
            })
            .collect();
        let answers = commit(&*self.store, salted).await?;
        Ok(answers.into_iter().map(|answer| answer.expect("no command is refused")).collect())
    }

    /// Starts `n` runs with `keys` different keys: one event per command, `batch` commands per
    /// transaction.
    ///
    /// Two callers take turns: one prepares its commands while the commands of the other are
    /// written.
    pub(crate) async fn admit(
        &mut self,
        n: usize,
        keys: usize,
        batch: usize,
    ) -> Result<Duration, StoreError> {
        let started = Instant::now();
        let callers = [0, 1].map(|turn| {
            let mut caller = Self { salt: self.salt + turn as u64 * (1 << 40), ..self.clone() };
            tokio::spawn(async move {
                for first in (turn * batch..n).step_by(2 * batch) {
                    let posts = (first..n.min(first + batch)).map(|at| caller.post(at, at % keys));
                    let posts = posts.collect();
                    caller.ask(posts).await?;
                }
                Ok::<(), StoreError>(())
            })
        });
        for caller in callers {
            caller.await.expect("a caller does not panic")?;
        }
        Ok(started.elapsed())
    }

    /// Starts `n` runs that wait at one gate: its only slot is never freed.
    pub(crate) async fn park(&mut self, n: usize) -> Result<(), StoreError> {
        let hot = usize::MAX;
        for first in (0..n).step_by(500) {
            let commands = (first..n.min(first + 500)).map(|at| self.post(at, hot)).collect();
            self.ask(commands).await?;
        }
        // The first run gets the slot, is leased, and is never finished.
        self.lease(1, 1).await?;
        Ok(())
    }

    fn post(&self, n: usize, key: usize) -> Command {
        let data = json!({ "n": n, "k": key, "pad": "x".repeat(100) });
        let data = Payload::from_value(&data);
        let event = NewEvent::new("w", data);
        Command::Post { ws: self.ws.clone(), events: vec![event] }
    }

    fn claim(&self, limit: usize) -> Command {
        let (lane, limit) = (self.lane, u32::try_from(limit).unwrap_or(u32::MAX));
        let claim = Claim::only(self.ws.clone(), [Turn { workflow: lane, lane }]);
        let (claims, serves) = (vec![(claim, limit)], Arc::new([lane].into()));
        Command::Lease { engine: ENGINE, claims, serves, limit }
    }

    /// Leases up to `n` ready runs, `batch` per transaction. Returns the leased runs and the time.
    pub(crate) async fn lease(
        &mut self,
        n: usize,
        batch: usize,
    ) -> Result<(Vec<Run>, Duration), StoreError> {
        let started = Instant::now();
        let mut runs = Vec::new();
        while runs.len() < n {
            let claim = self.claim(batch.min(n - runs.len()));
            let Some(Answer::Leased(leased)) = self.ask(vec![claim]).await?.pop() else { break };
            if leased.is_empty() {
                break;
            }
            runs.extend(leased);
        }
        Ok((runs, started.elapsed()))
    }

    /// Drains up to `n` runs: each transaction finishes a batch of runs, hands their slots on and
    /// leases the next batch. Returns the number of finished runs and the time.
    pub(crate) async fn hand_off(
        &mut self,
        n: usize,
        batch: usize,
    ) -> Result<(usize, Duration), StoreError> {
        let (mut runs, _) = self.lease(batch, batch).await?;
        let started = Instant::now();
        let mut done = 0;
        while !runs.is_empty() && done < n {
            done += runs.len();
            let mut commands: Vec<_> = runs.drain(..).map(finish).collect();
            commands.push(self.claim(batch));
            if let Some(Answer::Leased(next)) = self.ask(commands).await?.pop() {
                runs = next;
            }
        }
        Ok((done, started.elapsed()))
    }
}

fn finish(run: Run) -> Command {
    let then = Then::Complete(Payload::from_value(&json!("done")));
    let report = Record::new(run.id.seq, ENGINE, run.fence, then);
    Command::Record { known: Box::new(run), report }
}

/// Store wrapper that records the changes of each transaction, to write them again without a store.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Arc<dyn Store>,
    /// The recorded changes, one list per transaction.
    changes: Arc<Mutex<Vec<Vec<Change>>>>,
}

impl Recorder {
    /// Wraps a store and records its changes.
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, changes: Arc::default() }
    }

    /// Returns the transactions recorded since the last call, with encoded rows.
    pub(crate) fn take(&self) -> Vec<Transaction> {
        let mut changes = self.changes.lock().expect("no code panics while it holds this lock");
        changes.drain(..).map(|changes| Transaction::new(&changes)).collect()
    }
}

#[async_trait]
impl Store for Recorder {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let changes = self.changes.clone();
        let recorded = Box::new(move |snapshot| {
            let decision = decide(snapshot);
            if let Decision::Apply(made) = &decision {
                changes.lock().expect("no code panics while it holds this lock").push(made.clone());
            }
            decision
        });
        self.inner.transact(reads, recorded).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.inner.heartbeat(engine, lease_ms).await
    }

    fn catalogs(
        &self,
    ) -> std::collections::BTreeMap<Workspace, Arc<tidegate_core::catalog::Catalog>> {
        self.inner.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.inner.wakes()
    }

    fn wake(&self) {
        self.inner.wake();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.inner.dump().await
    }
}
