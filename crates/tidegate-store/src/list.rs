//! Lists and other looks at a store.

use tidegate_core::{
    draft::{Decided, Draft, Stop},
    id::Seq,
    list::{RunFilter, RunPage, runs},
    reads::ReadSet,
    row::Workspace,
};

use crate::{Store, StoreError};

/// How often a list goes on where all that it has looked at was left out by a filter: a million
/// runs. Beyond that its reader goes on, from page to page.
const MAX_LOOKS: u32 = 1000;

/// The newest runs of a workspace below a number, at most `limit` of them. A page is empty only if
/// no older run fits, or none among a million.
pub async fn list_runs(
    store: &dyn Store,
    ws: &Workspace,
    which: &RunFilter,
    mut below: Option<Seq>,
    limit: u32,
) -> Result<RunPage, StoreError> {
    let mut looks = 0;
    loop {
        let page = look(store, ws, |draft| runs(draft, ws, which, below, limit)).await?;
        looks += 1;
        if !page.runs.is_empty() || page.next.is_none() || looks >= MAX_LOOKS {
            return Ok(page);
        }
        below = page.next;
    }
}

/// Looks at a workspace: all that `view` asks for is read at one moment and without any lock.
pub async fn look<T>(
    store: &dyn Store,
    ws: &Workspace,
    view: impl Fn(&Draft) -> Decided<T, ()>,
) -> Result<T, StoreError> {
    let mut reads = ReadSet::default().catalog(ws);
    for _ in 0..crate::MAX_ROUNDS {
        let draft = Draft::new(store.read(reads.clone()).await?);
        match view(&draft) {
            Ok(seen) => return Ok(seen),
            Err(Stop::Need(more)) => reads.merge(*more),
            Err(Stop::Refused(()) | Stop::Full) => break,
        }
    }
    Err(StoreError::TooManyRounds)
}
