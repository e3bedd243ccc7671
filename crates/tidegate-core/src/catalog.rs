//! A workspace's definitions, ready to be asked.

use std::sync::Arc;

use crate::row::Def;

/// The definitions of one workspace as of one epoch.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The epoch that it was read at.
    pub epoch: i64,
    defs: Vec<Arc<Def>>,
}

/// A definition that a store kept and that cannot be read any more.
#[derive(Debug, thiserror::Error)]
#[error("the definition of `{name}` version {version} cannot be read: {reason}")]
pub struct CatalogError {
    name: String,
    version: u32,
    reason: String,
}

impl Catalog {
    /// Builds the catalog from all definition rows of a workspace.
    pub fn build(epoch: i64, defs: Vec<Def>) -> Result<Self, CatalogError> {
        Ok(Self { epoch, defs: defs.into_iter().map(Arc::new).collect() })
    }

    /// All versions of everything.
    pub fn defs(&self) -> &[Arc<Def>] {
        &self.defs
    }
}
