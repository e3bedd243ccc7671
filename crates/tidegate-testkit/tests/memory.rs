//! Runs the store contract on the memory store.

use std::sync::Arc;

use tidegate_core::time::Timestamp;
use tidegate_store::{ManualClock, MemoryStore, Store, StoreError};
use tidegate_testkit::contract::{Open, scans as scans_contract};

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

#[tokio::test]
async fn what_is_due_at_this_moment_is_due() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1000)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
    scans_contract::what_is_due_at_this_moment_is_due(&store).await;
}
