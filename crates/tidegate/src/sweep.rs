//! The sweep: does what is due.

use std::{sync::Arc, time::Duration};

use tidegate_core::{
    command::Command,
    reads::{ReadSet, Scan},
    row::Row,
    time::Timestamp,
};

use crate::{engine::Shared, error::Error};

/// How many due rows of each kind are read at once.
const DUE: u32 = 1000;

/// Does what is due when it is due, and looks now and then for what others have left.
pub(crate) async fn run(shared: &Arc<Shared>) {
    loop {
        let next = match sweep(shared).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "the sweep failed and is tried again");
                shared.pause().await;
                Some(Duration::ZERO)
            }
        };
        let wait = next.unwrap_or(shared.options.poll).min(shared.options.poll);
        shared.alarm.set(shared.timer.elapsed() + wait);
        shared.alarm.ring(&*shared.timer).await;
    }
}

/// Does what is due; says how long it is until the next.
async fn sweep(shared: &Arc<Shared>) -> Result<Option<Duration>, Error> {
    let kinds = [Scan::DueGates, Scan::DueRuns, Scan::DueChores];
    let all = kinds.iter().cloned();
    let reads = all.fold(ReadSet::default(), |reads, scan| reads.scan(scan, DUE));
    let snapshot = shared.store.read(reads).await?;
    let mut next: Option<Timestamp> = None;
    let mut asked = Vec::new();
    for row in kinds.iter().flat_map(|scan| snapshot.found(scan)) {
        let (due, command) = match row {
            Row::Gate(gate) => {
                let Some(scope) = gate.key.scope() else { continue };
                (gate.due, Command::SweepGate { ws: scope.ws, gate: gate.key.clone() })
            }
            Row::Run(run) => (run.due(), Command::SweepRun { ws: run.ws.clone(), run: run.id.seq }),
            Row::Chore(chore) => {
                (chore.due, Command::SweepChore { known: Box::new(chore.clone()) })
            }
            _ => continue,
        };
        let Some(due) = due else { continue };
        if due <= snapshot.now {
            asked.push(shared.ask(command));
        } else {
            next = next.map(|next| next.min(due)).or(Some(due));
        }
    }
    let busy = !asked.is_empty();
    let mut failed = None;
    for answer in asked {
        // One that fails keeps no other from being done.
        failed = answer.await.err().or(failed);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if busy {
        // What was done may have made more due, and there may be more than was read.
        return Ok(Some(Duration::ZERO));
    }
    let until = |due: Timestamp| due.micros().saturating_sub(snapshot.now.micros()).max(0);
    Ok(next.map(|due| Duration::from_micros(until(due).unsigned_abs())))
}
