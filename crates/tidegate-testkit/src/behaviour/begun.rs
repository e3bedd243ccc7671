//! Waits that begin while their run is driven: beside steps that still execute.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command},
    row::{Run, WaitOn},
    run::record::{NewWait, NewWaitOn, Record, Recorded, Then, Until},
};

use crate::{
    worker::{for_child, for_event, for_signal},
    world::{World, payload, step},
};

/// Reports waits of a run that goes on.
async fn begin(world: &World, run: &Run, waits: Vec<NewWait>) -> Recorded {
    let engine = run.owner.expect("the run is leased");
    let report = Record { waits, ..Record::new(run.id.seq, engine, run.fence, Then::Continue) };
    let known = Box::new(run.clone());
    match world.run(Command::Record { known, report }).await {
        Ok(Answer::Recorded(recorded)) => recorded,
        other => panic!("unexpected answer to a report: {other:?}"),
    }
}

async fn row(world: &World, run: &Run) -> Run {
    world.live(run.id).await.expect("the run has not ended")
}

/// Builds the wait after a failed attempt.
fn failed(step: &str, attempt: u32, ms: u64) -> NewWait {
    let (on, until) = (NewWaitOn::Retry { attempt }, Some(Until::In(ms)));
    NewWait { step: step.to_owned(), on, until }
}

/// Builds the wait for a step whose wait is registered.
fn known(step: &str) -> NewWait {
    NewWait { step: step.to_owned(), on: NewWaitOn::Registered, until: None }
}

/// spec waits: a wait that begins beside a step counts from then on: an event ends it while the run
/// is driven, and its time runs. The run finds out when it can do nothing else.
pub async fn a_wait_begins_while_its_run_is_driven(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    assert_eq!(world.post("paid", json!(1)).await.woke, 0);
    let nap = NewWait { step: "nap".into(), on: NewWaitOn::Time, until: Some(Until::In(1000)) };
    let waits = vec![for_event("paid", "paid"), nap.clone(), for_signal("go", "go")];
    for _ in 0..2 {
        assert_eq!(begin(world, &run, waits.clone()).await, Recorded::GoOn);
    }
    assert_eq!(row(world, &run).await.waits.len(), 3, "a repeated report begins nothing");
    assert_eq!(world.post("paid", json!(2)).await.woke, 1);
    assert_eq!(world.came_of(run.id, "paid").await, Some(Ok("2".to_owned())));
    world.tick(1000).await;
    assert_eq!(world.state(run.id).await, "running");
    assert_eq!(world.came_of(run.id, "nap").await, None, "a driven run is not woken");
    world.suspend(&run, vec![known("nap"), known("go")]).await;
    world.tick(0).await;
    assert_eq!(world.came_of(run.id, "nap").await, Some(Ok("null".to_owned())));
    let run = world.lease_one().await;
    world.suspend(&run, vec![known("paid"), known("go")]).await;
    let run = world.lease_one().await;
    world.complete(&run).await;
    world.check_quiet().await;
}

/// spec waits: a signal that is in the inbox ends a wait beside a step at once.
pub async fn a_kept_signal_ends_a_wait_beside_a_step(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    world.signal(run.id, "go", json!(7)).await.expect("the run is live");
    assert_eq!(begin(world, &run, vec![for_signal("go", "go")]).await, Recorded::GoOn);
    assert_eq!(world.came_of(run.id, "go").await, Some(Ok("7".to_owned())));
    world.suspend(&run, vec![known("go")]).await;
    world.complete(&world.lease_one().await).await;
}

/// spec retries: an attempt that fails beside another step is durable with the time of the next
/// one. A repeated report counts it once; a record of the step ends it.
pub async fn a_failed_attempt_beside_a_step_is_counted_once(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    for (attempt, ms) in [(1, 500), (1, 500), (2, 900), (2, 900)] {
        begin(world, &run, vec![failed("call", attempt, ms)]).await;
        let row = row(world, &run).await;
        assert_eq!(row.failures["call"], attempt);
        let until = Some(world.now().plus_ms(ms));
        let waits: Vec<_> = row.waits.iter().map(|wait| (&wait.on, wait.until)).collect();
        assert_eq!(waits, [(&WaitOn::Retry, until)]);
    }
    world.tick(900).await;
    assert_eq!(world.state(run.id).await, "running");
    world.record(&run, "call", json!(1)).await.expect("the lease is valid");
    let row = row(world, &run).await;
    assert!(row.failures.is_empty() && row.waits.is_empty(), "{row:?}");
    // The next engine finds what was reported before a death.
    begin(world, &run, vec![failed("other", 1, 700)]).await;
    world.lose(world.engine).await;
    let other = world.engine(2);
    let heir = other.lease_one().await;
    assert_eq!((heir.failures["other"], heir.waits.len()), (1, 1));
    other.suspend(&heir, vec![known("other")]).await;
    other.tick(699).await;
    assert_eq!(other.state(run.id).await, "waiting");
    other.tick(1).await;
    other.complete(&other.lease_one().await).await;
}

/// spec waits: a child that is called beside a step starts at once, and its result waits for the
/// parent.
pub async fn a_child_starts_beside_a_step_of_its_parent(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "child" })).await;
    let parent = world.drive("order", json!({})).await;
    let calls = vec![for_child("one", "child", &json!(1)), for_child("none", "nobody", &json!(1))];
    begin(world, &parent, calls.clone()).await;
    begin(world, &parent, calls).await;
    world.complete(&world.lease_one().await).await;
    assert_eq!(world.state(parent.id).await, "running");
    assert_eq!(world.came_of(parent.id, "one").await, Some(Ok("\"done\"".to_owned())));
    let none = world.came_of(parent.id, "none").await.expect("it is recorded").unwrap_err();
    assert_eq!(none.code, "UnknownWorkflow");
    world.suspend(&parent, vec![known("one"), known("none")]).await;
    world.complete(&world.lease_one().await).await;
    world.check_quiet().await;
}

/// spec pause: a run that is to be paused keeps the waits that it reports.
pub async fn a_run_that_pauses_keeps_its_new_waits(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    world.pause(run.id).await.expect("the run is live");
    assert_eq!(begin(world, &run, vec![for_event("paid", "paid")]).await, Recorded::LetGo);
    assert_eq!(world.state(run.id).await, "paused");
    assert_eq!(world.post("paid", json!(2)).await.woke, 1);
    world.resume(run.id).await.expect("the run is live");
    world.complete(&world.lease_one().await).await;
}

/// spec retries: a new record starts the count of the handler's own failures anew, a repeated one
/// does not. So does the end of a wait.
pub async fn a_new_record_forgets_failures_of_the_handler(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let mut run = world.drive("order", json!({})).await;
    let handler = |attempt| failed("", attempt, 100);
    for (attempt, then) in [(1, 1), (2, 2), (3, 3)] {
        world.suspend(&run, vec![handler(attempt)]).await;
        world.tick(100).await;
        run = world.lease_one().await;
        assert_eq!(run.failures[""], then);
    }
    world.record(&run, "call", json!(1)).await.expect("the lease is valid");
    assert!(row(world, &run).await.failures.is_empty());
    let again = Then::Suspend(vec![handler(1)]);
    world.report(&run, vec![step("call", &json!(1))], again).await.expect("the lease is valid");
    world.tick(100).await;
    run = world.lease_one().await;
    assert_eq!(run.failures[""], 1, "a repeated record is no progress");
    world.suspend(&run, vec![for_event("paid", "paid")]).await;
    world.post("paid", json!(1)).await;
    run = world.lease_one().await;
    assert!(run.failures.is_empty(), "the end of a wait is progress: {:?}", run.failures);
    let done = Then::Complete(payload(&json!(null)));
    assert_eq!(world.report(&run, Vec::new(), done).await, Ok(Recorded::LetGo));
}
