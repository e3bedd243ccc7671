//! Checks of schedules: every planned occurrence is started or counted as missed, and none twice.

use std::collections::BTreeMap;

use tidegate_core::{
    command::{Answer, Command},
    row::{Row, RowKey, Workspace},
    schedule::{Hold, Occurrence},
    time::Timestamp,
};

use super::{Checked, Look};

/// One schedule, as recorded from answers.
#[derive(Clone, Debug, Default)]
struct Tally {
    next: Option<Timestamp>,
    last: Option<Timestamp>,
    paused: bool,
    /// The first planned occurrence since the start or the last pause.
    first: Option<Timestamp>,
    /// Number of occurrences since then that were started or counted as missed.
    counted: u64,
}

impl Tally {
    fn begin(&mut self, next: Option<Timestamp>) {
        (self.next, self.first, self.counted, self.paused) = (next, next, 0, false);
    }
}

/// Model of the schedules.
#[derive(Debug, Default)]
pub(super) struct ScheduleModel {
    tallies: BTreeMap<RowKey, Tally>,
}

impl ScheduleModel {
    /// Applies a commit to the model, and compares the changed rows with it.
    pub(super) fn play(&mut self, look: &Look<'_>) -> Checked {
        if look.rows_only {
            return Ok(());
        }
        for (command, answer) in look.answered() {
            let Ok(answer) = answer else { continue };
            self.answered(look, command, answer)
                .map_err(|text| format!("{text}: {command:?}: {answer:?}"))?;
        }
        for delta in look.deltas.iter().filter(|it| matches!(it.key, RowKey::Schedule(..))) {
            let Some(Row::Schedule(row)) = &delta.after else {
                // A schedule may be deleted by a release without it, or by an occurrence that finds
                // it missing in the release.
                self.tallies.remove(&delta.key);
                if look.redefines() || look.commands.len() == 1 && occurs(&look.commands[0].0) {
                    continue;
                }
                return Err(format!("a schedule was deleted without a reason: {delta:?}"));
            };
            let tally = self.tallies.entry(delta.key.clone()).or_default();
            let same = (row.next, row.last, row.paused_at.is_some())
                == (tally.next, tally.last, tally.paused);
            if !same {
                return Err(format!("the row {row:?} differs from the model {tally:?}"));
            }
            let (Some(calendar), Some((first, next))) =
                (&look.plan.calendar, tally.first.zip(tally.next))
            else {
                continue;
            };
            let planned = calendar.count(first, next);
            if planned != tally.counted {
                return Err(format!(
                    "{planned} occurrences are planned from {first} to {next}, counted {tally:?}"
                ));
            }
        }
        Ok(())
    }

    fn answered(&mut self, look: &Look<'_>, command: &Command, answer: &Answer) -> Checked {
        match (command, answer) {
            (Command::Plan { ws, app, workflow, schedule, next }, Answer::Changed(true)) => {
                let tally = self.of(ws, app, workflow, schedule);
                if tally.next.is_some() || tally.paused {
                    return Err(format!("the schedule is planned already, or paused: {tally:?}"));
                }
                tally.begin(Some(*next));
                Ok(())
            }
            (Command::Occur { occurrence }, Answer::Admitted(_)) => self.moved(look, occurrence, 1),
            (Command::Miss { occurrence, missed }, Answer::Changed(true)) => {
                let counted = look.deltas.iter().any(|delta| {
                    matches!(&delta.after, Some(Row::Receipt(receipt))
                        if receipt.verdict["missed"] == missed.count
                            && receipt.workflow == occurrence.workflow)
                });
                if !counted {
                    return Err("no receipt counts them".to_owned());
                }
                self.moved(look, occurrence, missed.count.into())
            }
            (
                Command::Occur { occurrence } | Command::Miss { occurrence, .. },
                Answer::Changed(false),
            ) => {
                let Occurrence { ws, app, workflow, schedule, planned_at, .. } = occurrence;
                let tally = self.of(ws, app, workflow, schedule);
                let mine = tally.next == Some(*planned_at) && *planned_at <= look.at;
                if mine && is_scheduled(look, ws, workflow) {
                    return Err(format!("an occurrence that is due was refused: {tally:?}"));
                }
                Ok(())
            }
            (
                Command::HoldSchedule { ws, app, workflow, schedule, hold },
                Answer::Changed(true),
            ) => {
                let tally = self.of(ws, app, workflow, schedule);
                match hold {
                    Hold::Pause if !tally.paused => (tally.next, tally.paused) = (None, true),
                    Hold::Resume(next) if tally.paused && *next > tally.last => tally.begin(*next),
                    Hold::Pause | Hold::Resume(_) => return Err(format!("it was {tally:?}")),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn of(&mut self, ws: &Workspace, app: &str, workflow: &str, schedule: &str) -> &mut Tally {
        let (app, workflow) = (app.to_owned(), workflow.to_owned());
        let key = RowKey::Schedule(ws.clone(), app, workflow, schedule.to_owned());
        self.tallies.entry(key).or_default()
    }

    /// Moves the schedule to the next occurrence, after `count` occurrences.
    fn moved(&mut self, look: &Look<'_>, occurrence: &Occurrence, count: u64) -> Checked {
        let Occurrence { ws, app, workflow, schedule, planned_at, next } = occurrence;
        let tally = self.of(ws, app, workflow, schedule);
        let once = tally.last.is_none_or(|last| last < *planned_at);
        if tally.next != Some(*planned_at) || *planned_at > look.at || !once {
            return Err(format!("the occurrence was not planned, or not due: {tally:?}"));
        }
        (tally.next, tally.last, tally.counted) = (*next, Some(*planned_at), tally.counted + count);
        Ok(())
    }
}

fn occurs(command: &Command) -> bool {
    matches!(command, Command::Occur { .. })
}

/// Whether the released version of a workflow has a schedule.
fn is_scheduled(look: &Look<'_>, ws: &Workspace, workflow: &str) -> bool {
    let current = look.state.current(ws, workflow);
    let spec = look.plan.spec(workflow).filter(|spec| spec.flow.is_none());
    let scheduled = current.zip(spec).map(|(def, spec)| spec.is_scheduled(def.version));
    scheduled.unwrap_or_default()
}
