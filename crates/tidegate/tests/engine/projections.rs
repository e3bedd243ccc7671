//! Projections: folds into the store's own database, in the transaction of the ack.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use serde_json::json;
use tidegate::{Ctx, Engine, Reaction, StepError, StreamEvent, Workflow, testing::TestHarness};
use tidegate_core::reaction::StreamSelection;
use tidegate_store::Database;

use crate::{
    reactions::{append, append_quietly, looking, view},
    words::secs,
};

/// Number of times that the fold still fails after its write.
type Falls = Arc<AtomicUsize>;

fn amount(event: &StreamEvent) -> i64 {
    event.data.as_str().parse().unwrap_or(0)
}

fn falls(falls: &Falls, events: &[StreamEvent]) -> Result<(), StepError> {
    if events.iter().any(|event| event.name == "poison") {
        return Err(StepError::new("cannot be folded").fatal());
    }
    if falls.load(SeqCst) > 0 {
        falls.fetch_sub(1, SeqCst);
        return Err(StepError::new("falls over behind its write"));
    }
    Ok(())
}

/// A reaction that writes the amount of each event to a table, on both databases.
fn summing(table: &str, fall: &Falls) -> Reaction {
    let (table, other, fall, too) =
        (table.to_owned(), table.to_owned(), fall.clone(), fall.clone());
    Reaction::new("sums")
        .source("account-*")
        .fold_sqlite(move |tx, events| {
            tx.execute_batch(&format!("create table if not exists {table} (amount integer)"))?;
            for event in events {
                tx.execute(&format!("insert into {table} values (?1)"), [amount(event)])?;
            }
            falls(&fall, events)
        })
        .fold_postgres(move |tx, events| {
            let (table, fall) = (other.clone(), too.clone());
            async move {
                let create = format!("create table if not exists {table} (amount bigint)");
                tx.execute(&create, &[]).await?;
                for event in &events {
                    let insert = format!("insert into {table} values ($1)");
                    tx.execute(&insert, &[&amount(event)]).await?;
                }
                falls(&fall, &events)
            }
        })
}

/// A workflow that reads or clears the table in a transactional step, which works on every store
/// with a database.
fn looking_in(table: &str, harness: &TestHarness) -> Workflow<String, Vec<i64>> {
    let (table, sqlite) =
        (table.to_owned(), matches!(harness.store().database(), Database::Sqlite(_)));
    Workflow::new("table", move |ctx: Ctx, what: String| {
        let table = table.clone();
        async move {
            let clear = format!("delete from {table} where 'clear' = '{what}'");
            let sum =
                format!("select count(*), cast(coalesce(sum(amount), 0) as bigint) from {table}");
            if sqlite {
                let step = ctx.sqlite_step("look", move |tx| {
                    tx.execute(&clear, [])?;
                    Ok(tx.query_row(&sum, [], |row| Ok(vec![row.get(0)?, row.get(1)?]))?)
                });
                return step.await;
            }
            let step = ctx.postgres_step("look", async |tx| {
                tx.execute(&clear, &[]).await?;
                let row = tx.query_one(&sum, &[]).await?;
                Ok(vec![row.get(0), row.get(1)])
            });
            step.await
        }
    })
}

async fn look(engine: &Engine, what: &str) -> Vec<i64> {
    let run = engine.send("table", what).await.unwrap().run().unwrap();
    engine.output(run).await.unwrap().unwrap()
}

/// A projection counts each event exactly once, even if its transaction fails or its engine
/// crashes. An event that cannot be folded blocks its stream, after the earlier events are folded.
/// A reset rebuilds the projection. On a store without a database the stream is blocked, with an
/// error that says so.
pub(crate) async fn a_projection_is_kept_with_its_ack(harness: &TestHarness) {
    let table = format!("sums_{:016x}", RandomState::new().hash_one(0));
    let fall = Falls::default();
    let serve =
        || looking(harness).reaction(summing(&table, &fall)).workflow(looking_in(&table, harness));
    let engine = serve().start().await.unwrap();
    append(harness, "account-1", &[("put", json!(5)), ("put", json!(7))]).await;
    if matches!(harness.store().database(), Database::None) {
        let answer = view(&engine, "sums", "account-1").await.blocked.unwrap();
        assert!(answer.contains("no fold for a store that is in memory"), "{answer}");
        return;
    }
    assert_eq!(look(&engine, "").await, [2, 12]);
    fall.store(4, SeqCst);
    append_quietly(harness, "account-1", &[("put", json!(1)), ("put", json!(2))]).await;
    append(harness, "account-2", &[("put", json!(3)), ("poison", json!(0)), ("put", json!(9))])
        .await;
    assert_eq!(
        look(&engine, "").await,
        [5, 18],
        "each event before the blocked one must be folded once"
    );
    let stuck = view(&engine, "sums", "account-2").await;
    assert_eq!(stuck.position, 0);
    assert!(stuck.blocked.unwrap().contains("cannot be folded"));
    harness.crash(&engine).await;
    let engine = serve().start().await.unwrap();
    append(harness, "account-1", &[("put", json!(100))]).await;
    harness.advance(secs(32)).await;
    assert_eq!(look(&engine, "").await, [6, 118]);
    assert_eq!(look(&engine, "clear").await, [0, 0]);
    let both = ["account-1", "account-2"].map(str::to_owned);
    assert_eq!(engine.reset("sums", StreamSelection::All).await.unwrap(), both);
    harness.settle().await;
    assert_eq!(look(&engine, "").await, [6, 118], "the table must be rebuilt from the first event");
}
