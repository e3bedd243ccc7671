//! Projection: a table of balances in the store's own database, updated in the transaction that
//! acks the events. Each event counts once even if an engine crashes, and the table can be rebuilt
//! at any time.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{
    Ctx, Engine, Reaction, Result, SqliteStore, SqliteTransaction, StreamEvent, StreamSelection,
    Workflow, events,
    testing::{TestHarness, VirtualClock},
};

#[derive(Serialize, Deserialize)]
enum Account {
    Opened,
    Deposited(i64),
    Withdrawn(i64),
}

/// Applies a batch of events of one account to that account's row.
fn balances(tx: &SqliteTransaction<'_>, batch: &[StreamEvent]) -> Result<()> {
    tx.execute_batch(
        "create table if not exists shop_balance (account text primary key, balance integer)",
    )?;
    for event in batch {
        let amount = match event.read()? {
            Account::Opened => 0,
            Account::Deposited(amount) => amount,
            Account::Withdrawn(amount) => -amount,
        };
        tx.execute(
            "insert into shop_balance values (?1, ?2)
             on conflict (account) do update set balance = balance + excluded.balance",
            (&event.stream, amount),
        )?;
    }
    Ok(())
}

/// Reads the table; with `forget`, deletes its rows first.
async fn table(ctx: Ctx, forget: bool) -> Result<Vec<(String, i64)>> {
    let step = ctx.sqlite_step("table", move |tx| {
        if forget {
            tx.execute("delete from shop_balance", [])?;
        }
        let mut select =
            tx.prepare("select account, balance from shop_balance order by account")?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<std::result::Result<_, _>>()?)
    });
    step.await
}

async fn look(engine: &Engine, forget: bool) -> Result<Vec<(String, i64)>> {
    Ok(engine.start("table", forget).await?.output().await?)
}

async fn commit(engine: &Engine, stream: &str, account: &[Account]) -> Result<()> {
    let new = account.iter().map(events::of).collect::<Result<_, _>>()?;
    engine.streams().commit(stream, new, None).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("tidegate-projection-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::open(dir.join("shop.db"), clock.clone()).await?;
    let harness = TestHarness::on(Arc::new(store), clock);
    let serve = || {
        let reaction = Reaction::new("balances").source("account-*").fold_sqlite(balances);
        harness.engine().reaction(reaction).workflow(Workflow::new("table", table))
    };
    let engine = serve().start().await?;
    for n in [1, 2] {
        let stream = format!("account-{n}");
        let account = [Account::Opened, Account::Deposited(100 * n), Account::Withdrawn(30)];
        commit(&engine, &stream, &account).await?;
    }
    harness.advance(Duration::from_secs(1)).await;
    let expected = vec![("account-1".to_owned(), 70), ("account-2".to_owned(), 170)];
    assert_eq!(look(&engine, false).await?, expected);
    println!("folded: {expected:?}");

    harness.crash(&engine).await;
    let engine = serve().start().await?;
    harness.advance(Duration::from_mins(1)).await;
    assert_eq!(look(&engine, false).await?, expected);
    println!("after a crash: the same, each event counts once");

    assert_eq!(look(&engine, true).await?, []);
    engine.reset("balances", StreamSelection::All).await?;
    harness.settle().await;
    assert_eq!(look(&engine, false).await?, expected);
    println!("forgotten and rebuilt from the first event: the same");
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
