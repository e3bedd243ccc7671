//! `doctor`: checks all rows of one snapshot against the invariants.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::{
    doctor::{Checkup, Report},
    row::{Row, Workspace},
    time::Timestamp,
};

use crate::{StoreError, Visit};

/// Checks all rows that `walk` visits, or only those of one workspace. Runs that ended before
/// `kept_since` may have been deleted: a missing one is no violation.
pub async fn check_up<F>(
    only: Option<Workspace>,
    kept_since: Timestamp,
    walk: impl FnOnce(Visit) -> F,
) -> Result<Report, StoreError>
where
    F: Future<Output = Result<(), StoreError>>,
{
    let checkup = only.map_or_else(Checkup::default, Checkup::of).kept_since(kept_since);
    let checkup = Arc::new(Mutex::new(Some(checkup)));
    let seen = checkup.clone();
    let visit = move |row: &Row| {
        if let Some(checkup) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner) {
            checkup.see(row);
        }
    };
    walk(Box::new(visit)).await?;
    let checkup = checkup.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(checkup.unwrap_or_default().conclude())
}
