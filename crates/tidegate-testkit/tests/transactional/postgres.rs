//! Tests of transactional steps on PostgreSQL, where a step runs at the same time as other
//! transactions.

use std::{pin::Pin, task::Poll, time::Duration};

use serde_json::json;
use tidegate_core::run::record::Then;
use tidegate_store::{PostgresOptions, PostgresTransaction, SqlError, TransactionError};
use tokio::sync::oneshot;

use crate::ground::{AMPLE, Ground, PAY, Part, STUCK};

/// While the statements of a step run, all other transactions continue, even those that need the
/// run of that step or a gate that it holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_step_delays_nobody() {
    let options = PostgresOptions { steps: 1, committers: 1, ..PostgresOptions::default() };
    let Some(ground) = Ground::postgres_with(options).await else { return };
    let run = ground.driven().await;
    let (inside, is_inside) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let record = ground.recording(&run, "pay");
    let long = ground.server().transact_with(
        AMPLE,
        |tx: PostgresTransaction| async move {
            tx.execute(PAY, &[]).await?;
            inside.send(()).unwrap();
            gone.await.unwrap();
            Ok::<_, SqlError>(())
        },
        |()| vec![record],
    );
    let others = async {
        is_inside.await.unwrap();
        ground.world.send("order", json!({})).await;
        let other = ground.world.lease_one().await;
        ground.world.complete(&other).await;
        ground.world.signal(run.id, "hurry", json!(1)).await.unwrap();
        ground.world.report(&run, Vec::new(), Then::Continue).await.unwrap();
        assert_eq!(ground.payments().await.len(), 0, "the step was committed before its end");
        go.send(()).unwrap();
    };
    let both = Box::pin(async { tokio::join!(long, others) });
    let (kept, ()) = tokio::time::timeout(STUCK, both).await.unwrap();
    kept.unwrap();
    assert_eq!(ground.kept(&run).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_nobody_waits_for_is_undone() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    let (inside, is_inside) = oneshot::channel();
    let record = ground.recording(&run, "pay");
    let never = ground.server().transact_with(
        AMPLE,
        |tx: PostgresTransaction| async move {
            tx.execute(PAY, &[]).await?;
            inside.send(()).unwrap();
            std::future::pending::<Result<(), SqlError>>().await
        },
        |()| vec![record],
    );
    tokio::select! {
        _ = never => panic!("the step ended"),
        inside = is_inside => inside.unwrap(),
    }
    ground.until("state like 'idle in transaction%'", false).await;
    assert_eq!(ground.kept(&run).await, (0, 0));
    ground.pay(&run).await.unwrap();
    assert_eq!(ground.kept(&run).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_over_when_its_step_is() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    let record = ground.recording(&run, "pay");
    let step = |tx: PostgresTransaction| async { Ok::<_, SqlError>(tx) };
    let kept = ground.server().transact_with(AMPLE, step, |_| vec![record]).await.unwrap();
    let error = kept.value.execute(PAY, &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "the step's part of the transaction is over");
    assert_eq!(ground.kept(&run).await, (0, 1));
}

/// If the record of a step must wait for locks, it is retried, and the step's writes are not rolled
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_has_to_wait_keeps_the_work() {
    let options = PostgresOptions {
        lock_timeout: Duration::from_millis(20),
        patience: STUCK,
        ..PostgresOptions::default()
    };
    let Some(ground) = Ground::postgres_with(options).await else { return };
    let run = ground.driven().await;
    let schema = ground.schema();
    let lock = format!("begin; select from {schema}.run for update");
    ground.outside().batch_execute(&lock).await.unwrap();
    let others = async {
        // The wait for the lock has timed out, and the transaction has failed after the savepoint.
        ground.until("state = 'idle in transaction (aborted)'", true).await;
        ground.outside().batch_execute("commit").await.unwrap();
    };
    let (kept, ()) = tokio::join!(ground.pay(&run), others);
    kept.unwrap();
    assert_eq!(ground.kept(&run).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_goes_on_after_a_failed_statement_leaves_nothing() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    let part = Part::new(&[PAY, "select 1/0", PAY]).careless();
    let spoiled = ground.act(&run, "pay", part).await;
    let Err(TransactionError::Spoiled(reason)) = spoiled else { panic!("{spoiled:?}") };
    assert!(reason.starts_with("one of its statements failed, and the step went on"), "{reason}");
    assert_eq!(ground.kept(&run).await, (0, 0));
}

/// Deferred constraints are checked before the record. Otherwise COMMIT would check them while the
/// store holds its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_step_deferred_is_checked_before_its_record() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    let tables = "create table account (id int primary key);
                  create table debit (account int references account deferrable initially deferred)";
    ground.outside().batch_execute(tables).await.unwrap();
    let part = Part::new(&[PAY, "insert into debit values (7)"]);
    let spoiled = ground.act(&run, "pay", part).await;
    let Err(TransactionError::Spoiled(reason)) = spoiled else { panic!("{spoiled:?}") };
    assert!(reason.contains("violates foreign key constraint"), "{reason}");
    assert!(reason.contains("Key (account)=(7) is not present"), "{reason}");
    assert_eq!(ground.kept(&run).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_step_sets_is_neither_ours_nor_the_next_steps() {
    let options = PostgresOptions { steps: 1, ..PostgresOptions::default() };
    let Some(ground) = Ground::postgres_with(options).await else { return };
    let run = ground.driven().await;
    for (id, setting) in [
        ("a", "set search_path = nowhere"),
        ("b", "set local search_path = nowhere"),
        ("c", "set statement_timeout = '1ms'"),
        ("d", "set synchronous_commit = off"),
        ("e", "set role pg_monitor"),
        ("f", "set session authorization pg_monitor"),
        ("g", "set session_replication_role = replica"),
    ] {
        let kept = ground.act(&run, id, Part::new(&[PAY, setting])).await;
        kept.unwrap_or_else(|error| panic!("{setting}: {error}"));
    }
    let record = ground.recording(&run, "look");
    let look = |tx: PostgresTransaction| async move {
        let sql = "select current_setting('synchronous_commit'), session_user::text, \
                   current_setting('session_replication_role'), \
                   current_setting('enable_seqscan')";
        let row = tx.query_one(sql, &[]).await?;
        Ok::<_, SqlError>([0, 1, 2, 3].map(|at| row.get::<_, String>(at)))
    };
    let seen = ground.server().transact_with(AMPLE, look, |_| vec![record]).await.unwrap().value;
    assert_eq!([&seen[0], &seen[2], &seen[3]], ["on", "origin", "on"]);
    assert_ne!(seen[1], "pg_monitor");
    assert_eq!(ground.kept(&run).await, (7, 8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_cannot_change_how_its_transaction_sees_others() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    let serializable = "set transaction isolation level serializable";
    let refused = ground.act(&run, "pay", Part::new(&[serializable, PAY])).await;
    let Err(TransactionError::Step(error)) = refused else { panic!("{refused:?}") };
    assert!(error.contains("must be called before any query"), "{error}");
    let spoiled = ground.act(&run, "pay", Part::new(&[PAY, "set transaction read only"])).await;
    assert!(matches!(spoiled, Err(TransactionError::Spoiled(_))), "{spoiled:?}");
    assert_eq!(ground.kept(&run).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_in_the_way_of_a_step_are_a_reason_to_try_again() {
    let Some(ground) = Ground::postgres().await else { return };
    let run = ground.driven().await;
    ground.outside().batch_execute("begin; lock table payment").await.unwrap();
    let step = |tx: PostgresTransaction| async move {
        tx.execute("set local lock_timeout = '1ms'", &[]).await?;
        tx.execute(PAY, &[]).await
    };
    let record = ground.recording(&run, "pay");
    let refused = ground.server().transact_with(AMPLE, step, |_| vec![record]).await;
    let Err(TransactionError::Step(error)) = refused else { panic!("{refused:?}") };
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "canceling statement due to lock timeout (55P03)");
    ground.outside().batch_execute("commit").await.unwrap();
    ground.pay(&run).await.unwrap();
    let wrong = ground.act(&run, "more", Part::new(&["select 1/0"])).await.unwrap_err();
    assert_eq!(wrong.to_string(), "division by zero (22012)");
}

/// If two transactions insert the same new gate, the insert of the second one fails and its record
/// is retried, but the step's writes are not rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_meet_at_a_new_gate_are_all_kept() {
    let options = PostgresOptions { steps: 6, ..PostgresOptions::default() };
    let Some(ground) = Ground::postgres_with(options).await else { return };
    let child = json!({ "name": "child", "concurrency": { "limit": 1, "key": "k" } });
    ground.world.define(child).await;
    ground.world.define(json!({ "name": "order" })).await;
    for k in 0..4 {
        for _ in 0..6 {
            ground.world.send("order", json!({})).await;
        }
        let mut orders = ground.world.lease_all().await;
        orders.retain(|run| run.workflow == "order");
        let paying = orders.iter().map(|run| {
            let commands = vec![ground.sending(run, "child", &json!({ "k": k }))];
            Box::pin(ground.act_with(commands, Part::new(&[PAY])))
        });
        for kept in futures_of(paying.collect()).await {
            kept.unwrap();
        }
    }
    assert_eq!(ground.payments().await.len(), 24);
    ground.world.check_holds().await;
}

/// Polls all futures concurrently, and returns their results.
async fn futures_of<F: Future + Unpin>(mut all: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(output) = Pin::new(future).poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
