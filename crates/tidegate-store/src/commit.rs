//! Commits commands to a store: predicts their reads, decides them in one transaction, and returns
//! the answer to each command.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use tidegate_core::{
    command::{Answer, Batch, Command, Refusal, decide, probe},
    draft::{Draft, Stop},
    expected::Expected,
    explain::{Why, explain},
    id::{RunId, Seq},
    reads::{Change, ReadSet, Scan, Snapshot},
    row::{Ended, Event, Phase, Row, RowKey, Workspace},
    time::Timestamp,
    turn::Turn,
};

use crate::{Decision, Store, StoreError};

/// Command with a random number, from which its new ids are derived. A retry uses the same number.
pub type SeededCommand = (Command, u64);

/// Outcome of one command.
pub type Answered = Result<Answer, Refusal>;

/// Maximum number of commands in one transaction. The reads of each are predicted before the
/// transaction begins, in vain for commands that do not fit into it. Batches of more than a few
/// hundred commands are not faster.
const MAX_BATCH: usize = 512;

/// Decides and commits commands in order, in as few transactions as possible.
///
/// Commands that do not fit into the first transaction go into the next. All answers are durable
/// when this returns. On an error, the last transaction is rolled back; the earlier ones stay
/// committed, but their answers are not returned.
pub async fn commit(
    store: &dyn Store,
    commands: Vec<SeededCommand>,
) -> Result<Vec<Answered>, StoreError> {
    let mut answers: Vec<Option<Answered>> = vec![None; commands.len()];
    let mut open: VecDeque<(usize, SeededCommand)> = commands.into_iter().enumerate().collect();
    while !open.is_empty() {
        let first = open.drain(..open.len().min(MAX_BATCH));
        let (places, batch): (Vec<usize>, Vec<SeededCommand>) = first.unzip();
        let (decided, _) = commit_once(store, batch.as_slice().into()).await?;
        for ((place, command), answer) in places.into_iter().zip(batch).zip(decided).rev() {
            match answer {
                Some(answer) => answers[place] = Some(answer),
                None => open.push_front((place, command)),
            }
        }
    }
    Ok(answers.into_iter().map(|answer| answer.expect("every command was decided")).collect())
}

/// Effects of one committed transaction. The process that committed it uses them at once, instead
/// of finding them by polling.
#[derive(Debug, Default)]
pub struct CommitEffects {
    /// Time of the transaction, by the store's clock.
    pub now: Timestamp,
    /// Runs that have ended.
    pub ended: Vec<Ended>,
    /// Runs whose workers have to stop.
    pub stopping: Vec<Seq>,
    /// Driven runs with waits that have ended, each with the fence of its lease and the number of
    /// these waits.
    pub answered: BTreeMap<Seq, (i64, usize)>,
    /// Runs that are ready and not leased, with the workspace and the turn of each.
    pub ready: BTreeMap<RunId, (Workspace, Turn)>,
    /// Earliest due time of the changed rows.
    pub due: Option<Timestamp>,
    /// By reaction: times from which changed subscriptions can be claimed.
    pub places: BTreeMap<(Workspace, String), BTreeSet<Timestamp>>,
    /// Input events that the transaction wrote or read, by number.
    pub events: BTreeMap<Seq, Event>,
    /// Runs that are now among the first in a gate's queue and have never been driven, each with
    /// its input event.
    pub next: BTreeMap<Seq, Seq>,
    /// The reads to expect from now on, if they have changed.
    pub expected: Option<Expected>,
}

impl CommitEffects {
    #[expect(clippy::wildcard_enum_match_arm, reason = "no caller waits for the other rows")]
    fn see(mut self, changes: &[Change]) -> Self {
        let now = self.now;
        let seen = &mut self;
        for change in changes {
            let (Change::Insert(row) | Change::Update(row)) = change else {
                if let Change::Delete(RowKey::Run(run)) = change {
                    seen.next.remove(run);
                }
                continue;
            };
            match row {
                Row::Ended(ended) => seen.ended.push(ended.clone()),
                Row::Event(event) => drop(seen.events.insert(event.id.seq, event.clone())),
                Row::Gate(gate) => seen.look_at(gate.due),
                Row::Chore(chore) => seen.look_at(chore.due),
                // A leased subscription is skipped: its holder handles it, and if the lease
                // expires, other engines find it by polling.
                Row::Subscription(sub)
                    if sub.has_work() && sub.blocked.is_none() && sub.holder(now).is_none() =>
                {
                    let of = (sub.ws.clone(), sub.reaction.clone());
                    seen.places.entry(of).or_default().insert(sub.due.unwrap_or(now).max(now));
                }
                Row::Run(run) => {
                    seen.look_at(run.due());
                    if !matches!(run.phase, Phase::Queued { .. }) {
                        seen.next.remove(&run.id.seq);
                    }
                    match run.phase {
                        Phase::Stopping => seen.stopping.push(run.id.seq),
                        Phase::Ready => {
                            seen.ready.insert(run.id, (run.ws.clone(), Turn::of(run)));
                        }
                        Phase::Driven if !run.answered.is_empty() => {
                            seen.answered.insert(run.id.seq, (run.fence, run.answered.len()));
                        }
                        Phase::Queued { .. } | Phase::Driven | Phase::Waiting | Phase::Paused => {}
                    }
                }
                _ => {}
            }
        }
        self
    }

    /// Returns the effects that are known from a transaction's snapshot, before its changes.
    fn before(snapshot: &Snapshot, inputs: &[Seq]) -> Self {
        let mut seen = Self { now: snapshot.now, ..Self::default() };
        for (scan, _) in snapshot.scans.iter().filter(|(scan, _)| matches!(scan, Scan::Queue(_))) {
            let runs = snapshot.found(scan).into_iter().filter_map(Row::as_run);
            let new = runs.filter(|run| run.fence == 0);
            seen.next.extend(new.map(|run| (run.id.seq, run.source.first().seq)));
        }
        for input in inputs {
            if let Some(Some(Row::Event(event))) = snapshot.rows.get(&RowKey::Event(*input)) {
                seen.events.insert(*input, event.clone());
            }
        }
        seen
    }

    fn look_at(&mut self, due: Option<Timestamp>) {
        self.due = [self.due, due].into_iter().flatten().min();
    }
}

/// Commits commands in one transaction. The answer is `None` for a command that did not fit: the
/// caller puts it into another transaction.
pub async fn commit_once(
    store: &dyn Store,
    batch: Arc<[SeededCommand]>,
) -> Result<(Vec<Option<Answered>>, CommitEffects), StoreError> {
    commit_reading(store, batch, Vec::new(), &Arc::default()).await
}

/// Like [`commit_once`], and also reads the events `inputs`, which are inputs of runs that the
/// transaction may lease. `expected` makes the first reads more complete.
pub async fn commit_reading(
    store: &dyn Store,
    batch: Arc<[SeededCommand]>,
    inputs: Vec<Seq>,
    expected: &Arc<Expected>,
) -> Result<(Vec<Option<Answered>>, CommitEffects), StoreError> {
    let mut reads = probe(&batch, &store.catalogs(), expected, Timestamp::from_micros(0));
    let (turns, first) = expected.turns(&reads);
    reads.merge(turns);
    let inputs: Vec<Seq> = inputs.into_iter().chain(first).collect();
    reads.rows.extend(inputs.iter().copied().map(RowKey::Event));
    let size = batch.len();
    let outcome = Arc::new(Mutex::new((Vec::new(), CommitEffects::default())));
    let decided = outcome.clone();
    let expected = expected.clone();
    let decide = Box::new(move |snapshot: Snapshot| {
        let mut seen = CommitEffects::before(&snapshot, &inputs);
        let lesson = expected.lesson(&snapshot);
        match decide(&batch, snapshot) {
            Batch::Decided(changes, answers) => {
                seen.expected = expected.learn(lesson, &changes);
                let seen = seen.see(&changes);
                *decided.lock().expect("no code panics while it holds this lock") = (answers, seen);
                Decision::Apply(changes)
            }
            Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
        }
    });
    store.transact(reads, decide).await?;
    let mut outcome = outcome.lock().expect("no code panics while it holds this lock");
    let (answers, seen) = std::mem::take(&mut *outcome);
    if size > 0 && answers.iter().all(Option::is_none) {
        return Err(StoreError::Data("one command does not fit into a transaction".into()));
    }
    Ok((answers, seen))
}

/// Decides one command without committing its changes.
pub async fn dry_run(
    store: &dyn Store,
    command: SeededCommand,
) -> Result<(Answered, CommitEffects), StoreError> {
    let batch = vec![command];
    let mut reads = probe(&batch, &store.catalogs(), &Arc::default(), Timestamp::from_micros(0));
    for _ in 0..crate::MAX_ROUNDS {
        let snapshot = store.read(reads.clone()).await?;
        let seen = CommitEffects::before(&snapshot, &[]);
        match decide(&batch, snapshot) {
            Batch::Decided(changes, answers) => {
                let first = answers.into_iter().next().flatten();
                return Ok((first.ok_or(StoreError::TooManyRounds)?, seen.see(&changes)));
            }
            Batch::Need(more, _) => reads.merge(more),
        }
    }
    Err(StoreError::TooManyRounds)
}

/// Explains why a run waits or how it ended, as the operation `why` does.
pub async fn why(
    store: &dyn Store,
    ws: &Workspace,
    run: RunId,
) -> Result<Result<Why, Refusal>, StoreError> {
    let mut reads = ReadSet::default().catalog(ws);
    for _ in 0..crate::MAX_ROUNDS {
        let draft = Draft::new(store.read(reads.clone()).await?);
        match explain(&draft, ws, run) {
            Ok(why) => return Ok(Ok(why)),
            Err(Stop::Refused(refusal)) => return Ok(Err(refusal)),
            Err(Stop::Need(more)) => reads.merge(*more),
            Err(Stop::Full) => break,
        }
    }
    Err(StoreError::TooManyRounds)
}

/// Commits the commands of a failed batch again, so that only the commands that cause the failure
/// fail.
///
/// If the store refuses a row, the whole transaction fails. The batch is therefore halved until the
/// refused command is alone in a transaction.
pub async fn commit_apart(
    store: &dyn Store,
    commands: Vec<SeededCommand>,
) -> Vec<Result<Answered, Arc<StoreError>>> {
    let mut results: BTreeMap<usize, Result<Answered, Arc<StoreError>>> = BTreeMap::new();
    let mut parts: Vec<Vec<(usize, SeededCommand)>> =
        vec![commands.into_iter().enumerate().collect()];
    while let Some(part) = parts.pop() {
        let batch = part.iter().map(|(_, command)| command.clone()).collect();
        match commit(store, batch).await {
            Ok(answers) => {
                let places = part.iter().map(|(place, _)| *place);
                results.extend(places.zip(answers.into_iter().map(Ok)));
            }
            Err(StoreError::Data(_)) if part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.push(second.to_vec());
                parts.push(first.to_vec());
            }
            Err(error) => {
                let error = Arc::new(error);
                results.extend(part.into_iter().map(|(place, _)| (place, Err(error.clone()))));
            }
        }
    }
    results.into_values().collect()
}
