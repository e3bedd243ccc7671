//! Table of code changes during the sleep of a run, each with the expected end of the run.

use std::time::Duration;

use serde_json::json;
use tidegate::{StepError, testing::TestHarness};
use tidegate_core::row::Ending;

use crate::program::{
    All, Attempt, Code, Detach, Event, Flaky, Hang, Invoke, Join, Loop, Now, Outside, Patch,
    Select, Send, Signal, Sleep, Spawn, Spin, Step, Swallow, Text, Trip, Undo, Unordered, World,
    Yield, night, sleep, step,
};

/// Expected end of a run.
pub(crate) enum Then {
    /// The run completes, and the new code starts exactly these closures.
    Completes(&'static [&'static str]),
    /// The run fails with `ChangedWorkflow` before any new effect. The message contains these
    /// words.
    Stops(&'static [&'static str]),
}

use Then::{Completes, Stops};

pub(crate) struct Change {
    pub(crate) name: &'static str,
    pub(crate) old: Code,
    pub(crate) new: Code,
    pub(crate) then: Then,
}

fn change(name: &'static str, old: Vec<Code>, new: Vec<Code>, then: Then) -> Change {
    Change { name, old: All(old), new: All(new), then }
}

fn same(name: &'static str, code: Vec<Code>, begins: &'static [&'static str]) -> Change {
    Change { name, old: All(code.clone()), new: All(code), then: Completes(begins) }
}

fn id(id: &str) -> String {
    id.to_owned()
}

fn boxed(code: Vec<Code>) -> Box<Code> {
    Box::new(All(code))
}

/// Changes to the steps of a sequential program.
fn of_sequences() -> Vec<Change> {
    let order = || vec![step("charge"), night(), step("mail")];
    vec![
        change(
            "a step is renamed",
            order(),
            vec![step("bill"), night(), step("mail")],
            Stops(&["`charge`", "`bill`"]),
        ),
        change(
            "a step is removed",
            order(),
            vec![night(), step("mail")],
            Stops(&["`charge`", "`mail`"]),
        ),
        change(
            "a step is inserted before a recorded one",
            order(),
            vec![step("check"), step("charge"), night(), step("mail")],
            Stops(&["`charge`", "`check`"]),
        ),
        change(
            "a step is inserted before a recorded sleep",
            order(),
            vec![step("charge"), step("pack"), night(), step("mail")],
            Stops(&["`night`", "`pack`"]),
        ),
        change(
            "a recorded step and one without a record are exchanged",
            order(),
            vec![step("mail"), night(), step("charge")],
            Stops(&["`charge`", "`mail`"]),
        ),
        change(
            "two recorded steps are exchanged",
            vec![step("charge"), step("pack"), night(), step("mail")],
            vec![step("pack"), step("charge"), night(), step("mail")],
            Completes(&["mail"]),
        ),
    ]
}

/// Changes to the kinds and values of records, and to waits.
fn of_records() -> Vec<Change> {
    let order = || vec![step("charge"), night(), step("mail")];
    vec![
        change(
            "a recorded step is of another kind",
            order(),
            vec![sleep("charge"), night(), step("mail")],
            Stops(&["`charge` is recorded as a step, but requested as a sleep"]),
        ),
        change(
            "a recorded sleep is of another kind",
            order(),
            vec![step("charge"), step("night"), step("mail")],
            Stops(&["`night` is recorded as a sleep, but requested as a step"]),
        ),
        change(
            "a recorded step has a value of another type",
            order(),
            vec![Text(id("charge")), night(), step("mail")],
            Stops(&["`charge`", "cannot be read as alloc::string::String", "invalid type"]),
        ),
        change(
            "the error about another type is ignored",
            order(),
            vec![Swallow(boxed(vec![Text(id("charge"))])), step("mail")],
            Stops(&["`charge`", "invalid type"]),
        ),
        change(
            "the error about another kind is ignored",
            order(),
            vec![Swallow(boxed(vec![sleep("charge")])), step("mail")],
            Stops(&["`charge` is recorded as a step"]),
        ),
        change(
            "a sleep is renamed",
            order(),
            vec![step("charge"), sleep("nap"), step("mail")],
            Stops(&["`night`", "`nap`", "a sleep"]),
        ),
        change(
            "a sleep is removed before a new step",
            order(),
            vec![step("charge"), step("mail")],
            Stops(&["`night`", "`mail`"]),
        ),
        change("all that was left is removed", order(), vec![step("charge")], Completes(&[])),
        change(
            "a step is added after all records",
            order(),
            vec![step("charge"), night(), step("pack"), step("mail")],
            Completes(&["mail", "pack"]),
        ),
        change(
            "an await outside of the steps is added",
            order(),
            vec![Yield, step("charge"), Yield, night(), step("mail")],
            Completes(&["mail"]),
        ),
    ]
}

/// The handler itself fails before it has requested its records: the run is retried.
fn of_errors() -> Vec<Change> {
    let order = |trip: &str| vec![Trip(id(trip)), step("charge"), night(), step("mail")];
    vec![
        same("the handler fails before its records", order("error"), &["error", "mail"]),
        same("the handler panics before its records", order("panic"), &["mail", "panic"]),
        same(
            "the code takes another path after a failed attempt",
            {
                let cash = boxed(vec![step("cash"), night(), step("mail")]);
                vec![step("charge"), Attempt(id("card"), boxed(vec![Flaky(id("card"))]), cash)]
            },
            &["mail"],
        ),
    ]
}

/// Code that requests a new operation, once for each kind of operation.
fn of_kinds() -> Vec<Change> {
    let new = [
        ("a new time", Now(id("new"))),
        ("a new event sent", Send(id("new"))),
        ("a new compensation", Undo(id("new"))),
        ("a new wait for an event", Event(id("new"), 1)),
        ("a new wait for a signal", Signal(id("new"), 1)),
        ("a new call", Invoke(id("new"))),
        ("a new step that fails at first", Flaky(id("new"))),
    ];
    let changes = new.into_iter().map(|(name, new)| {
        let old = vec![step("charge"), night(), step("mail")];
        change(
            name,
            old,
            vec![new, step("charge"), night(), step("mail")],
            Stops(&["`charge`", "`new`"]),
        )
    });
    changes.collect()
}

/// Parallel branches: unchanged programs complete, in whatever order their branches are polled.
fn of_branches() -> Vec<Change> {
    let unequal = || {
        let ahead = All(vec![step("a1"), step("a2"), step("a3"), night(), step("a4")]);
        let behind = All(vec![step("b1"), sleep("b nap"), step("b2")]);
        vec![Join(vec![ahead, behind])]
    };
    let loser = || {
        let ahead = All(vec![step("l1"), Step(id("l2"), 5_000)]);
        vec![Select(vec![Step(id("w"), 1_000), ahead]), night(), step("after")]
    };
    let late = || {
        let long = Sleep(id("long"), 30_000);
        vec![Select(vec![Sleep(id("short"), 1_000), long]), night(), step("after")]
    };
    let rounds = || vec![Loop(id("times"), boxed(vec![step("round")])), night(), step("after")];
    vec![
        same("branches of unequal progress", unequal(), &["a4", "b2"]),
        change(
            "a step of one branch is renamed",
            unequal(),
            vec![Join(vec![
                All(vec![step("a1"), step("x2"), step("a3"), night(), step("a4")]),
                All(vec![step("b1"), sleep("b nap"), step("b2")]),
            ])],
            Stops(&["`a2`", "`x2`"]),
        ),
        same("the loser of a race is recorded", loser(), &["after"]),
        same("the loser of a race is answered later", late(), &["after"]),
        change(
            "a recorded step of a branch that lost the race is renamed",
            loser(),
            vec![Select(vec![Step(id("w"), 1_000), step("other")]), night(), step("after")],
            Stops(&["`l1`", "`after`"]),
        ),
        same(
            "a branch awaits something outside of the steps",
            vec![Join(vec![
                All(vec![Step(id("b1"), 1_000), night(), step("b2")]),
                All(vec![Yield, step("a1"), Yield, step("a2")]),
            ])],
            &["b2"],
        ),
        same("a loop of as many rounds as a step says", rounds(), &["after"]),
        change(
            "the steps of a loop are renamed",
            rounds(),
            vec![Loop(id("times"), boxed(vec![step("turn")])), night(), step("after")],
            Stops(&["`round.0`", "`turn.0`"]),
        ),
        same(
            "a step is retried while another branch sleeps",
            vec![Join(vec![All(vec![Flaky(id("f")), step("f2")]), All(vec![night(), step("n")])])],
            &["n"],
        ),
    ]
}

/// Tasks and awaits that the engine does not track: unchanged code continues to work.
fn of_tasks() -> Vec<Change> {
    let spawned = |part: Vec<Code>| Spawn(boxed(vec![step("s1"), step("s2")]), boxed(part));
    // The first step takes some time, so that the spawned task makes progress before the run
    // sleeps.
    let order = || vec![Step(id("charge"), 1_000), night(), step("mail")];
    let slow = || All(vec![Outside(1_000), step("a"), Sleep(id("long"), 90_000)]);
    let race = |slow| Select(vec![slow, All(vec![Step(id("w"), 5_000), night()])]);
    vec![
        same("a task is awaited after new steps", vec![spawned(order())], &["mail"]),
        same(
            "a task first awaits something outside, and is awaited",
            vec![Spawn(boxed(vec![Outside(500), step("s1")]), boxed(order()))],
            &["mail"],
        ),
        same(
            "a task is not awaited",
            vec![Detach(boxed(vec![step("s1")])), All(order())],
            &["mail"],
        ),
        same(
            "a task is not awaited, and no new operation is requested",
            vec![Detach(boxed(vec![step("s1")])), Step(id("charge"), 1_000), night()],
            &[],
        ),
        change(
            "a step parallel to a task is renamed",
            vec![spawned(order())],
            vec![spawned(vec![step("bill"), night(), step("mail")])],
            Stops(&["`charge`", "`bill`"]),
        ),
        change(
            "a step of a task is renamed",
            vec![Spawn(boxed(vec![step("s1")]), boxed(order()))],
            vec![Spawn(boxed(vec![step("x1")]), boxed(order()))],
            Stops(&["`s1`", "`x1`"]),
        ),
        same(
            "the slow branch of a race awaits something outside",
            vec![race(slow()), step("after")],
            &["after"],
        ),
        same("an unordered set", vec![Unordered(vec![All(order()), step("u")])], &["mail"]),
        change(
            "a step of an unordered set is renamed",
            vec![Unordered(vec![All(order()), step("u")])],
            vec![Unordered(vec![All(order()), step("v")])],
            Stops(&["`u`", "`v`"]),
        ),
        same(
            "a branch wakes itself again and again",
            vec![Select(vec![Spin, All(vec![step("a"), night(), step("b")])])],
            &["b"],
        ),
    ]
}

/// Changes guarded by `ctx.patched`.
fn of_patches() -> Vec<Change> {
    let patched = |before: Vec<Code>, old: Vec<Code>| Patch(id("stock"), boxed(before), boxed(old));
    let order = || vec![step("charge"), night(), step("mail")];
    vec![
        change(
            "a run that is past a patch takes the old path",
            order(),
            vec![patched(vec![step("check")], vec![]), step("charge"), night(), step("mail")],
            Completes(&["mail"]),
        ),
        change(
            "a run that is not past a patch takes the new path",
            order(),
            vec![step("charge"), night(), patched(vec![step("check")], vec![]), step("mail")],
            Completes(&["check", "mail"]),
        ),
        same(
            "a run that took the new path keeps it",
            vec![patched(vec![step("check")], vec![step("charge")]), night(), step("mail")],
            &["mail"],
        ),
        change(
            "a patch is removed with its old path",
            vec![patched(vec![step("check")], vec![step("charge")]), night(), step("mail")],
            vec![step("check"), night(), step("mail")],
            Completes(&["mail"]),
        ),
        change(
            "a patch is removed under a run that took the old path",
            order(),
            vec![step("check"), night(), step("mail")],
            Stops(&["`charge`", "`check`"]),
        ),
    ]
}

pub(crate) fn all() -> Vec<Change> {
    let all = [of_sequences(), of_records(), of_kinds(), of_branches(), of_tasks(), of_patches()];
    all.into_iter().flatten().collect()
}

/// A change next to a branch that polls all the time. It is detected only after a time limit, and
/// the virtual clock does not advance meanwhile.
pub(crate) fn beside_a_busy_branch() -> Change {
    let code = |first| vec![Select(vec![Spin, All(vec![step(first), night(), step("mail")])])];
    change("beside a branch that wakes itself", code("charge"), code("bill"), {
        Stops(&["`charge`", "`bill`"])
    })
}

#[tokio::test]
async fn changed_code_stops_a_run_before_its_effects_and_no_other_code_does() {
    let mut failed = Vec::new();
    for change in all().into_iter().chain(of_errors()) {
        let name = change.name;
        failed.extend(tokio::spawn(deploy(change)).await.is_err().then_some(name));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A handler that awaits something outside of its operations might still continue, so changed code
/// is detected later, but it is detected.
#[tokio::test]
async fn changed_code_that_awaits_something_outside_is_stopped_too() {
    let old = vec![step("charge"), night(), step("mail")];
    let new = All(vec![step("bill"), night(), step("mail")]);
    let new = vec![Join(vec![new, Hang])];
    deploy(change("beside an endless await", old, new, Stops(&["`charge`", "`bill`"]))).await;
}

fn is_trip(id: &str) -> bool {
    ["error", "panic"].contains(&id)
}

async fn deploy(Change { name, old, new, then }: Change) {
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let child = || tidegate::Workflow::new("child", async |_: tidegate::Ctx, _: u64| Ok(()));
    let engine =
        harness.engine().workflow(world.job(&old)).workflow(child()).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(
        harness.runs("job").await[0].state,
        "waiting",
        "{name}: the run must wait before the deploy"
    );
    engine.shutdown().await;
    let before = world.effects();
    let engine =
        harness.engine().workflow(world.job(&new)).workflow(child()).start().await.unwrap();
    harness.advance(Duration::from_mins(5)).await;
    let mut begun = world.effects();
    for (id, count) in &before {
        *begun.entry(id.clone()).or_default() -= count;
    }
    begun.retain(|_, count| *count > 0);
    let (_, ended) = engine.look_up(run).await.unwrap();
    let ending = ended.unwrap_or_else(|| panic!("{name}: the run has not ended")).ending;
    match then {
        Completes(begins) => {
            assert!(matches!(ending, Ending::Completed { .. }), "{name}: {ending:?}");
            assert_eq!(begun.keys().collect::<Vec<_>>(), begins, "{name}");
            let once = |(id, count): (&String, &usize)| *count == 1 || is_trip(id);
            assert!(begun.iter().all(once), "{name}: {begun:?}");
        }
        Stops(words) => {
            let Ending::Failed { error } = ending else { panic!("{name}: {ending:?}") };
            assert_eq!(error.code, "ChangedWorkflow", "{name}: {}", error.message);
            let message = StepError::coded(error.code, error.message).to_string();
            let missing: Vec<_> = words.iter().filter(|word| !message.contains(**word)).collect();
            assert!(missing.is_empty(), "{name}: {message}");
            assert!(begun.is_empty(), "{name}: the changed code executed effects: {begun:?}");
            assert!(
                harness.runs("child").await.is_empty(),
                "{name}: the changed code called a child"
            );
        }
    }
}
