//! Cache of the definitions last seen by this process, by workspace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_core::{
    catalog::{Catalog, CatalogError},
    reads::Change,
    row::{Def, Epoch, Row, Workspace},
};

/// Cache of catalogs. A catalog is valid for exactly the epoch that it was read at.
///
/// Callers must read the epoch and the definitions at one point in time: under the latch of the
/// definitions, or in one snapshot of the database.
#[derive(Debug, Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<Workspace, Arc<Catalog>>>);

impl Catalogs {
    /// Returns the catalog of this epoch, if it is the one last seen.
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

    /// Applies a committed transaction of this process that changed definitions, so that a process
    /// does not read back its own writes.
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
            // A definition that cannot be read is reported by the next transaction, which reads all
            // of them.
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other row defines anything")]
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
