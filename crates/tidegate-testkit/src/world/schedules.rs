//! Operations on schedules in a [`World`].

use tidegate_core::{
    command::{Answer, Command},
    reads::{Change, ReadSet, Scan, Snapshot},
    row::{Row, RowKey, Schedule},
    schedule::{Hold, Occurrence},
    time::Timestamp,
};
use tidegate_store::Decision;

use super::{MANY, World};

impl World {
    /// Writes `at` as the next occurrence of a schedule, without a command; returns the occurrence.
    pub async fn set_schedule(&self, workflow: &str, id: &str, at: Timestamp) -> Occurrence {
        let occurrence = self.occurrence(workflow, id, at, Some(at.plus_ms(1)));
        let Occurrence { ws, app, workflow, schedule: id, .. } = occurrence.clone();
        let (next, last, outcome, paused_at) = (Some(at), None, None, None);
        let row = Schedule { ws, app, workflow, id, next, last, outcome, paused_at };
        let row = Row::from(row);
        let key = row.key();
        let decide = move |snapshot: Snapshot| {
            let there = snapshot.rows[&key].is_some();
            let change = if there { Change::Update } else { Change::Insert };
            Decision::Apply(vec![change(row.clone())])
        };
        let key = self.schedule_key(&occurrence.workflow, &occurrence.schedule);
        let done = self.store.transact(ReadSet::default().row(key), Box::new(decide)).await;
        done.expect("the store works");
        occurrence
    }

    /// Builds an occurrence of a schedule, with the time of the next one.
    pub fn occurrence(
        &self,
        workflow: &str,
        schedule: &str,
        planned_at: Timestamp,
        next: Option<Timestamp>,
    ) -> Occurrence {
        let (workflow, schedule) = (workflow.to_owned(), schedule.to_owned());
        let (ws, app) = (self.ws.clone(), "default".to_owned());
        Occurrence { ws, app, workflow, schedule, planned_at, next }
    }

    /// Plans the first occurrence of a schedule as an engine does; returns whether it was planned
    /// by this call.
    pub async fn plan(&self, workflow: &str, schedule: &str, next: Timestamp) -> bool {
        let (ws, app) = (self.ws.clone(), "default".to_owned());
        let (workflow, schedule) = (workflow.to_owned(), schedule.to_owned());
        match self.run(Command::Plan { ws, app, workflow, schedule, next }).await {
            Ok(Answer::Changed(planned)) => planned,
            other => panic!("unexpected answer to a plan: {other:?}"),
        }
    }

    /// Pauses or resumes a schedule; returns whether its state changed.
    pub async fn hold(&self, workflow: &str, schedule: &str, hold: Hold) -> bool {
        let (ws, app) = (self.ws.clone(), "default".to_owned());
        let (workflow, schedule) = (workflow.to_owned(), schedule.to_owned());
        match self.run(Command::HoldSchedule { ws, app, workflow, schedule, hold }).await {
            Ok(Answer::Changed(changed)) => changed,
            other => panic!("unexpected answer to a pause or resume: {other:?}"),
        }
    }

    /// Returns the planned time of a schedule: `None` if it has no row, `Some(None)` if nothing is
    /// planned.
    pub async fn planned(&self, workflow: &str, schedule: &str) -> Option<Option<Timestamp>> {
        match self.row(self.schedule_key(workflow, schedule)).await {
            Some(Row::Schedule(row)) => Some(row.next),
            _ => None,
        }
    }

    /// Returns all schedules with a planned occurrence, the earliest first.
    pub async fn schedules(&self) -> Vec<Schedule> {
        let snapshot = self.read(ReadSet::default().scan(Scan::Schedules, MANY)).await;
        let rows = snapshot.found(&Scan::Schedules).into_iter();
        rows.filter_map(|row| if let Row::Schedule(it) = row { Some(it.clone()) } else { None })
            .collect()
    }

    fn schedule_key(&self, workflow: &str, id: &str) -> RowKey {
        let (workflow, id) = (workflow.to_owned(), id.to_owned());
        RowKey::Schedule(self.ws.clone(), "default".to_owned(), workflow, id)
    }
}
