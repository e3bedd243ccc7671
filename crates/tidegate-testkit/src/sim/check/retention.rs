//! Checks of retention: deleted rows were old, and no row refers to them.

use tidegate_core::{
    command::Command,
    id::Seq,
    row::{Row, RowKey},
    time::Timestamp,
};

use super::{Checked, Look, history::History};
use crate::sim::state::State;

impl Look<'_> {
    /// Returns the time before which the commit deletes old rows; `None` if it is no deletion.
    pub(super) fn forgets(&self) -> Option<Timestamp> {
        let moments = self.commands.iter().filter_map(|(command, _)| match command {
            Command::Forget { before, .. } => Some(*before),
            _ => None,
        });
        moments.max()
    }
}

/// Retention deletes only rows that are older than its time and to which no row refers.
pub(super) fn i51(look: &Look<'_>, _: &History) -> Checked {
    let Some(before) = look.forgets() else { return Ok(()) };
    for delta in look.deltas {
        let (Some(row), None) = (&delta.before, &delta.after) else { continue };
        let good = match row {
            Row::Ended(ended) => ended.ended_at < before && !is_past(look.state, ended.id.seq),
            Row::Event(event) => {
                let over = !event.is_deferred() && event.admitted_at() < before;
                over && !is_input(look.state, event.id.seq)
            }
            Row::Receipt(receipt) => receipt.at < before,
            Row::Step(step) => look.state.run(step.run).is_none(),
            Row::Signal(signal) => look.state.run(signal.run).is_none(),
            Row::Item(item) => look.state.run(item.run).is_none(),
            Row::Chunk(chunk) => look.state.run(chunk.run).is_none(),
            _ => false,
        };
        if !good {
            return Err(format!(
                "retention of rows from before {before} deleted a row that it must keep: {row:?}"
            ));
        }
    }
    Ok(())
}

/// Whether an ended run is still stopping, or a live run refers to it.
fn is_past(state: &State, ended: Seq) -> bool {
    state.run(ended).is_some() || state.runs().any(|run| run.past() == Some(ended))
}

/// Whether a run, an ended run, a batch or a window has this event as its input.
fn is_input(state: &State, event: Seq) -> bool {
    let of_row = |row: &Row| match row {
        Row::Run(run) => run.source.first().seq == event,
        Row::Ended(ended) => ended.source.first().seq == event,
        Row::Item(item) => item.event.seq == event,
        Row::Gate(gate) => gate.event() == Some(event),
        _ => false,
    };
    state.rows().any(of_row)
}

/// Returns the ids of rows that retention deleted in this commit.
pub(super) fn forgotten(look: &Look<'_>) -> Vec<Seq> {
    if look.forgets().is_none() {
        return Vec::new();
    }
    let gone = look.deltas.iter().filter(|delta| delta.after.is_none());
    gone.filter_map(|delta| match delta.key {
        RowKey::Ended(seq) | RowKey::Event(seq) => Some(seq),
        _ => None,
    })
    .collect()
}
