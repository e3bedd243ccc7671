//! Replacing a run without partial writes: session operations of a run under `restart` are staged
//! until it completes.

use serde_json::{Value, json};
use tidegate_core::{
    row::{Ending, Run, RunError, SessionOp},
    run::{
        record::{Recorded, Then},
        sweep::MAX_DEATHS,
    },
    session::{MAX_SESSION_BYTES, MAX_STAGED, MAX_STAGED_BYTES},
};

use super::sessions::chat;
use crate::world::{World, append, get, increment, merge, replaced, request, set, step};

/// Calls `edit`, whose policy is `restart`, and leases its run.
async fn edit(world: &World, id: &str) -> Run {
    let run = world.call_for_run("chat", "edit", id).await;
    let leased = world.lease_one().await;
    assert_eq!(leased.id, run);
    leased
}

/// Returns the error of a failed run.
async fn failure(world: &World, run: &Run) -> RunError {
    match world.ended(run.id).await.map(|ended| ended.ending) {
        Some(Ending::Failed { error }) => error,
        other => panic!("the run did not fail: {other:?}"),
    }
}

/// spec staging: a run reads its own writes on top of the current document; other readers see them
/// only after it completes.
pub async fn a_run_sees_its_own_writes_before_anybody_else(world: &World) {
    chat(world).await;
    world.patch("s", set("", json!({ "n": 1, "list": [1] })), None).await.unwrap();
    let run = edit(world, "s").await;
    assert_eq!(world.told(&run, "a", "s", increment("n", 10)).await, json!(11));
    assert_eq!(world.told(&run, "b", "s", append("list", json!("mine"))).await, json!(2));
    assert_eq!(world.document("s").await, json!({ "n": 1, "list": [1] }), "not yet");
    // Changes that others make meanwhile are below those of the run.
    world.patch("s", increment("n", 100), None).await.unwrap();
    world.patch("s", append("list", json!("theirs")), None).await.unwrap();
    let read = world.told(&run, "c", "s", get("")).await;
    assert_eq!(read, json!({ "n": 111, "list": [1, "theirs", "mine"] }));
    assert_eq!(world.told(&run, "d", "other", set("x", json!(1))).await, json!(1));
    let (before, _) = world.document_text("s").await.unwrap();
    assert_eq!(world.staged().await, 4);
    world.complete(&run).await;
    let (after, _) = world.document_text("s").await.unwrap();
    assert_eq!(after, before + 1, "all at once");
    assert_eq!(world.document("s").await, read);
    assert_eq!(
        world.document("other").await,
        json!({ "x": 1 }),
        "all sessions that the run wrote must be changed"
    );
    assert_eq!(world.staged().await, 0);
}

/// Returns the operations of one run. After all of them, `a` equals `b`, and the list has `count`
/// entries; after a part of them it does not.
fn whole(n: i64) -> [SessionOp; 5] {
    [
        set("a", json!(n)),
        append("list", json!(n)),
        increment("count", 1),
        merge("last", json!({ "run": n, "half": null })),
        set("b", json!(n)),
    ]
}

#[track_caller]
fn check_whole(document: &Value, at: &str) {
    let (a, b, count) = (&document["a"], &document["b"], document["count"].as_i64().unwrap_or(0));
    let list = document["list"].as_array().map_or(0, Vec::len);
    assert_eq!(a, b, "{at}: {document}");
    assert_eq!(a, &document["last"]["run"], "{at}: {document}");
    assert_eq!(i64::try_from(list).unwrap(), count, "{at}: {document}");
}

/// spec B44, N44: in whatever state a run is replaced, none of its writes is in the document.
pub async fn a_replaced_run_leaves_nothing_wherever_it_stood(world: &World) {
    chat(world).await;
    let mut completed = 0;
    for (n, place) in (1..).zip(["driven", "asleep", "paused", "ready", "dead"]) {
        for point in 0..=whole(n).len() {
            let at = format!("{place}, after {point} operations");
            let engine = world.engine(u128::try_from(n * 100).unwrap() + point as u128 + 10);
            let old = edit(&engine, "s").await;
            for (step, op) in whole(-n).into_iter().take(point).enumerate() {
                engine.told(&old, &step.to_string(), "s", op).await;
                check_whole(&world.document("s").await, &at);
            }
            match place {
                "asleep" => engine.sleep(&old, "nap", 60_000).await,
                "paused" => {
                    engine.pause(old.id).await.unwrap();
                    let parked = engine.report(&old, vec![step("x", &json!(1))], Then::Continue);
                    assert_eq!(parked.await, Ok(Recorded::LetGo));
                }
                "ready" => {
                    let yielded = engine.report(&old, Vec::new(), Then::Yield).await;
                    assert_eq!(yielded, Ok(Recorded::LetGo));
                }
                "dead" => assert_eq!(engine.lose(engine.engine).await, 1),
                _ => {}
            }
            let (new, gone) = replaced(&world.call("chat", "edit", "s", json!({})).await);
            assert_eq!(gone, old.id, "{at}");
            assert_eq!(
                world.staged().await,
                0,
                "{at}: staged operations of the replaced run are left"
            );
            let late = engine.operate(&old, "late", "s", set("a", json!("torn"))).await;
            assert!(late.is_err(), "{at}: {late:?}");
            if place == "driven" {
                engine.stopped(&old).await;
            }
            let run = world.lease_one().await;
            assert_eq!(run.id, new);
            for (step, op) in whole(n).into_iter().enumerate() {
                world.told(&run, &step.to_string(), "s", op).await;
                check_whole(&world.document("s").await, &at);
            }
            world.complete(&run).await;
            completed += 1;
            let document = world.document("s").await;
            check_whole(&document, &at);
            assert_eq!(
                (&document["a"], &document["count"]),
                (&json!(n), &json!(completed)),
                "{at}"
            );
        }
    }
    world.check_quiet().await;
}

/// If a run ends without completing, in whatever way, its writes are dropped.
pub async fn every_end_but_completion_drops_what_was_staged(world: &World) {
    chat(world).await;
    for end in ["failed", "cancelled", "cancelled asleep", "paused, then cancelled"] {
        let engine = world.engine(u128::try_from(end.len()).unwrap() * 1000);
        let mut run = edit(&engine, end).await;
        engine.told(&run, "a", end, set("x", json!(1))).await;
        engine.told(&run, "b", end, get("")).await;
        assert_eq!(world.staged().await, 2);
        match end {
            "failed" => engine.fail(&run).await,
            "cancelled" => {
                engine.cancel(run.id).await.unwrap();
                assert_eq!(
                    world.staged().await,
                    0,
                    "staged operations were not dropped at the end of the run"
                );
                engine.stopped(&run).await;
            }
            "cancelled asleep" => {
                engine.sleep(&run, "nap", 1000).await;
                engine.cancel(run.id).await.unwrap();
            }
            _ => {
                for n in 0..=u128::from(MAX_DEATHS) {
                    let owner = run.owner.unwrap();
                    assert_eq!(world.lose(owner).await, 1);
                    if let Some(next) = world.engine(owner + n + 1).lease_all().await.pop() {
                        run = next;
                        world.report(&run, Vec::new(), Then::Continue).await.unwrap();
                    }
                }
                assert_eq!(world.state(run.id).await, "paused");
                assert_eq!(world.staged().await, 2, "it may be resumed");
                world.cancel(run.id).await.unwrap();
            }
        }
        assert_eq!(world.staged().await, 0, "{end}");
        assert_eq!(world.document_text(end).await, None, "{end}");
        assert!(world.live(run.id).await.is_none(), "{end}");
    }
    world.check_quiet().await;
}

/// The operations of a run, an operation of another writer before the run completes, and the text
/// of the conflict, if there is one.
type Case = (Vec<SessionOp>, SessionOp, Option<&'static str>);

/// spec staging: a run fails if it does a `set`, or a `merge` of the same leaf, on a value that
/// changed since the run read it. All other operations are applied to the document of that moment.
fn cases() -> Vec<Case> {
    let read_set = |read: &str, at: &str| vec![get(read), set(at, json!("mine"))];
    let conflict = |path| Some(path);
    vec![
        // The run reads and sets the same path, a path above it, or a path below it.
        (read_set("a.b", "a.b"), set("a.b", json!(2)), conflict("`a.b`")),
        (read_set("", "a.b"), set("a.b", json!(2)), conflict("`a.b`")),
        (read_set("a.b", "a"), set("a.b", json!(2)), conflict("`a.b`")),
        (read_set("a", "a.b"), merge("", json!({ "a": { "b": 2 } })), conflict("`a.b`")),
        (read_set("", ""), append("list", json!(2)), conflict("the document")),
        (read_set("new", "new"), set("new", json!(1)), conflict("`new`")),
        // The other writer changes another path, or restores the value.
        (read_set("", "a.b"), set("a.c", json!(2)), None),
        (read_set("a.c", "a.b"), set("a.c", json!(2)), None),
        (read_set("a.b", "a.b"), set("a.b", json!(1)), None),
        // A value that the run never read cannot conflict.
        (vec![set("a.b", json!("mine"))], set("a.b", json!(2)), None),
        (vec![set("a.b", json!("mine")), get("a.b")], set("a.b", json!(2)), None),
        // Merges conflict leaf by leaf.
        (vec![get(""), merge("a", json!({ "b": 9 }))], set("a.b", json!(2)), conflict("`a.b`")),
        (vec![get(""), merge("a", json!({ "b": 9 }))], set("a.c", json!(2)), None),
        (
            vec![get("a.b"), merge("", json!({ "a": { "b": 9 } }))],
            set("a.b", json!(2)),
            conflict("`a.b`"),
        ),
        (vec![get("a.b"), merge("", json!({ "a": { "c": 9 } }))], set("a.b", json!(2)), None),
        (
            vec![get("a.b"), merge("", json!({ "a": null }))],
            set("a.b", json!(2)),
            conflict("`a.b`"),
        ),
        // Appends, increments and reads alone never conflict.
        (vec![get(""), append("list", json!(9))], append("list", json!(2)), None),
        (vec![get(""), increment("n", 1)], increment("n", 5), None),
        (vec![get("n"), get("list")], set("", json!({})), None),
        // They fail only if the path no longer has a list or a number.
        (vec![append("list", json!(9))], set("list", json!("text")), conflict("cannot append")),
        (vec![increment("n", 1)], set("n", json!("text")), conflict("cannot increment")),
    ]
}

/// spec staging, N44: the error of a conflict has the path and both values; no operation of the run
/// is applied.
pub async fn a_set_on_what_changed_since_it_was_read_fails_the_run(world: &World) {
    chat(world).await;
    for (n, (ops, theirs, conflict)) in cases().into_iter().enumerate() {
        let id = n.to_string();
        let start = json!({ "a": { "b": 1, "c": 1 }, "n": 1, "list": [1] });
        world.patch(&id, set("", start), None).await.unwrap();
        let run = edit(world, &id).await;
        world.told(&run, "elsewhere", "both", increment("done", 1)).await;
        for (step, op) in ops.iter().enumerate() {
            world.told(&run, &step.to_string(), &id, op.clone()).await;
        }
        world.patch(&id, theirs.clone(), None).await.unwrap();
        let (before, done) = (world.document(&id).await, world.document("both").await);
        world.complete(&run).await;
        let case = format!("{ops:?} against {theirs:?}");
        if let Some(said) = conflict {
            let fault = failure(world, &run).await;
            let fits = !said.starts_with("cannot");
            let code = if fits { "SessionConflict" } else { "SessionTypeMismatch" };
            assert_eq!(fault.code, code, "{case}: {}", fault.message);
            assert!(fault.message.starts_with(said), "{case}: {}", fault.message);
            assert_eq!(world.document(&id).await, before, "{case}");
            assert_eq!(
                world.document("both").await,
                done,
                "{case}: an operation of the failed run was applied"
            );
        } else {
            assert_eq!(world.state(run.id).await, "completed", "{case}");
            assert_ne!(world.document("both").await, done, "{case}");
        }
        assert_eq!(world.staged().await, 0, "{case}");
    }
}

/// The last read of a path counts: a run that read the new value has no conflict.
pub async fn a_run_that_reads_again_knows_what_changed(world: &World) {
    chat(world).await;
    world.patch("s", set("", json!({ "a": 1, "b": 1 })), None).await.unwrap();
    for (first, again, at, fine) in [
        ("", "a", "a", true),
        ("a", "", "a", true),
        ("a", "a", "a", true),
        ("", "new", "new", true),
        ("", "b", "a", false),
        ("", "a", "new", false),
    ] {
        let run = edit(world, "s").await;
        world.told(&run, "first", "s", get(first)).await;
        world.patch("s", increment("a", 1), None).await.unwrap();
        world.patch("s", set("new", json!(run.id.to_string())), None).await.unwrap();
        world.told(&run, "again", "s", get(again)).await;
        world.told(&run, "once more", "s", get(again)).await;
        world.told(&run, "set", "s", set(at, json!(100))).await;
        world.complete(&run).await;
        let state = if fine { "completed" } else { "failed" };
        assert_eq!(world.state(run.id).await, state, "{first}, {again}, {at}");
    }
}

/// A read after a `set` does not hide a conflict of that `set`.
pub async fn a_later_read_excuses_no_set(world: &World) {
    chat(world).await;
    world.patch("s", set("a", json!("before")), None).await.unwrap();
    let run = edit(world, "s").await;
    world.told(&run, "first", "s", get("a")).await;
    world.told(&run, "set", "s", set("a", json!("mine"))).await;
    let long = "é".repeat(100);
    world.patch("s", set("a", json!(long)), None).await.unwrap();
    world.told(&run, "again", "s", get("a")).await;
    world.complete(&run).await;
    let shown = "é".repeat(63);
    let said = format!(r#"`a` was "before" when the run read it, and is "{shown}… now"#);
    assert_eq!(
        failure(world, &run).await.message,
        said,
        "the message must have both values, shortened"
    );
    assert_eq!(world.document("s").await, json!({ "a": long }));
}

/// spec replay: a retry keeps the recorded steps before the one it starts from. The staged
/// operations of a run that did not complete were dropped, so their steps are executed again.
/// Applied operations are not executed again.
pub async fn a_retry_stages_again_what_was_dropped(world: &World) {
    chat(world).await;
    for (fails, kept) in [(true, vec!["work"]), (false, vec!["count", "work"])] {
        let run = edit(world, "s").await;
        world.told(&run, "count", "s", increment("n", 1)).await;
        for id in ["work", "last"] {
            let done = world.report(&run, vec![step(id, &json!(1))], Then::Continue).await;
            assert_eq!(done, Ok(Recorded::GoOn));
        }
        if fails {
            world.fail(&run).await;
        } else {
            world.complete(&run).await;
        }
        let retry = world.retry(run.id, "last").await;
        let steps = world.steps(retry).await;
        let steps: Vec<_> = steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(steps, kept);
        // In the second case `count` is recorded, so the operation is not executed again.
        let run = world.lease_one().await;
        world.told(&run, "count", "s", increment("n", 1)).await;
        world.complete(&run).await;
    }
    assert_eq!(
        world.document("s").await,
        json!({ "n": 2 }),
        "each of the two cases must count once"
    );
}

/// Staged operations have a size limit; a step over it gets an error.
pub async fn what_a_run_stages_has_bounds(world: &World) {
    chat(world).await;
    let run = edit(world, "s").await;
    let big = json!("x".repeat(MAX_SESSION_BYTES - 100));
    let fits = MAX_STAGED_BYTES / (MAX_SESSION_BYTES - 98);
    for n in 0..fits {
        world.told(&run, &n.to_string(), &n.to_string(), set("", big.clone())).await;
    }
    let fault = world.state_step(&run, "one more", "more", set("", big)).await.unwrap_err();
    assert_eq!(fault.code, "SessionTooMuchStaged");
    // A repeated read of the same path does not count towards the limit.
    world.complete(&run).await;
    let run = edit(world, "s").await;
    for n in 0..2 * fits {
        world.told(&run, &n.to_string(), "0", get("")).await;
    }
    world.complete(&run).await;
    assert_eq!(world.staged().await, 0);
}

/// The maximum number of staged operations fits into one report, and into the transaction that ends
/// the run.
pub async fn as_many_operations_as_allowed_are_settled(world: &World) {
    chat(world).await;
    let run = edit(world, "s").await;
    let asked = (0..=MAX_STAGED).map(|n| tidegate_core::session::NewSessionOp {
        step: n.to_string(),
        session: crate::world::session("s"),
        op: increment("n", 1),
        expected_version: None,
    });
    let asked: Vec<_> = asked.collect();
    for part in asked.chunks(64) {
        world.run(world.reporting(&run, part.to_vec(), Then::Continue)).await.unwrap();
    }
    let last = world.step_of(run.id, &MAX_STAGED.to_string()).await.unwrap();
    assert_eq!(last.result.unwrap_err().code, "SessionTooMuchStaged");
    world.complete(&run).await;
    assert_eq!(world.document("s").await, json!({ "n": MAX_STAGED }));
    assert_eq!(world.staged().await, 0);
}

/// Whether a run stages depends on the policy `restart` in the version of the run.
pub async fn whether_a_run_stages_is_said_by_its_own_version(world: &World) {
    let flow = |version, policy: &str| json!({ "name": "chat", "actions": { "edit": { "version": version, "concurrency": policy } } });
    world.define_flow(flow(1, "restart")).await;
    let old = edit(world, "s").await;
    world.define_flow(flow(2, "allow")).await;
    world.told(&old, "a", "s", set("a", json!(1))).await;
    assert_eq!(world.document_text("s").await, None);
    let new = edit(world, "s").await;
    world.told(&new, "b", "s", set("b", json!(1))).await;
    assert_eq!(world.document("s").await, json!({ "b": 1 }));
    world.complete(&old).await;
    assert_eq!(world.document("s").await, json!({ "b": 1, "a": 1 }));
}

/// spec B44: a run that replaces another one has the id of that run, and can read all its recorded
/// steps.
pub async fn a_newcomer_sees_what_the_replaced_run_did(world: &World) {
    chat(world).await;
    world.define(json!({ "name": "single", "singleton": { "mode": "cancel" } })).await;
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    world.define(json!({ "name": "order", "version": 1, "handoff": handoff })).await;
    for way in ["restart", "singleton", "supersede"] {
        let old = match way {
            "restart" => edit(world, "s").await,
            "singleton" => world.drive("single", json!({})).await,
            _ => world.drive("order", json!({})).await,
        };
        let sent = step("sent a mail", &json!({ "to": "x" }));
        assert_eq!(world.report(&old, vec![sent], Then::Continue).await, Ok(Recorded::GoOn));
        world.told(&old, "wrote", "s", set("torn", json!(way))).await;
        if way == "supersede" {
            world.define(json!({ "name": "order", "version": 2, "handoff": handoff })).await;
        }
        // Two times: the second run replaces one that never started.
        for _ in 0..2 {
            let verdict = match way {
                "restart" => world.call("chat", "edit", "s", json!({})).await,
                "singleton" => world.send("single", json!({})).await,
                _ => world.send("order", json!({})).await,
            };
            if way == "supersede" {
                break;
            }
            assert_eq!(verdict.outcome(), "replaced", "{way}");
        }
        assert_eq!(world.state(old.id).await, "cancelled", "{way}");
        world.stopped(&old).await;
        let new = world.lease_one().await;
        assert_eq!(new.replaced, Some(old.id), "{way}: the id of the replaced run is wrong");
        let steps: Vec<_> = world.steps(old.id).await.into_iter().map(|step| step.id).collect();
        assert_eq!(steps, ["sent a mail", "wrote"], "{way}");
        world.complete(&new).await;
    }
    world.check_quiet().await;
}

/// spec staging, G7: if unstarted runs replace each other, the last one names the run that executed
/// steps only if both share a gate; then it also waits until that run has stopped.
pub async fn a_newcomer_names_only_whose_place_it_has(world: &World) {
    let edit = json!({ "concurrency": "restart", "singleton": { "key": "input.page" } });
    world.define_flow(json!({ "name": "wiki", "actions": { "edit": edit } })).await;
    let edit = async |session: Option<&str>, page: u64| {
        let input = json!({ "page": page });
        world.dispatch(request("wiki", "edit", session, None, &input)).await.verdict
    };
    for stopped in [false, true] {
        // The second run replaces the first by their session; the third replaces the second by
        // their page, and shares no gate with the first.
        edit(Some("ann"), 1).await;
        let first = world.lease_one().await;
        let (second, gone) = replaced(&edit(Some("ann"), 2).await);
        assert_eq!(gone, first.id);
        if stopped {
            world.stopped(&first).await;
        }
        let (third, gone) = replaced(&edit(None, 2).await);
        assert_eq!(gone, second);
        let started = world.lease_one().await;
        assert_eq!((started.id, started.replaced), (third, Some(second)), "{stopped}");
        if !stopped {
            world.stopped(&first).await;
        }
        world.complete(&started).await;
    }
    // All three runs have the same page, so the third also replaces the first, although only the
    // second has a session.
    edit(None, 1).await;
    let first = world.lease_one().await;
    edit(Some("ann"), 1).await;
    let (third, _) = replaced(&edit(None, 1).await);
    assert!(
        world.lease_all().await.is_empty(),
        "the new run started before the worker of the first stopped"
    );
    world.stopped(&first).await;
    let started = world.lease_one().await;
    assert_eq!((started.id, started.replaced), (third, Some(first.id)));
    world.complete(&started).await;
    world.check_quiet().await;
}
