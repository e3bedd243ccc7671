//! The `why` query: combines the store's explanation with the state of this engine's workers.

use tidegate_core::{
    explain::{Why, Workers},
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Row, Run},
    turn::{Claim, Turn},
};
use tidegate_store::why;

use crate::{api::Engine, error::Error, turns::WorkerKind};

/// Number at which the count of ready runs ahead of a run stops.
const MAX_AHEAD: u32 = 1000;

impl Engine {
    /// Returns why a run waits, or how it ended.
    pub async fn why(&self, run: RunId) -> Result<Why, Error> {
        let mut why = why(&**self.store(), &self.workspace().into(), run).await??;
        if why.ready
            && let (Some(run), _) = self.look_up(run).await?
            && let Some(kind) = self.shared().kind_of(run.lane)
        {
            let ahead = self.ahead_of(&run).await?;
            let workers = self.shared().workers(kind, &run.ws);
            why.wait_for(Workers { ahead, ..workers }, &run.workflow);
        }
        Ok(why)
    }

    /// Returns the workers of this engine, by kind, with the workflows that occupy them.
    pub fn workers(&self) -> Vec<Workers> {
        let ws = self.workspace().into();
        WorkerKind::ALL.into_iter().map(|kind| self.shared().workers(kind, &ws)).collect()
    }

    /// Returns the number of ready runs of the same workflow with a better rank.
    async fn ahead_of(&self, run: &Run) -> Result<usize, Error> {
        let turn = |lane| Turn { workflow: run.turn(), lane };
        let turns = vec![(turn(Turn::FIRST.lane), turn(Turn::LAST.lane))];
        let scan = Scan::Ready(Claim { ws: run.ws.clone(), turns });
        let found = self.store().read(ReadSet::default().scan(scan.clone(), MAX_AHEAD)).await?;
        let ready = found.found(&scan).into_iter().filter_map(Row::as_run);
        Ok(ready.filter(|other| other.rank < run.rank).count())
    }
}
