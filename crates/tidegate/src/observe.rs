//! Looking at events, receipts, gates, windows, buffers and numbers.

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

/// Looking at what the gates read. Nothing is locked, and each look has a bound.
impl Engine {
    /// The posted events of the workspace, newest first, a page at a time: the next one begins
    /// below the last page's `next`. Names are filtered while paging, so that a page may be short
    /// although there are more.
    pub async fn events(&self, name: &Name, part: Part) -> Result<Newest<Event>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| events::list(draft, &ws, name, part)).await?)
    }

    /// An event with its receipts and the runs that carry it; `None` if there is none of this id.
    pub async fn event(&self, id: EventId) -> Result<Option<EventDetails>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| events::show(draft, &ws, id)).await?)
    }

    /// Verdicts other than plain starts, newest first, a page at a time.
    pub async fn receipts(
        &self,
        which: &receipts::ReceiptFilter,
        part: Part,
    ) -> Result<Newest<ReceiptEntry>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| receipts::list(draft, &ws, which, part)).await?)
    }

    /// Gates in the order of their keys, a page at a time: the next one begins after the last
    /// page's `next`.
    pub async fn gates(
        &self,
        which: &gates::GateFilter,
        after: Option<&GateKey>,
        limit: u32,
    ) -> Result<gates::GatePage, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| gates::list(draft, &ws, which, after, limit)).await?)
    }

    /// The gates with the longest lines, longest first, as far as a bounded look finds them;
    /// those of the last look (`known`) are counted again.
    pub async fn busiest_gates(
        &self,
        known: &[GateKey],
        most: usize,
    ) -> Result<Vec<(GateKey, gates::GateView)>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| gates::busiest(draft, &ws, known, most)).await?)
    }

    /// The schedules of the current releases by app, workflow and expression, a page at a time: the
    /// next one begins behind the last page's `next`. With the next occurrences of each.
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

    /// How many runs are driven, queued, waiting and paused, workflow by workflow.
    pub async fn stats(&self) -> Result<Stats, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| stats::stats(draft, &ws)).await?)
    }

    /// Where a run came from: its input, and the runs that it belongs to; `None` if there is none
    /// of this id, or its input is gone.
    pub async fn origin(&self, run: RunId) -> Result<Option<Origin>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| origin::origin(draft, &ws, run)).await?)
    }

    /// The life of a run, part by part; `None` if there is none of this id.
    pub async fn timeline(&self, run: RunId) -> Result<Option<Timeline>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| timeline::timeline(draft, &ws, run)).await?)
    }

    /// What debounces and batches hold, of one app or workflow if they are given.
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
