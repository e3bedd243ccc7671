//! Lists out of a store.

use tidegate_core::{
    draft::{Draft, Stop},
    id::Seq,
    list::{Page, Which, runs},
    reads::ReadSet,
    row::Workspace,
};

use crate::{Store, StoreError};

/// The newest runs of a workspace below a number, at most `limit` of them.
pub async fn list_runs(
    store: &dyn Store,
    ws: &Workspace,
    which: &Which,
    below: Option<Seq>,
    limit: u32,
) -> Result<Page, StoreError> {
    let mut reads = ReadSet::default().catalog(ws);
    for _ in 0..crate::MAX_ROUNDS {
        let draft = Draft::new(store.read(reads.clone()).await?);
        match runs::<()>(&draft, ws, which, below, limit) {
            Ok(page) => return Ok(page),
            Err(Stop::Need(more)) => reads.merge(*more),
            Err(Stop::Refused(()) | Stop::Full) => break,
        }
    }
    Err(StoreError::TooManyRounds)
}
