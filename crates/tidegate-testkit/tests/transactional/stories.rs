//! Tests of transactional steps that run on both databases.

use std::time::Duration;

use tidegate_core::{
    command::{Command, Refusal},
    row::Run,
    run::record::Then,
};
use tidegate_store::{Database, Store, StoreError, TransactionError};
use tidegate_testkit::{fault::FaultStore, world::step};

use crate::ground::{End, Ground, PAY, Part, recorded};

macro_rules! stories {
    ($($story:ident,)*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(super::Ground::sqlite().await.unwrap()).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                let Some(ground) = super::Ground::postgres().await else { return };
                super::$story(ground).await;
            })*
        }
    };
}

stories! {
    effect_and_record_are_kept_together,
    a_run_may_take_many_steps,
    an_error_of_the_step_leaves_neither,
    a_panic_of_the_step_leaves_neither,
    a_worker_that_lost_its_lease_leaves_neither,
    a_cancelled_run_has_no_effect,
    a_step_that_is_recorded_already_has_no_second_effect,
    two_that_race_have_one_effect,
    an_effect_without_a_record_is_refused,
    one_refused_command_undoes_all,
    a_step_that_takes_too_long_is_undone,
    a_step_cannot_end_its_transaction,
    a_step_may_undo_a_part_by_a_savepoint,
    what_the_database_says_comes_back_readable,
    whoever_holds_the_store_finds_its_database,
}

async fn effect_and_record_are_kept_together(ground: Ground) {
    let run = ground.driven().await;
    assert_eq!(ground.pay(&run).await.unwrap(), recorded());
    assert_eq!(ground.payments().await, ["order"]);
    let step = ground.world.step_of(run.id, "pay").await.unwrap();
    assert_eq!(step.result.unwrap().as_str(), "\"paid\"");
    ground.world.complete(&run).await;
    assert_eq!(ground.world.state(run.id).await, "completed");
}

async fn a_run_may_take_many_steps(ground: Ground) {
    let run = ground.driven().await;
    for id in ["a", "b", "c"] {
        ground.act(&run, id, Part::new(&[PAY])).await.unwrap();
    }
    assert_eq!(ground.kept(&run).await, (3, 3));
}

async fn an_error_of_the_step_leaves_neither(ground: Ground) {
    let run = ground.driven().await;
    let failed = ground.act(&run, "pay", Part::new(&[PAY]).end(End::Fail)).await;
    let Err(TransactionError::Step(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error, "the card was declined");
    assert_eq!(ground.kept(&run).await, (0, 0));
    ground.pay(&run).await.expect("a second attempt succeeds");
    assert_eq!(ground.kept(&run).await, (1, 1));
}

async fn a_panic_of_the_step_leaves_neither(ground: Ground) {
    let run = ground.driven().await;
    let ground = std::sync::Arc::new(ground);
    let (its, its_run) = (ground.clone(), run.clone());
    let panics = async move { its.act(&its_run, "pay", Part::new(&[PAY]).end(End::Panic)).await };
    let panicked = tokio::spawn(panics).await.unwrap_err();
    assert_eq!(*panicked.into_panic().downcast::<&str>().unwrap(), "as planned");
    assert_eq!(ground.kept(&run).await, (0, 0));
    ground.pay(&run).await.expect("the store still works");
    assert_eq!(ground.kept(&run).await, (1, 1));
}

async fn a_worker_that_lost_its_lease_leaves_neither(ground: Ground) {
    let lost = ground.driven().await;
    assert_eq!(ground.world.lose(ground.world.engine).await, 1);
    let fenced = Refusal::Fenced { run: lost.id.seq, fence: lost.fence };
    for _ in 0..2 {
        let refused = ground.pay(&lost).await;
        let Err(TransactionError::Refused(refusal)) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal, fenced);
        assert_eq!(ground.kept(&lost).await, (0, 0));
    }
    let ground = ground.successor();
    let taken = ground.world.lease_one().await;
    ground.pay(&taken).await.unwrap();
    assert!(matches!(ground.pay(&lost).await, Err(TransactionError::Refused(_))));
    assert_eq!(ground.kept(&taken).await, (1, 1));
}

async fn a_cancelled_run_has_no_effect(ground: Ground) {
    let run = ground.driven().await;
    ground.world.cancel(run.id).await.unwrap();
    assert!(matches!(ground.pay(&run).await, Err(TransactionError::Refused(_))));
    assert_eq!(ground.kept(&run).await, (0, 0));
}

async fn a_step_that_is_recorded_already_has_no_second_effect(ground: Ground) {
    let run = ground.driven().await;
    ground.pay(&run).await.unwrap();
    for _ in 0..2 {
        let again = ground.pay(&run).await;
        assert!(matches!(again, Err(TransactionError::Recorded)), "{again:?}");
        assert_eq!(ground.kept(&run).await, (1, 1));
    }
    // A step that was recorded without a transaction counts as recorded, too.
    let logged = vec![step("log", &1.into())];
    ground.world.report(&run, logged, Then::Continue).await.unwrap();
    let again = ground.act(&run, "log", Part::new(&[PAY])).await;
    assert!(matches!(again, Err(TransactionError::Recorded)), "{again:?}");
    assert_eq!(ground.kept(&run).await, (1, 2));
}

async fn two_that_race_have_one_effect(ground: Ground) {
    let run = ground.driven().await;
    for id in ["a", "b", "c", "d"] {
        let part = || Part::new(&[PAY]);
        let (one, two) = tokio::join!(ground.act(&run, id, part()), ground.act(&run, id, part()));
        let outcomes = [&one, &two];
        let kept = outcomes.iter().filter(|it| it.is_ok()).count();
        let answer = outcomes.iter().filter(|it| matches!(it, Err(TransactionError::Recorded)));
        assert_eq!((kept, answer.count()), (1, 1), "{outcomes:?}");
    }
    assert_eq!(ground.kept(&run).await, (4, 4));
}

async fn an_effect_without_a_record_is_refused(ground: Ground) {
    let run = ground.driven().await;
    let other = Command::Resume { ws: ground.world.ws.clone(), run: run.id };
    for commands in [Vec::new(), vec![ground.world.salted(other)]] {
        let refused = ground.act_with(commands, Part::new(&[PAY])).await;
        let Err(TransactionError::Store(StoreError::Data(reason))) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(&*reason, "no command records the transactional step");
    }
    assert_eq!(ground.kept(&run).await, (0, 0));
}

async fn one_refused_command_undoes_all(ground: Ground) {
    let run = ground.driven().await;
    let stale = Run { fence: run.fence - 1, ..run.clone() };
    let commands = vec![ground.recording(&run, "a"), ground.recording(&stale, "b")];
    let refused = ground.act_with(commands, Part::new(&[PAY])).await;
    assert!(matches!(refused, Err(TransactionError::Refused(_))), "{refused:?}");
    assert_eq!(ground.kept(&run).await, (0, 0));
}

async fn a_step_that_takes_too_long_is_undone(ground: Ground) {
    let run = ground.driven().await;
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n)
                   select count(*) from n";
    let limit = Duration::from_millis(1);
    for part in [Part::new(&[PAY, endless]), Part::new(&[PAY, endless]).careless()] {
        let late = ground.act(&run, "pay", part.limit(limit)).await;
        assert!(matches!(late, Err(TransactionError::TimedOut(it)) if it == limit), "{late:?}");
        assert_eq!(
            late.unwrap_err().to_string(),
            "the step's part of the transaction took longer than 1 ms and was undone; do less in \
             one step, or allow it more"
        );
        assert_eq!(ground.kept(&run).await, (0, 0));
    }
    ground.pay(&run).await.expect("the store still works");
}

async fn a_step_cannot_end_its_transaction(ground: Ground) {
    let run = ground.driven().await;
    for word in ["commit", "end", "rollback", "begin", "/* */ COMMIT -- now"] {
        let refused = ground.act(&run, "pay", Part::new(&[PAY, word])).await;
        let Err(TransactionError::Step(error)) = refused else { panic!("{word}: {refused:?}") };
        assert!(error.starts_with("a step may not "), "{word}: {error}");
        assert_eq!(ground.kept(&run).await, (0, 0), "{word}");
    }
    // The refused `commit` has no effect: the next statements are still in the transaction.
    let careless = Part::new(&[PAY, "commit", PAY]).careless();
    let failed = ground.act(&run, "pay", careless.clone().end(End::Fail)).await;
    assert!(matches!(failed, Err(TransactionError::Step(_))), "{failed:?}");
    assert_eq!(ground.kept(&run).await, (0, 0));
    ground.act(&run, "pay", careless).await.unwrap();
    assert_eq!(ground.kept(&run).await, (2, 1));
}

async fn a_step_may_undo_a_part_by_a_savepoint(ground: Ground) {
    let run = ground.driven().await;
    let part = Part::new(&[PAY, "savepoint here", PAY, "rollback to here", "savepoint open", PAY]);
    ground.act(&run, "pay", part).await.unwrap();
    assert_eq!(ground.kept(&run).await, (2, 1));
}

async fn what_the_database_says_comes_back_readable(ground: Ground) {
    let run = ground.driven().await;
    for (statement, named) in [("insert into nowhere values (1)", "nowhere"), ("selec 1", "selec")]
    {
        let refused = ground.act(&run, "pay", Part::new(&[PAY, statement])).await;
        let Err(TransactionError::Step(error)) = refused else { panic!("{refused:?}") };
        assert!(error.contains(named), "{error}");
        assert!(!error.contains("db error"), "{error}");
    }
    let none = ground.act(&run, "pay", Part::new(&["insert into payment values (null)"])).await;
    assert!(none.unwrap_err().to_string().to_lowercase().contains("null"));
    assert_eq!(ground.kept(&run).await, (0, 0));
}

async fn whoever_holds_the_store_finds_its_database(ground: Ground) {
    let wrapped = FaultStore::new(ground.store(), None);
    for database in [ground.store().database(), wrapped.database()] {
        assert!(matches!(database, Database::Sqlite(_) | Database::Postgres(_)), "{database:?}");
    }
}
