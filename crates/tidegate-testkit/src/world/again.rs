//! Compensation, replay and listing of runs in a [`World`].

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    event::Outcome,
    id::{RunId, Seq},
    list::{RunFilter, RunPage},
    reads::{ReadSet, Scan},
    row::{Purpose, Row, Run, Step, StepKind},
    run::record::{NewStep, Recorded, Then},
};
use tidegate_store::list_runs;

use super::{MANY, World, payload};

impl World {
    /// Registers compensations of a leased run.
    pub async fn register(&self, run: &Run, steps: &[&str]) {
        let step = |id: &&str| NewStep {
            id: (*id).to_owned(),
            kind: StepKind::Compensate,
            result: Ok(payload(&json!(id))),
        };
        let steps = steps.iter().map(step).collect();
        assert_eq!(self.report(run, steps, Then::Continue).await, Ok(Recorded::GoOn));
    }

    /// Posts an event of this name and drives its run until it has registered a compensation.
    pub async fn drive_with_undo(&self, name: &str, data: Value) -> Run {
        let run = self.send_for_run(name, data).await;
        let leased = self.lease_all().await;
        let leased = leased.into_iter().find(|leased| leased.id == run).expect("it is ready");
        self.register(&leased, &["undo"]).await;
        leased
    }

    /// Returns the live runs with this purpose.
    pub async fn live_for(&self, purpose: Purpose) -> Vec<Run> {
        let rows = self.dump().await.into_iter();
        let run = |row| if let Row::Run(run) = row { Some(*run) } else { None };
        rows.filter_map(run).filter(|run| run.purpose == purpose).collect()
    }

    /// Returns the one live run that compensates another.
    pub async fn undo_of(&self, run: RunId) -> Run {
        let mut undo = self.live_for(Purpose::Compensates(run)).await;
        assert_eq!(undo.len(), 1, "not exactly one run compensates {run}: {undo:?}");
        undo.remove(0)
    }

    /// Creates a replay of an ended run; the call may be refused.
    pub async fn try_replay(
        &self,
        run: RunId,
        input: Option<Value>,
        from_step: Option<&str>,
    ) -> Result<Outcome, Refusal> {
        let (ws, input) = (self.ws.clone(), input.map(|input| payload(&input)));
        let from_step = from_step.map(str::to_owned);
        let command = Command::Replay { ws, run, input, from_step, function_key: None };
        match self.run(command).await? {
            Answer::Admitted(outcome) => Ok(outcome),
            other => panic!("unexpected answer to a replay: {other:?}"),
        }
    }

    /// Creates a replay of an ended run.
    pub async fn replay(&self, run: RunId) -> RunId {
        let outcome = self.try_replay(run, None, None).await.expect("it has ended");
        outcome.verdict.run().unwrap_or_else(|| panic!("the replay made no run: {outcome:?}"))
    }

    /// Creates a run that retries an ended one from a step.
    pub async fn retry(&self, run: RunId, from_step: &str) -> RunId {
        let outcome = self.try_replay(run, None, Some(from_step)).await;
        let outcome = outcome.unwrap_or_else(|refusal| panic!("the retry was refused: {refusal}"));
        outcome.verdict.run().unwrap_or_else(|| panic!("the retry made no run: {outcome:?}"))
    }

    /// Returns the ids of a run's steps, in the order in which they were recorded.
    pub async fn steps_in_order(&self, run: RunId) -> Vec<String> {
        let snapshot = self.read(ReadSet::default().scan(Scan::Steps(run.seq), MANY)).await;
        let rows = snapshot.rows.into_values().flatten();
        let step = |row| if let Row::Step(step) = row { Some(step) } else { None };
        let mut steps: Vec<Step> = rows.filter_map(step).collect();
        steps.sort_by_key(|step| step.seq);
        steps.into_iter().map(|step| step.id).collect()
    }

    /// Returns a page of the list of runs.
    pub async fn list(&self, which: &RunFilter, below: Option<Seq>, limit: u32) -> RunPage {
        list_runs(&*self.store, &self.ws, which, below, limit).await.expect("the store works")
    }
}
