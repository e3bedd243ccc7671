//! Cache of the definitions that this process has read, by workspace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_core::{
    catalog::{Catalog, CatalogError},
    reads::Change,
    row::{Def, Epoch, Row, Workspace},
};

/// Cache of catalogs. A catalog is valid for exactly one epoch: the one that was read with it.
///
/// Callers must read the epoch and the definitions at one point in time: under the latch of the
/// definitions, or in one snapshot of the database.
#[derive(Debug, Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<Workspace, Arc<Catalog>>>);

impl Catalogs {
    /// Returns the cached catalog of the workspace, if it is the catalog of this epoch.
    pub(crate) fn get(&self, ws: &Workspace, epoch: i64) -> Option<Arc<Catalog>> {
        self.lock().get(ws).filter(|catalog| catalog.epoch == epoch).cloned()
    }

    /// Builds a catalog and caches it, unless a newer one is cached.
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

    /// Updates the cache after this process has committed changed definitions, so that it need not
    /// read its own changes from the database.
    ///
    /// A transaction increments the epoch by one and holds the latch of the definitions
    /// exclusively, so the catalog of the previous epoch plus the transaction's rows is complete.
    pub(crate) fn follow(&self, redefined: Redefined) {
        let mut seen = self.lock();
        for Epoch { ws, n } in redefined.epochs {
            let Some(cached) = seen.get_mut(&ws).filter(|cached| cached.epoch + 1 == n) else {
                continue;
            };
            let defs = redefined.defs.iter().filter(|def| def.ws == ws).cloned();
            // A definition that cannot be parsed is not cached: the next transaction reads all
            // definitions and reports the error.
            if let Ok(catalog) = cached.advance(n, defs) {
                *cached = Arc::new(catalog);
            }
        }
    }

    /// Returns all cached catalogs.
    pub(crate) fn all(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Workspace, Arc<Catalog>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Definitions and epochs that a transaction changed.
#[derive(Debug, Default)]
pub(crate) struct Redefined {
    epochs: Vec<Epoch>,
    defs: Vec<Def>,
}

impl Redefined {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these rows have definitions")]
    pub(crate) fn by(changes: &[Change]) -> Self {
        let mut redefined = Self::default();
        for change in changes {
            match change {
                Change::Insert(Row::Epoch(epoch)) | Change::Update(Row::Epoch(epoch)) => {
                    redefined.epochs.push(epoch.clone());
                }
                Change::Insert(Row::Def(def)) | Change::Update(Row::Def(def)) => {
                    redefined.defs.push(def.clone());
                }
                _ => {}
            }
        }
        redefined
    }
}
