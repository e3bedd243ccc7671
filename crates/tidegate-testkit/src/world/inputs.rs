//! Inputs of runs, and helpers for the verdicts that their senders get.

use serde_json::Value;
use tidegate_core::{
    flow::Verdict,
    id::{EventId, RunId},
    reads::{ReadSet, Scan},
    row::{Row, RowKey, Run, Source},
    run::record::{Recorded, Then},
};

use super::{MANY, World};
use crate::worker::again;

impl World {
    /// Posts one event that triggers one workflow; returns its run.
    pub async fn send_for_run(&self, name: &str, data: Value) -> RunId {
        let verdict = self.send(name, data).await;
        verdict.run().unwrap_or_else(|| panic!("the event got no run: {verdict:?}"))
    }

    /// Calls an action in a session; returns its run.
    pub async fn call_for_run(&self, flow: &str, action: &str, session: &str) -> RunId {
        let verdict = self.call(flow, action, session, Value::Null).await;
        verdict.run().unwrap_or_else(|| panic!("the request got no run: {verdict:?}"))
    }

    /// Returns an event's data.
    pub async fn data_of(&self, event: EventId) -> Value {
        match self.row(RowKey::Event(event.seq)).await {
            Some(Row::Event(row)) => serde_json::from_str(row.data.as_str()).expect("JSON"),
            other => panic!("{event} has no event row: {other:?}"),
        }
    }

    /// Returns the data of the run's event; for a batch, that of the first event (`ctx.event`).
    pub async fn input_of(&self, run: RunId) -> Value {
        let source = match (self.live(run).await, self.ended(run).await) {
            (Some(run), _) => run.source,
            (None, Some(run)) => run.source,
            (None, None) => panic!("run {run} does not exist"),
        };
        self.data_of(source.first()).await
    }

    /// Returns the data of a batch's events, in order (`ctx.events`); `None` for any other run.
    pub async fn inputs_of(&self, run: RunId) -> Option<Vec<Value>> {
        let live = self.live(run).await.map(|run| run.source);
        let source = live.or(self.ended(run).await.map(|run| run.source));
        let Some(Source::Batch(_)) = source else { return None };
        let scan = Scan::Items(run.seq);
        let snapshot = self.read(ReadSet::default().scan(scan.clone(), MANY)).await;
        let mut inputs = Vec::new();
        for (place, key) in snapshot.scans[&scan].keys.iter().enumerate() {
            let Some(Some(Row::Item(item))) = snapshot.rows.get(key) else { continue };
            assert_eq!(item.n as usize, place, "the items of a batch have a gap");
            inputs.push(self.data_of(item.event).await);
        }
        Some(inputs)
    }

    /// Returns the receipts of an event, oldest first.
    pub async fn receipts_of(&self, event: EventId) -> Vec<Value> {
        let scan = Scan::Receipts(event.seq);
        let snapshot = self.read(ReadSet::default().scan(scan.clone(), MANY)).await;
        let rows = snapshot.scans[&scan].keys.iter().filter_map(|key| snapshot.rows[key].clone());
        let verdicts = rows.filter_map(|row| match row {
            Row::Receipt(receipt) => Some(receipt.verdict),
            _ => None,
        });
        verdicts.collect()
    }

    /// Reports a failed step of a leased run, which will be retried after `delay_ms`.
    pub async fn back_off(&self, run: &Run, step: &str, delay_ms: u64) {
        let then = Then::Suspend(vec![again(step, delay_ms)]);
        assert_eq!(self.report(run, Vec::new(), then).await, Ok(Recorded::LetGo));
    }
}

/// Returns the run of the window that an event joined, and when the window fires.
pub fn window(verdict: &Verdict) -> (RunId, tidegate_core::time::Timestamp) {
    match verdict {
        Verdict::Coalesced { run, fire_at, .. } => (*run, *fire_at),
        other => panic!("expected a coalesced event, got {other:?}"),
    }
}

/// Returns the run of the buffer that an event joined, its number of events, and its flush time.
pub fn buffer(verdict: &Verdict) -> (RunId, u32, tidegate_core::time::Timestamp) {
    match verdict {
        Verdict::Buffered { run, pending, flush_at, .. } => (*run, *pending, *flush_at),
        other => panic!("expected a buffered event, got {other:?}"),
    }
}

/// Returns the run because of which an event was skipped, and the control that skipped it.
pub fn skipped(verdict: &Verdict) -> (RunId, &'static str) {
    match verdict {
        Verdict::Skipped { by, holder } => (*holder, by.control),
        other => panic!("expected a skipped event, got {other:?}"),
    }
}

/// Returns the new run and the run that it replaced.
pub fn replaced(verdict: &Verdict) -> (RunId, RunId) {
    match verdict {
        Verdict::Replaced { run, replaced, .. } => (*run, *replaced),
        other => panic!("expected a replaced run, got {other:?}"),
    }
}
