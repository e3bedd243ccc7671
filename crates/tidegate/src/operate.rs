//! Queries of runs, bulk operations, sessions and schedules.

use serde::Serialize;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    delivery::{self, CancelledDelivery, DeferredEvent},
    event::{self, NewEvent, Posted},
    id::{ChoreId, EventId, RunId, ScheduleId, Seq},
    json::Payload,
    list::{RunFilter, RunPage},
    observe::{
        Newest, Part,
        schedules::{self, ScheduleView},
    },
    reads::{ReadSet, Scan},
    request::Request,
    row::{
        BulkCounts, BulkFilter, BulkWhat, Chunk, EngineId, Row, RowKey, Run, SessionOp, SessionRef,
        Step, Work, Workspace,
    },
    run::record::{NewStep, Record, Then},
    schedule::Hold,
    session::{NewSessionOp, Outcome},
    time::Timestamp,
};
use tidegate_store::{Store, StoreError, list_runs, look};

use crate::{
    api::{Engine, check_events, check_request, payload, unexpected},
    context::{MAX_OPS, OUTSIDE, check_record},
    error::Error,
    handler::check_name,
    load::MAX_STEPS,
    schedule,
    step_error::StepError,
};

/// Maximum number of attempts to resume a schedule while its row is changed concurrently.
const RESUMES: usize = 3;

/// Progress of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkProgress {
    /// Results of the runs processed so far.
    pub counts: BulkCounts,
    /// Whether all matching runs have been processed.
    pub done: bool,
}

/// Queries.
impl Engine {
    /// Returns a page of the workspace's runs, newest first.
    ///
    /// For the next page, pass this page's `next`.
    ///
    /// ```
    /// use tidegate::{RunFilter, prelude::*, testing::TestHarness};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let count = Workflow::new("count", async |_: Ctx, text: String| Ok(text.len()));
    /// let harness = TestHarness::new();
    /// let engine = harness.engine().workflow(count).start().await?;
    /// let run = engine.start::<_, usize>("count", "four").await?;
    /// run.output().await?;
    /// let filter = RunFilter { workflow: Some("count".to_owned()), ..RunFilter::default() };
    /// let page = engine.runs(&filter, None, 10).await?;
    /// let runs: Vec<_> = page.summaries().map(|run| (run.id, run.status)).collect();
    /// assert_eq!(runs, [(run.id(), RunStatus::Completed)]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn runs(
        &self,
        which: &RunFilter,
        below: Option<Seq>,
        limit: u32,
    ) -> Result<RunPage, Error> {
        Ok(list_runs(&**self.store(), &self.ws(), which, below, limit).await?)
    }

    /// Returns the recorded steps of a run, in the order in which they were recorded.
    pub async fn steps(&self, run: RunId) -> Result<Vec<Step>, Error> {
        self.known(run).await?;
        let scan = Scan::Steps(run.seq);
        let reads = ReadSet::default().scan(scan.clone(), MAX_STEPS);
        let snapshot = self.store().read(reads).await?;
        let rows = snapshot.found(&scan).into_iter();
        let steps = rows.filter_map(|row| if let Row::Step(it) = row { Some(it) } else { None });
        let mut steps: Vec<Step> = steps.cloned().collect();
        steps.sort_by_key(|step| step.seq);
        Ok(steps)
    }

    /// Returns the chunks of a run after this position, in order.
    pub async fn chunks(&self, run: RunId, after: u32, limit: u32) -> Result<Vec<Chunk>, Error> {
        self.known(run).await?;
        let scan = Scan::Chunks(run.seq, after);
        let snapshot = self.store().read(ReadSet::default().scan(scan.clone(), limit)).await?;
        let rows = snapshot.found(&scan).into_iter();
        Ok(rows
            .filter_map(|row| if let Row::Chunk(it) = row { Some(it.clone()) } else { None })
            .collect())
    }

    /// Returns the verdicts that events would get, without posting them.
    pub async fn dry_run(&self, events: Vec<NewEvent>) -> Result<Vec<Posted>, Error> {
        check_events(&events)?;
        let command = Command::Post { ws: self.ws(), events };
        match self.would(command).await? {
            Answer::Posted(posted) => Ok(posted),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the outcome that a request would get, without executing it.
    pub async fn would_dispatch(&self, mut request: Request) -> Result<event::Outcome, Error> {
        check_request(&request)?;
        request.function_key = self.function_key(&request);
        let command = Command::Dispatch { ws: self.ws(), request };
        match self.would(command).await? {
            Answer::Admitted(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns a session's document and its version; `None` before the first write.
    pub async fn session(&self, session: &SessionRef) -> Result<Option<(i64, Payload)>, Error> {
        Ok(read_session(&**self.store(), self.ws(), session.clone()).await?)
    }

    /// Checks that the run belongs to this workspace.
    async fn known(&self, run: RunId) -> Result<(), Error> {
        match self.look_up(run).await? {
            // There is no run, but an open window or buffer may become it.
            (None, None) => self.why(run).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the time since which this engine has not deleted any ended run.
    pub fn runs_kept_since(&self) -> Timestamp {
        self.shared().options.retention.runs_kept_since(self.now())
    }
}

/// Operations.
impl Engine {
    /// Applies an operation to all matching runs, in batches.
    ///
    /// Returns the id under which [`Engine::bulk_progress`] reports its progress.
    pub async fn bulk(&self, what: BulkWhat, filter: BulkFilter) -> Result<ChoreId, Error> {
        match self.ask(Command::Bulk { ws: self.ws(), what, filter }).await? {
            Answer::Left(chore) => Ok(chore),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the progress of a bulk operation; `None` if none has this id.
    pub async fn bulk_progress(&self, chore: ChoreId) -> Result<Option<BulkProgress>, Error> {
        let key = RowKey::Chore(chore.seq);
        let snapshot = self.store().read(ReadSet::default().row(key.clone())).await?;
        Ok(match snapshot.rows.get(&key) {
            Some(Some(Row::Chore(row))) if row.id == chore && row.ws == self.ws() => {
                match &row.work {
                    Work::Bulk(bulk) => {
                        Some(BulkProgress { counts: bulk.counts, done: bulk.ended_at.is_some() })
                    }
                    _ => None,
                }
            }
            _ => None,
        })
    }

    /// Applies an operation to a session's document from outside of a run.
    ///
    /// With an expected version, the operation is refused if the document has another version.
    pub async fn change_session(
        &self,
        session: SessionRef,
        op: SessionOp,
        expected_version: Option<i64>,
    ) -> Result<Outcome, Error> {
        let command = Command::Session { ws: self.ws(), session, op, expected_version };
        match self.ask(command).await? {
            Answer::Session(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Applies an operation to a session's document as a step of a run that is being driven, on any
    /// engine. Services that the run's handler has called use it.
    ///
    /// The operation is executed once, together with the step's record, and staged under `restart`.
    /// It is refused if the run has ended or is not driven. Its steps are separate from the
    /// handler's own: step `a` is recorded as `session:a`.
    pub async fn change_session_in(
        &self,
        run: RunId,
        mut asked: NewSessionOp,
    ) -> Result<Result<Outcome, StepError>, Error> {
        check_name(&asked.step).map_err(|rule| Error::Value(format!("the step's id {rule}")))?;
        asked.step.insert_str(0, OUTSIDE);
        let known = self.live(run).await?;
        let (engine, fence) = (known.owner.unwrap_or_default(), known.fence);
        let step = RowKey::Step(run.seq, asked.step.clone());
        let report =
            Record { session: vec![asked], ..Record::new(run.seq, engine, fence, Then::Stay) };
        self.ask(Command::Record { known, report }).await?;
        let snapshot = self.store().read(ReadSet::default().row(step.clone())).await?;
        let Some(Some(Row::Step(step))) = snapshot.rows.get(&step) else {
            return Err(Refusal::NoRun(run).into());
        };
        let outcome = step.result.as_ref().map_err(StepError::recorded).map(Outcome::from_payload);
        match outcome {
            Ok(None) => Err(Error::Value(format!(
                "step `{}` is recorded with another kind of operation",
                step.id
            ))),
            Ok(Some(outcome)) => Ok(Ok(outcome)),
            Err(fault) => Ok(Err(fault)),
        }
    }

    /// Records steps of a run that is being driven, on any engine, by code that the run's handler
    /// has called. They are durable and in this order when this returns. A step that is recorded
    /// already keeps its first result.
    ///
    /// The token is that of the lease, [`Ctx::lease_token`](crate::Ctx::lease_token). The handler
    /// finds the steps with [`Ctx::recorded`](crate::Ctx::recorded).
    ///
    /// # Errors
    ///
    /// Is refused with `fenced` if the lease has ended since the token was made: another engine
    /// drives the run, or it waits or was cancelled; with `run_ended` if it has ended. More than 500
    /// steps are an error.
    pub async fn record_in(
        &self,
        run: RunId,
        lease_token: &str,
        steps: Vec<NewStep>,
    ) -> Result<(), Error> {
        if steps.len() > MAX_OPS {
            let got = steps.len();
            return Err(Error::Value(format!("at most {MAX_OPS} steps at once, got {got}")));
        }
        for step in &steps {
            check_record(step).map_err(Error::Value)?;
        }
        let lease = lease_token.split_once('-').and_then(|(engine, fence)| {
            Some((EngineId::from_str_radix(engine, 16).ok()?, fence.parse().ok()?))
        });
        let Some((engine, fence)) = lease else {
            return Err(Error::Value("the lease token is not one of this program".to_owned()));
        };
        // A run that is driven here needs no read: it is only a hint which rows will change.
        let here = self.shared().shared_run(run.seq, fence);
        let known = match here.filter(|here| here.id == run && here.ws == self.ws()) {
            Some(here) => Box::new(Run::clone(&here)),
            None => self.live(run).await?,
        };
        let report = Record { steps, ..Record::new(run.seq, engine, fence, Then::Stay) };
        self.ask(Command::Record { known, report }).await.map(drop)
    }

    /// Returns a run that has not ended.
    pub(crate) async fn live(&self, run: RunId) -> Result<Box<Run>, Error> {
        let (live, ended) = self.look_up(run).await?;
        live.map(Box::new).ok_or_else(|| {
            let state = ended.map(|ended| ended.ending.state());
            state.map_or(Refusal::NoRun(run), |state| Refusal::Ended { run, state }).into()
        })
    }

    /// Pauses a schedule, and returns its new state.
    ///
    /// None of its occurrences starts from now on, on any engine of the store. The pause survives
    /// restarts, and releases that still have the schedule. Runs that have started continue.
    pub async fn pause_schedule(&self, id: ScheduleId) -> Result<ScheduleView, Error> {
        self.hold(id, |_| Hold::Pause).await
    }

    /// Resumes a paused schedule, and returns its new state. Its next occurrence is the first one
    /// from now.
    pub async fn resume_schedule(&self, id: ScheduleId) -> Result<ScheduleView, Error> {
        // If the clock has stepped back, continue after the last occurrence, so that it does not
        // happen twice.
        let after = |shown: &ScheduleView, now: Timestamp| {
            shown.last.as_ref().map_or(now, |last| now.max(last.planned_at))
        };
        for _ in 0..RESUMES {
            let now = self.store().read(ReadSet::default()).await?.now;
            let next = |shown: &ScheduleView| schedule::next_of(shown, after(shown, now));
            let shown = self.hold(id, |shown| Hold::Resume(next(shown))).await?;
            if shown.paused_at.is_none() {
                return Ok(shown);
            }
        }
        self.schedule(id).await
    }

    async fn hold(
        &self,
        id: ScheduleId,
        how: impl Fn(&ScheduleView) -> Hold,
    ) -> Result<ScheduleView, Error> {
        let shown = self.schedule(id).await?;
        let hold = how(&shown);
        let ScheduleView { app, workflow, schedule, .. } = shown;
        let command = Command::HoldSchedule { ws: self.ws(), app, workflow, schedule, hold };
        self.ask(command).await?;
        // Wakes other engines, because one of them may serve the schedule.
        self.store().wake();
        self.schedule(id).await
    }

    async fn schedule(&self, id: ScheduleId) -> Result<ScheduleView, Error> {
        let which =
            schedules::ScheduleFilter { id: Some(id), ..schedules::ScheduleFilter::default() };
        let mut found = self.schedules(&which, None, 1).await?.schedules;
        found.pop().ok_or_else(|| Refusal::NoSchedule(id.to_string()).into())
    }

    /// Returns a page of the workspace's deferred events and requests that were not delivered yet,
    /// newest first.
    pub async fn deferred(&self, part: Part) -> Result<Newest<DeferredEvent>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| delivery::list(draft, &ws, part)).await?)
    }

    /// Cancels a deferred event or request before its delivery. Its `dedupeId` can be used again.
    /// The run of a request ends as cancelled.
    pub async fn cancel_deferred(
        &self,
        event: EventId,
        reason: &str,
    ) -> Result<CancelledDelivery, Error> {
        let (ws, reason) = (self.ws(), reason.to_owned());
        match self.ask(Command::CancelDelivery { ws, event, reason }).await? {
            Answer::Undelivered(cancelled) => Ok(*cancelled),
            other => Err(unexpected(&other)),
        }
    }

    /// Posts an event once: a repeated call with the same `dedupe_id` within 24 hours has no
    /// effect.
    pub async fn send_once(
        &self,
        dedupe_id: &str,
        name: &str,
        data: impl Serialize,
    ) -> Result<Posted, Error> {
        let (name, data) = (name.to_owned(), payload(data)?);
        let event = NewEvent { dedupe_id: Some(dedupe_id.to_owned()), ..NewEvent::new(name, data) };
        let mut posted = self.send_all(vec![event]).await?;
        posted.pop().ok_or_else(|| Error::Value("the event was not answered".to_owned()))
    }
}

/// Reads a session's document and its version.
pub(crate) async fn read_session(
    store: &dyn Store,
    ws: Workspace,
    SessionRef { app, flow, id }: SessionRef,
) -> Result<Option<(i64, Payload)>, StoreError> {
    let key = RowKey::Session(ws, app, flow, id);
    let snapshot = store.read(ReadSet::default().row(key.clone())).await?;
    Ok(match snapshot.rows.get(&key) {
        Some(Some(Row::Session(row))) => Some((row.version, row.body.clone())),
        _ => None,
    })
}
