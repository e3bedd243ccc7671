//! Context of the demo's traffic generators.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tidegate::{Engine, Posted};
use tokio::sync::watch;

use super::{chance::Chance, ledger::Ledger};

/// Context of the traffic generator of one theme.
#[derive(Clone, Debug)]
pub(super) struct Town {
    pub(super) engine: Engine,
    pub(super) ledger: Arc<Ledger>,
    /// URL of the server, for requests over HTTP.
    pub(super) server: String,
    pub(super) http: reqwest::Client,
    pub(super) seed: u64,
    /// Becomes true when the traffic generators must stop.
    pub(super) closing: watch::Receiver<bool>,
}

impl Town {
    pub(super) fn chance(&self, theme: &str) -> Chance {
        Chance::new(self.seed, theme)
    }

    /// Waits. Returns true to continue, and false if the traffic must stop.
    pub(super) async fn pause(&self, ms: u64) -> bool {
        let mut closing = self.closing.clone();
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => false,
            () = tokio::time::sleep(Duration::from_millis(ms)) => true,
        }
    }

    /// Posts an event.
    pub(super) async fn send(&self, name: &str, data: impl Serialize) -> anyhow::Result<Posted> {
        let posted = self.engine.send(name, data).await?;
        self.ledger.count("sent", 1);
        posted.run().into_iter().for_each(|run| self.ledger.promise(run));
        Ok(posted)
    }
}
