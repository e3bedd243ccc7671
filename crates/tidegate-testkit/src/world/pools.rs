//! Pools in a [`World`].

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    pool::{Pool, PoolCommand},
};

use super::World;

impl World {
    /// Creates or changes a pool as an operator does.
    pub async fn put_pool(&self, declaration: Value) {
        let pool = Pool::parse(&declaration).expect("a good pool").value;
        let changed = self.pool(PoolCommand::Put(Box::new(pool))).await;
        assert!(changed.is_ok(), "{declaration}: {changed:?}");
    }

    /// Declares a pool as code does. Returns whether this changed it.
    pub async fn declare_pool(&self, declaration: Value) -> bool {
        let pool = Pool::parse(&declaration).expect("a good pool").value;
        self.pool(PoolCommand::Declare(Box::new(pool))).await.expect("a declaration")
    }

    /// Executes a command on pools.
    pub async fn pool(&self, command: PoolCommand) -> Result<bool, Refusal> {
        match self.run(Command::Pool { ws: self.ws.clone(), command }).await? {
            Answer::Changed(changed) => Ok(changed),
            other => panic!("unexpected answer to a command on pools: {other:?}"),
        }
    }
}
