//! More queries of a [`World`].

use tidegate_core::{
    flow::gate::holders,
    id::{EventId, RunId},
    reads::{ReadSet, Scan},
    row::{Class, Receipt, Row, RowKey, Step},
};

use super::{MANY, World};

impl World {
    /// Returns the record of a step; `None` if it is not recorded.
    pub async fn step_of(&self, run: RunId, step: &str) -> Option<Step> {
        match self.row(RowKey::Step(run.seq, step.to_owned())).await {
            Some(Row::Step(step)) => Some(step),
            _ => None,
        }
    }

    /// Returns the receipts of an event, with the verdicts that the caller got.
    pub async fn receipts(&self, event: EventId) -> Vec<Receipt> {
        let snapshot = self.read(ReadSet::default().scan(Scan::Receipts(event.seq), MANY)).await;
        let rows = snapshot.rows.into_values().flatten();
        let receipt = |row| {
            let Row::Receipt(receipt) = row else { return None };
            Some(receipt)
        };
        rows.filter_map(receipt).collect()
    }

    /// Returns the number of runs that hold a workflow's gates of one class with this key.
    pub async fn inside(&self, workflow: &str, class: Class, key: &str) -> usize {
        let rows = self.dump().await;
        let inside = rows.iter().filter_map(|row| {
            let Row::Gate(gate) = row else { return None };
            let scope = gate.key.scope().expect("a gate's key");
            let here = (&scope.ws, scope.name.as_str(), scope.class) == (&self.ws, workflow, class);
            (here && scope.key.to_string() == key).then(|| holders(gate).len())
        });
        inside.sum()
    }
}
