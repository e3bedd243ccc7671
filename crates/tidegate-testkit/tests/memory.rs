//! The memory store keeps the contract.

use std::sync::Arc;

use tidegate_store::{MemoryStore, Store, StoreError};
use tidegate_testkit::contract::Open;

struct Memory;

impl Open for Memory {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(MemoryStore::default()))
    }
}

async fn memory() -> Option<Memory> {
    Some(Memory)
}

tidegate_testkit::store_contract!(memory);
