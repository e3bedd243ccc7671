//! Lists and other queries of a store.

use tidegate_core::{
    draft::{Decided, Draft, Stop},
    id::Seq,
    list::{RunFilter, RunPage, runs},
    reads::ReadSet,
    row::Workspace,
};

use crate::{Store, StoreError};

/// Maximum number of queries for one page of a list. If the filter excludes all runs that they read
/// (a million), the page is empty and the caller continues with the next page.
const MAX_LOOKS: u32 = 1000;

/// Returns the newest runs of a workspace with a number less than `below`, at most `limit` of them.
/// The page is empty only if none of the next million runs matches.
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

/// Runs the query `view` on a workspace. All its reads are from one snapshot, without locks.
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
