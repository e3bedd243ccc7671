//! Queries of events, receipts, gates, windows, buffers and counts.

use tidegate_core::{
    id::{EventId, RunId},
    observe::{
        Newest, Part,
        events::{self, EventDetails, Name},
        folds::{self, FlowState},
        gates,
        origin::{self, Origin},
        receipts::{self, ReceiptEntry},
        schedules,
        stats::{self, Stats},
        timeline::{self, Timeline},
    },
    row::{Event, GateKey},
};
use tidegate_store::look;

use crate::{api::Engine, error::Error, schedule};

/// Queries of events, gates, schedules and runs. They take no locks, and the rows that each one
/// reads are limited.
impl Engine {
    /// Returns a page of the workspace's posted events, newest first.
    ///
    /// For the next page, pass this page's `next`. The name filter applies while paging, so a page
    /// may be short although there are more events.
    pub async fn events(&self, name: &Name, part: Part) -> Result<Newest<Event>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| events::list(draft, &ws, name, part)).await?)
    }

    /// Returns an event with its receipts and the runs that it is an input of; `None` if no event
    /// has this id.
    pub async fn event(&self, id: EventId) -> Result<Option<EventDetails>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| events::show(draft, &ws, id)).await?)
    }

    /// Returns a page of receipts (verdicts other than plain starts), newest first.
    pub async fn receipts(
        &self,
        which: &receipts::ReceiptFilter,
        part: Part,
    ) -> Result<Newest<ReceiptEntry>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| receipts::list(draft, &ws, which, part)).await?)
    }

    /// Returns a page of gates in the order of their keys.
    ///
    /// For the next page, pass this page's `next`.
    pub async fn gates(
        &self,
        which: &gates::GateFilter,
        after: Option<&GateKey>,
        limit: u32,
    ) -> Result<gates::GatePage, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| gates::list(draft, &ws, which, after, limit)).await?)
    }

    /// Returns the gates with the longest queues, longest first. The query is bounded and may miss
    /// some.
    ///
    /// The gates of the last query (`known`) are always counted again.
    pub async fn busiest_gates(
        &self,
        known: &[GateKey],
        most: usize,
    ) -> Result<Vec<(GateKey, gates::GateView)>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| gates::busiest(draft, &ws, known, most)).await?)
    }

    /// Returns a page of the schedules of all released versions, ordered by app, workflow and
    /// expression, with the next occurrences of each.
    ///
    /// For the next page, pass this page's `next`.
    pub async fn schedules(
        &self,
        which: &schedules::ScheduleFilter,
        after: Option<&schedules::Place>,
        limit: u32,
    ) -> Result<schedules::SchedulePage, Error> {
        let (ws, store) = (self.ws(), &**self.store());
        let (now, mut page) = look(store, &ws, |draft| {
            Ok((draft.now(), schedules::list(draft, &ws, which, after, limit)?))
        })
        .await?;
        page.schedules.iter_mut().for_each(|shown| schedule::foresee(shown, now));
        Ok(page)
    }

    /// Returns the numbers of driven, queued, waiting and paused runs, per workflow.
    pub async fn stats(&self) -> Result<Stats, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| stats::stats(draft, &ws)).await?)
    }

    /// Returns the origin of a run: its input, its parent and its children; `None` if no
    /// run has this id or its input has been deleted.
    pub async fn origin(&self, run: RunId) -> Result<Option<Origin>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| origin::origin(draft, &ws, run)).await?)
    }

    /// Returns the phases of a run with their times; `None` if no run has this id.
    pub async fn timeline(&self, run: RunId) -> Result<Option<Timeline>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| timeline::timeline(draft, &ws, run)).await?)
    }

    /// Returns the open windows and buffers of debounces and batches, of one app or workflow if
    /// given.
    pub async fn flow_state(
        &self,
        app: Option<&str>,
        workflow: Option<&str>,
    ) -> Result<FlowState, Error> {
        let ws = self.ws();
        let state =
            look(&**self.store(), &ws, |draft| folds::flow_state(draft, &ws, app, workflow));
        Ok(state.await?)
    }
}
