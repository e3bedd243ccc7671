//! Checks of deferred events and of the chores that deliver them.

use std::collections::BTreeMap;

use super::{Report, Rule};
use crate::{
    id::{ChoreId, Seq},
    row::{Chore, Event, Work},
    time::Timestamp,
};

/// Chores that deliver events, of which the event has not been read yet.
#[derive(Debug, Default)]
pub(super) struct Deliveries(BTreeMap<Seq, (ChoreId, Option<Timestamp>)>);

impl Deliveries {
    pub(super) fn chore(&mut self, chore: &Chore) {
        if matches!(chore.work, Work::Deliver(_)) {
            self.0.insert(chore.id.seq, (chore.id, chore.due));
        }
    }

    pub(super) fn event(&mut self, report: &mut Report, event: &Event) {
        let found = self.0.remove(&event.id.seq);
        let due = found.map(|(_, due)| due);
        let waits = event.delivery.filter(|delivery| delivery.end.is_none());
        if due.is_none() && waits.is_none() {
            return;
        }
        let same = due == waits.map(|delivery| Some(delivery.at));
        report.check(Rule::Deliveries, same, || {
            let (id, delivery) = (event.id, event.delivery);
            format!("{id} has the delivery {delivery:?}, and its chore is due at {due:?}")
        });
    }

    pub(super) fn conclude(self, report: &mut Report) {
        for (chore, _) in self.0.into_values() {
            report.check(Rule::Deliveries, false, || {
                format!("{chore} delivers an event that does not exist")
            });
        }
    }
}
