//! Builder of pools.

use serde_json::{Map, Value, json};

use super::{Concurrency, Rate, append};

control!(
    /// Limits that several workflows share.
    ///
    /// Declare it with [`EngineBuilder::pool`](crate::EngineBuilder::pool), and use it by its name.
    /// A change through the API stays in force until the code declares something else.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), tidegate::Error> {
    /// // Five calls of the service at once and 100 a minute, of both workflows together.
    /// let pool = Pool::new("openai").concurrency(5).throttle(Rate::per_minute(100).burst(10));
    /// let chat = Workflow::new("chat", async |_: Ctx, _: Value| Ok(()))
    ///     .concurrency(Concurrency::pool("openai"))
    ///     .throttle(Rate::pool("openai"));
    /// let index = Workflow::new("index", async |_: Ctx, _: Value| Ok(()))
    ///     .concurrency(Concurrency::pool("openai").cost(2));
    /// let engine = Engine::in_memory().pool(pool).workflow(chat).workflow(index).start().await?;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    Pool
);

impl Pool {
    /// Creates a pool from its definition in JSON.
    pub fn from_definition(definition: Value) -> Self {
        match definition {
            Value::Object(fields) => Self(fields),
            other => Self(Map::new()).with("name", other),
        }
    }

    /// Creates a pool. It needs at least one limit.
    pub fn new(name: &str) -> Self {
        Self(Map::new()).with("name", json!(name))
    }

    /// Limits the runs inside at once: a number, or a [`Concurrency`].
    pub fn concurrency(self, limit: impl Into<Concurrency>) -> Self {
        self.with("concurrency", limit.into().into_value())
    }

    /// Spreads starts over time. Several rates can be combined; all have one key.
    pub fn throttle(mut self, rate: Rate) -> Self {
        append(self.0.entry("throttle").or_insert(Value::Null), rate.into_value());
        self
    }

    /// Drops inputs beyond the rate. Several rates can be combined; all have one key.
    pub fn rate_limit(mut self, rate: Rate) -> Self {
        append(self.0.entry("rateLimit").or_insert(Value::Null), rate.into_value());
        self
    }
}
