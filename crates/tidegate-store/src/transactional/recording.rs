//! Decision whether a step's effect is committed with its record.

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

/// Reason why the decided changes must not be committed.
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

/// Outcome of a decision about a step's record, once the decision was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<Judged>>>);

type Judged = Result<Vec<Answer>, Undone>;

impl Verdict {
    /// Takes the answers, or the reason why nothing must be committed.
    pub(crate) fn take<E>(&self) -> Result<Vec<Answer>, TransactionError<E>> {
        let verdict = self.0.lock().expect("nothing panics under this lock").take();
        Ok(verdict.expect("a store asks before it answers")?)
    }
}

/// Turns the commands that record a step into a decision for a store: all of them or none.
///
/// If nothing must be committed, the decision changes nothing and the verdict holds the reason.
pub(crate) fn recording(
    commands: Vec<SeededCommand>,
    catalogs: &BTreeMap<Workspace, Arc<Catalog>>,
) -> (ReadSet, Decide, Verdict) {
    let reads = probe(&commands, catalogs, Timestamp::from_micros(0));
    let verdict = Verdict::default();
    let outcome = verdict.clone();
    let decide = Box::new(move |snapshot| match decide(&commands, snapshot) {
        Batch::Decided(changes, answers) => {
            let judged = judge(&commands, &changes, answers);
            let changes = if judged.is_ok() { changes } else { Vec::new() };
            *outcome.0.lock().expect("nothing panics under this lock") = Some(judged);
            Decision::Apply(changes)
        }
        Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
    });
    (reads, decide, verdict)
}

/// Accepts an effect only together with a new record: an existing record belongs to an effect that
/// was committed before.
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
        return Err(data("a transactional step must be recorded with its effect"));
    }
    if steps.all(|step| new.contains(&step)) { Ok(all) } else { Err(Undone::Recorded) }
}

/// Whether a command moves a reaction's position past the events it handled, which is itself a
/// record.
fn is_ack(command: &Command) -> bool {
    matches!(command, Command::Stream { command: StreamCommand::React(_), .. })
}

/// Whether the position had already been reached.
fn is_repeat(answer: &Answer) -> bool {
    matches!(answer, Answer::Stream(StreamAnswer::Reacted(reacted)) if reacted.already)
}

/// Keys of the steps that a command records.
fn steps_of(command: &Command) -> Vec<RowKey> {
    let Command::Record { report, .. } = command else { return Vec::new() };
    report.steps.iter().map(|step| RowKey::Step(report.run, step.id.clone())).collect()
}
