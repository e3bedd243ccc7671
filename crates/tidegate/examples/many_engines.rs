//! Three engines on one PostgreSQL, standing for three processes: a concurrency limit holds across
//! all of them, and the other engines finish the runs of an engine that shuts down.
//!
//! Uses the database that `TIDEGATE_TEST_POSTGRES` or `DATABASE_URL` names, with its own schema,
//! which is dropped at the end.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "the call takes real time")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::json;
use tidegate::{
    Concurrency, Ctx, Engine, PostgresOptions, PostgresStore, Result, Workflow, WorkflowRef,
};

const CALL: WorkflowRef<serde_json::Value, String> = WorkflowRef::new("call.api");

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Guard that counts concurrent calls. It decrements the count on drop: an engine that shuts down
/// drops unfinished steps.
struct Inside;

impl Inside {
    fn enter() -> Self {
        MOST.fetch_max(INSIDE.fetch_add(1, SeqCst) + 1, SeqCst);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, SeqCst);
    }
}

async fn call(ctx: Ctx, engine: &'static str) -> Result<&'static str> {
    let call = ctx.step("call", || async {
        let _inside = Inside::enter();
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    });
    call.await?;
    ctx.sleep("settle", Duration::from_millis(20)).await?;
    Ok(engine)
}

async fn engine(url: &str, schema: &str, name: &'static str) -> Result<Engine> {
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    let store = PostgresStore::open(url, options).await?;
    let call = Workflow::new(CALL.name(), move |ctx, _: serde_json::Value| call(ctx, name))
        .concurrency(Concurrency::limit(2));
    Ok(Engine::builder(Arc::new(store)).workers(4).workflow(call).start().await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let named = ["TIDEGATE_TEST_POSTGRES", "DATABASE_URL"].map(|name| std::env::var(name).ok());
    let Some(url) = named.into_iter().flatten().next() else {
        println!("set DATABASE_URL to a PostgreSQL to see this");
        return Ok(());
    };
    let schema = format!("example_{}", std::process::id());
    let mut engines = Vec::new();
    for name in ["one", "two", "three"] {
        engines.push(engine(&url, &schema, name).await?);
    }
    let mut runs = Vec::new();
    for n in 0..30 {
        runs.push(engines[n % 3].start(&CALL, json!({ "n": n })).await?.id());
    }
    // One engine shuts down in the middle, as in a deploy.
    engines[0].shutdown().await;
    let mut by = std::collections::BTreeMap::<String, u32>::new();
    for run in runs {
        *by.entry(engines[1].handle(run).output().await?).or_default() += 1;
    }
    println!("finished by {by:?}, at most {} at once", MOST.load(SeqCst));
    assert_eq!(by.values().sum::<u32>(), 30);
    assert!(MOST.load(SeqCst) <= 2);

    for engine in &engines[1..] {
        engine.shutdown().await;
    }
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(&format!("drop schema {schema} cascade")).await?;
    Ok(())
}
