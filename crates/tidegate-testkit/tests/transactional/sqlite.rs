//! Tests of transactional steps on SQLite: some statements are refused, because a step uses the
//! same connection as all other writes.

use tidegate_store::TransactionError;

use crate::ground::{End, Ground, PAY, Part};

/// Asserts that a statement of a step is refused for this reason, and that the step changes no row.
async fn refused(ground: &Ground, statement: &str, reason: &str) {
    let run = &ground.world.lease_all().await.pop();
    let run = match run {
        Some(run) => run.clone(),
        None => ground.driven().await,
    };
    let before = ground.world.dump().await;
    for part in [Part::new(&[PAY, statement]), Part::new(&[statement]).careless().end(End::Fail)] {
        let careless = part.clone();
        let refused = ground.act(&run, "pay", part).await;
        let Err(TransactionError::Step(error)) = refused else {
            panic!("{statement}: the step {careless:?} did not fail: {refused:?}")
        };
        let planned = error == "the card was declined";
        assert!(planned || error.starts_with(reason), "{statement}: {error}");
    }
    assert_eq!(ground.payments().await.len(), 0, "{statement}");
    assert_eq!(ground.world.dump().await, before, "{statement}");
    ground.world.complete(&run).await;
    ground.world.send("order", serde_json::json!({})).await;
}

#[tokio::test]
async fn a_step_may_not_change_what_is_tidegates() {
    let ground = Ground::sqlite().await.unwrap();
    for statement in [
        "delete from run",
        "update run set fence = 0",
        "insert into meta values ('x', 1)",
        "replace into Meta values ('sequence', 1)",
        "drop table step",
        "alter table step rename to stages",
        "alter table step add column more text",
        "create index mine on run (body)",
        "drop index run_due",
        "create trigger mine after insert on run begin delete from payment; end",
    ] {
        refused(&ground, statement, "a step may not change `").await;
    }
}

#[tokio::test]
async fn a_step_may_leave_nothing_on_the_connection() {
    let ground = Ground::sqlite().await.unwrap();
    for statement in [
        "create temp table run (seq integer)",
        "create temp view run as select 1",
        "create temp trigger mine after insert on payment begin select 1; end",
    ] {
        refused(&ground, statement, "a step may not create temporary objects").await;
    }
    for statement in [
        "pragma synchronous = off",
        "pragma journal_mode",
        "attach ':memory:' as other",
        "detach main",
    ] {
        refused(&ground, statement, "a step may not attach a file or use a pragma").await;
    }
}

#[tokio::test]
async fn a_trigger_of_the_users_does_not_reach_what_is_tidegates() {
    let ground = Ground::sqlite().await.unwrap();
    let run = ground.driven().await;
    let trigger = "create trigger sly after insert on payment begin delete from run; end";
    ground.act(&run, "make", Part::new(&[trigger])).await.unwrap();
    let refused = ground.act(&run, "pay", Part::new(&[PAY])).await;
    let Err(TransactionError::Step(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error, "a step may not change `run`, which is a table of Tidegate");
    assert_eq!(ground.kept(&run).await, (0, 1));
}

#[tokio::test]
async fn a_step_may_make_tables_of_its_own_and_read_ours() {
    let ground = Ground::sqlite().await.unwrap();
    let run = ground.driven().await;
    let part = Part::new(&[
        "create table shop_order (run text primary key)",
        "create index shop_order_of on shop_order (run)",
        "insert into shop_order select seq from run",
        "insert into payment select run from shop_order",
        "create virtual table shop_text using fts5 (line)",
        "insert into shop_text values ('two umbrellas')",
        "select * from shop_text where shop_text match 'umbrellas'",
        "select * from pragma_table_info('shop_order')",
    ]);
    ground.act(&run, "pay", part).await.unwrap();
    assert_eq!(ground.payments().await, [run.id.seq.0.to_string()]);
}

/// After a statement that rolls back the transaction, each further statement would be committed on
/// its own.
#[tokio::test]
async fn a_step_that_goes_on_after_a_rollback_leaves_nothing() {
    let ground = Ground::sqlite().await.unwrap();
    let run = ground.driven().await;
    let table = "create table once (id integer primary key)";
    ground.act(&run, "make", Part::new(&[table, "insert into once values (1)"])).await.unwrap();
    let part = Part::new(&[PAY, "insert or rollback into once values (1)", PAY, PAY]).careless();
    let spoiled = ground.act(&run, "pay", part.clone()).await;
    let Err(TransactionError::Spoiled(reason)) = spoiled else { panic!("{spoiled:?}") };
    assert_eq!(reason, "one of its statements rolled it back, and the step went on");
    assert_eq!(ground.kept(&run).await, (0, 1));
    let failed = ground.act(&run, "pay", part.end(End::Fail)).await;
    assert!(matches!(failed, Err(TransactionError::Step(_))), "{failed:?}");
    assert_eq!(ground.kept(&run).await, (0, 1));
    ground.pay(&run).await.expect("the store can be used after a failed step");
    assert_eq!(ground.kept(&run).await, (1, 2));
}

/// After a step has changed the schema, SQLite compiles the store's statements again. That happens
/// after the step, when its restrictions no longer apply.
#[tokio::test]
async fn a_step_that_changes_the_schema_hinders_nobody() {
    let ground = Ground::sqlite().await.unwrap();
    let run = ground.driven().await;
    for id in ["a", "b"] {
        let table = format!("create table shop_{id} (id integer)");
        ground.act(&run, id, Part::new(&[&table, PAY])).await.unwrap();
    }
    ground.world.complete(&run).await;
    assert_eq!(ground.payments().await.len(), 2);
}
