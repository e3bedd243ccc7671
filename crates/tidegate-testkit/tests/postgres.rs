//! Runs the store contract on the PostgreSQL store.

use std::sync::Arc;

use tidegate_store::{PostgresOptions, PostgresStore, Store, StoreError};
use tidegate_testkit::{
    contract::Open,
    postgres::{fresh_schema, url},
};

struct Schema(String);

impl Open for Schema {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let url = url().expect("PostgreSQL is still available");
        let options = PostgresOptions { schema: self.0.clone(), ..PostgresOptions::default() };
        Ok(Arc::new(PostgresStore::open(url, options).await?))
    }
}

async fn schema() -> Option<Schema> {
    url().map(|_| Schema(fresh_schema("contract")))
}

tidegate_testkit::store_contract!(schema);
tidegate_testkit::durable_contract!(schema);
