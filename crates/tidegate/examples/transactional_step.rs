//! Transactional step: a payment in the store's own SQLite file. The effect and its record are one
//! transaction, so the payment happens exactly once despite failed attempts and crashes.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use tidegate::{
    Ctx, Result, SqliteStore, StepError, Workflow,
    testing::{TestHarness, VirtualClock},
};

/// Number of attempts at the payment, and of attempts at the mail.
static PAYMENTS: AtomicU32 = AtomicU32::new(0);
static MAILS: AtomicU32 = AtomicU32::new(0);

async fn pay(ctx: Ctx, _: Value) -> Result<i64> {
    // The application's tables live beside those of the store.
    let open = ctx.sqlite_step("open", |tx| {
        tx.execute_batch("create table shop_account (balance integer)")?;
        Ok(tx.execute("insert into shop_account values (100)", [])?)
    });
    open.await?;
    let left = ctx.sqlite_step("pay", |tx| {
        tx.execute("update shop_account set balance = balance - 30", [])?;
        if PAYMENTS.fetch_add(1, SeqCst) == 0 {
            return Err(StepError::new("the first attempt fails after its update"));
        }
        Ok(tx.query_row("select balance from shop_account", [], |row| row.get(0))?)
    });
    let left: i64 = left.await?;
    let mail = ctx.step("mail", || async {
        match MAILS.fetch_add(1, SeqCst) {
            0 => pending().await, // the process crashes here
            _ => Ok(()),
        }
    });
    mail.await?;
    Ok(left)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("tidegate-transactional-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::open(dir.join("shop.db"), clock.clone()).await?;
    let harness = TestHarness::on(Arc::new(store), clock);
    let ttl = Duration::from_secs(30);
    let serve = || harness.engine().lease_ttl(ttl).workflow(Workflow::new("pay", pay));
    let engine = serve().start().await?;
    let run = engine.start::<_, i64>("pay", Value::Null).await?.id();
    harness.advance(Duration::from_mins(1)).await;
    assert_eq!((PAYMENTS.load(SeqCst), MAILS.load(SeqCst)), (2, 1));
    println!("before the crash: paid at the second attempt, and one mail begun");
    harness.crash(&engine).await;

    let engine = serve().start().await?;
    harness.advance(3 * ttl).await;
    let left: i64 = engine.handle(run).output().await?;
    println!("after it: the mail begun again, the payment not: {left} left of 100");
    assert_eq!((PAYMENTS.load(SeqCst), MAILS.load(SeqCst), left), (2, 2, 70));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
