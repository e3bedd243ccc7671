//! The definitions that this process has seen last, by workspace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_core::{
    catalog::{Catalog, CatalogError},
    row::{Def, Workspace},
};

/// A cache of catalogs. A catalog is good for exactly the epoch that it was read at.
///
/// Whoever fills it reads the epoch and the definitions at one point in time: under the latch of
/// the definitions, or in one snapshot of the database.
#[derive(Debug, Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<Workspace, Arc<Catalog>>>);

impl Catalogs {
    /// The catalog of that epoch, if it is the one seen last.
    pub(crate) fn get(&self, ws: &Workspace, epoch: i64) -> Option<Arc<Catalog>> {
        self.lock().get(ws).filter(|catalog| catalog.epoch == epoch).cloned()
    }

    /// Builds and keeps a catalog; one that is newer stays.
    pub(crate) fn put(
        &self,
        ws: &Workspace,
        epoch: i64,
        defs: Vec<Def>,
    ) -> Result<Arc<Catalog>, CatalogError> {
        let catalog = Arc::new(Catalog::build(epoch, defs)?);
        let mut seen = self.lock();
        if seen.get(ws).is_none_or(|known| known.epoch <= epoch) {
            seen.insert(ws.clone(), catalog.clone());
        }
        Ok(catalog)
    }

    /// All that were seen.
    pub(crate) fn all(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Workspace, Arc<Catalog>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
