//! Pools: limits that several workflows share.

use serde_json::Value;
use tidegate_core::{
    catalog::Catalog,
    command::{Answer, Command},
    pool::{self, Pool, PoolCommand, PoolRefusal},
    reads::ReadSet,
};

use crate::{
    api::{Engine, unexpected},
    error::Error,
    parse,
};

/// A pool with the workflows that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolView {
    /// The name.
    pub name: String,
    /// The limits, as their author writes them.
    pub definition: Value,
    /// The workflows whose current release uses it: `name`, or `app:name` outside of the default
    /// app.
    pub users: Vec<String>,
}

impl PoolView {
    fn new(catalog: &Catalog, pool: &Pool) -> Self {
        let (name, definition) = (pool.name.clone(), pool.to_value());
        Self { users: pool::users(catalog, &name), name, definition }
    }
}

/// Pools.
impl Engine {
    /// Returns all pools of the workspace, by name.
    pub async fn pools(&self) -> Result<Vec<PoolView>, Error> {
        let ws = self.ws();
        let catalogs = self.store().read(ReadSet::default().catalog(&ws)).await?.catalogs;
        let catalog = catalogs.get(&ws).cloned().unwrap_or_default();
        Ok(catalog.pools().iter().map(|pool| PoolView::new(&catalog, pool)).collect())
    }

    /// Returns a pool by name.
    pub async fn pool(&self, name: &str) -> Result<PoolView, Error> {
        let ws = self.ws();
        let catalogs = self.store().read(ReadSet::default().catalog(&ws)).await?.catalogs;
        let catalog = catalogs.get(&ws).cloned().unwrap_or_default();
        let Some(pool) = catalog.pools().get(name) else {
            return Err(Error::Refused(PoolRefusal::unknown(catalog.pools(), name).into()));
        };
        Ok(PoolView::new(&catalog, pool))
    }

    /// Creates or replaces a pool. Returns whether this changed anything.
    ///
    /// New limits apply from the commit on, on every engine. A lower limit evicts no run. The
    /// workflows get no new versions.
    pub async fn put_pool(&self, declaration: &Value) -> Result<bool, Error> {
        let pool = parse::pool(declaration).map_err(Error::Definition)?.value;
        self.change_pool(PoolCommand::Put(Box::new(pool))).await
    }

    /// Declares pools as the code of a program does: a declaration that is the same as its last one
    /// has no effect, so that it does not undo [`Engine::put_pool`].
    ///
    /// All of them are checked before the first is declared.
    pub async fn declare_pools(&self, declarations: &[Value]) -> Result<(), Error> {
        let (mut pools, mut problems) = (Vec::new(), Vec::new());
        for declaration in declarations {
            match parse::pool(declaration) {
                Ok(parsed) => pools.push(parsed.value),
                Err(more) => problems.extend(more),
            }
        }
        if !problems.is_empty() {
            return Err(Error::Definition(problems));
        }
        for pool in pools {
            self.change_pool(PoolCommand::Declare(Box::new(pool))).await?;
        }
        Ok(())
    }

    /// Removes a pool. It is refused while a workflow uses the pool.
    pub async fn remove_pool(&self, name: &str) -> Result<(), Error> {
        self.change_pool(PoolCommand::Remove(name.to_owned())).await.map(drop)
    }

    async fn change_pool(&self, command: PoolCommand) -> Result<bool, Error> {
        match self.ask(Command::Pool { ws: self.ws(), command }).await? {
            Answer::Changed(changed) => {
                // Wakes other engines, because queued runs may fit now.
                self.store().wake();
                Ok(changed)
            }
            other => Err(unexpected(&other)),
        }
    }
}
