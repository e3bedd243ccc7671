//! Decides whether the writes of a transactional step are committed with its record.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use tidegate_core::{
    catalog::Catalog,
    command::{Answer, Batch, Command, Refusal, StreamAnswer, StreamCommand, decide, probe},
    reads::{Change, ReadSet},
    row::{RowKey, Workspace},
    time::Timestamp,
};

use crate::{Answered, Decide, Decision, SeededCommand, StoreError, TransactionError};

/// Reason why the step's writes must not be committed.
#[derive(Debug)]
enum Undone {
    Refused(Refusal),
    Recorded,
    Store(StoreError),
}

impl<E> From<Undone> for TransactionError<E> {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Refused(refusal) => Self::Refused(refusal),
            Undone::Recorded => Self::Recorded,
            Undone::Store(error) => Self::Store(error),
        }
    }
}

/// Outcome of the decision about a step's record; `None` before the decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<Judged>>>);

type Judged = Result<Vec<Answer>, Undone>;

impl Verdict {
    /// Returns the answers, or the reason why the step must not be committed.
    pub(crate) fn take<E>(&self) -> Result<Vec<Answer>, TransactionError<E>> {
        let verdict = self.0.lock().expect("no code panics while it holds this lock").take();
        Ok(verdict.expect("the store has called the decision")?)
    }
}

/// Makes a decision function from the commands that record a step: all of them are applied, or
/// none.
///
/// If the step must not be committed, the decision returns no changes, and the verdict has the
/// reason.
pub(crate) fn recording(
    commands: Vec<SeededCommand>,
    catalogs: &BTreeMap<Workspace, Arc<Catalog>>,
) -> (ReadSet, Decide, Verdict) {
    let reads = probe(&commands, catalogs, &Arc::default(), Timestamp::from_micros(0));
    let verdict = Verdict::default();
    let outcome = verdict.clone();
    let decide = Box::new(move |snapshot| match decide(&commands, snapshot) {
        Batch::Decided(changes, answers) => {
            let judged = judge(&commands, &changes, answers);
            let changes = if judged.is_ok() { changes } else { Vec::new() };
            *outcome.0.lock().expect("no code panics while it holds this lock") = Some(judged);
            Decision::Apply(changes)
        }
        Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
    });
    (reads, decide, verdict)
}

/// Accepts the writes of a step only together with a new record. If the record exists already, the
/// writes of an earlier attempt were committed with it.
fn judge(commands: &[SeededCommand], changes: &[Change], answers: Vec<Option<Answered>>) -> Judged {
    let data = |reason: &str| Undone::Store(StoreError::Data(reason.to_owned().into()));
    let mut all = Vec::with_capacity(answers.len());
    for answer in answers {
        let answer = answer.ok_or_else(|| data("the record does not fit into a transaction"))?;
        all.push(answer.map_err(Undone::Refused)?);
    }
    let inserted = changes.iter().filter(|change| matches!(change, Change::Insert(_)));
    let new: BTreeSet<RowKey> = inserted.map(Change::key).collect();
    if all.iter().any(is_repeat) {
        return Err(Undone::Recorded);
    }
    if commands.iter().any(|(command, _)| is_ack(command)) {
        return Ok(all);
    }
    let mut steps = commands.iter().flat_map(|(command, _)| steps_of(command)).peekable();
    if steps.peek().is_none() {
        return Err(data("no command records the transactional step"));
    }
    if steps.all(|step| new.contains(&step)) { Ok(all) } else { Err(Undone::Recorded) }
}

/// Returns whether a command advances a reaction past the events that it has handled. Such a
/// command is the record of its step.
fn is_ack(command: &Command) -> bool {
    matches!(command, Command::Stream { command: StreamCommand::React(_), .. })
}

/// Returns whether the reaction had already advanced that far.
fn is_repeat(answer: &Answer) -> bool {
    matches!(answer, Answer::Stream(StreamAnswer::Reacted(reacted)) if reacted.already)
}

/// Returns the keys of the steps that a command records.
fn steps_of(command: &Command) -> Vec<RowKey> {
    let Command::Record { report, .. } = command else { return Vec::new() };
    report.steps.iter().map(|step| RowKey::Step(report.run, step.id.clone())).collect()
}
