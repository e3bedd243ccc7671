//! Fair limits: the values of one key take turns by weight.

use serde_json::{Value, json};
use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    doctor::Checkup,
    id::RunId,
    overrides::{OverrideChange, Target},
    row::{GateState, Phase, Row, Run},
};
use tidegate_store::why;

use super::overrides::{ask, change, in_force, set, target};
use crate::world::World;

/// Defines the workflow `work` with one limit.
async fn limited(world: &World, limit: Value) {
    world.define(json!({ "name": "work", "concurrency": limit })).await;
}

fn one_at_a_time() -> Value {
    json!({ "limit": 1, "fair": { "by": "tenant" } })
}

/// Sends one event for each letter: a run of the tenant with this name. Returns the runs.
async fn send(world: &World, tenants: &str) -> Vec<RunId> {
    let mut runs = Vec::new();
    for tenant in tenants.chars() {
        runs.push(world.send_for_run("work", json!({ "tenant": tenant.to_string() })).await);
    }
    runs
}

/// Executes all runs one after another. Returns their tenants, in the order of their starts.
async fn served(world: &World) -> String {
    let mut order = String::new();
    loop {
        let leased = world.lease_all().await;
        if leased.is_empty() {
            return order;
        }
        for run in leased {
            order.push_str(&tenant(world, &run).await);
            world.complete(&run).await;
            healthy(world).await;
        }
    }
}

pub(super) async fn tenant(world: &World, run: &Run) -> String {
    let data = world.data_of(run.source.first()).await;
    data["tenant"].as_str().unwrap_or("-").to_owned()
}

/// Asserts that shares, queues and counts agree.
pub(super) async fn healthy(world: &World) {
    let mut checkup = Checkup::without_limits();
    world.dump().await.iter().for_each(|row| checkup.see(row));
    let findings = checkup.conclude().findings;
    assert!(findings.is_empty(), "{findings:?}");
}

/// Returns the number of shares of the workspace.
pub(super) async fn shares(world: &World) -> usize {
    let rows = world.dump().await;
    let shares = rows.iter().filter(|row| match row {
        Row::Gate(gate) => gate.key.is_of(&world.ws) && matches!(gate.state, GateState::Share(_)),
        _ => false,
    });
    shares.count()
}

/// spec L16: values take turns by their weights; ties go by rank. Runs without the value are one
/// value of their own. At the end nothing is left of the turns.
pub async fn values_take_turns_by_weight(world: &World) {
    let fair = json!({ "by": "tenant", "weights": { "a": 2 } });
    limited(world, json!({ "limit": 1, "fair": fair })).await;
    send(world, "xaaaabbgg").await;
    assert_eq!(world.send("work", json!({})).await.outcome(), "queued");
    healthy(world).await;
    assert_eq!(shares(world).await, 4);
    assert_eq!(served(world).await, "xaabg-aabg");
    assert_eq!(shares(world).await, 0);
    // Entries while nobody waits are not charged.
    send(world, "aab").await;
    assert_eq!(served(world).await, "aab");
    world.check_holds().await;
}

/// spec L16, L17: a tenant with many waiting runs delays none of fifty others with one each by more
/// than one of its runs.
pub async fn many_runs_of_one_tenant_delay_nobody_else(world: &World) {
    limited(world, one_at_a_time()).await;
    send(world, &"h".repeat(121)).await;
    let others: String = ('A'..='Z').chain('a'..='g').chain('i'..='z').take(50).collect();
    send(world, &others).await;
    let first = world.lease_one().await;
    world.complete(&first).await;
    healthy(world).await;
    let mut order = String::new();
    for _ in 0..52 {
        let run = world.lease_one().await;
        order.push_str(&tenant(world, &run).await);
        world.complete(&run).await;
    }
    let of_hot = order.matches('h').count();
    assert_eq!((of_hot, order.len()), (2, 52), "{order}");
    assert_eq!(order.replace('h', ""), others, "equal tags go by rank");
    assert_eq!(served(world).await, "h".repeat(118));
    world.check_holds().await;
}

/// spec L16, L17: a value that was idle, or that was served while nobody waited, gets its share from
/// now on, and nothing for the past.
pub async fn an_idle_value_saves_up_no_turns(world: &World) {
    limited(world, one_at_a_time()).await;
    send(world, "aaaaaaaa").await;
    for _ in 0..4 {
        let run = world.lease_one().await;
        world.complete(&run).await;
    }
    send(world, "bbb").await;
    assert_eq!(served(world).await, "aababab");
    world.check_holds().await;
}

/// spec L16: inside a value rank decides: priority and the time of the arrival keep their meaning,
/// and do not take the turn of another value.
pub async fn inside_a_value_rank_decides(world: &World) {
    let fair = json!({ "limit": 1, "fair": { "by": "tenant" } });
    world.put_pool(json!({ "name": "p", "concurrency": fair })).await;
    let uses = json!({ "pool": "p" });
    world.define(json!({ "name": "work", "concurrency": uses })).await;
    let shift = json!({ "shiftMs": 60_000 });
    world.define(json!({ "name": "urgent", "concurrency": uses, "priority": shift })).await;
    let runs = send(world, "xaaabb").await;
    let urgent = world.send_for_run("urgent", json!({ "tenant": "b" })).await;
    healthy(world).await;
    let expected = [runs[0], urgent, runs[1], runs[2], runs[4], runs[3], runs[5]];
    assert_eq!(world.drain().await, expected);
    healthy(world).await;
    world.check_holds().await;
}

/// spec L16, G2: a run that wakes waits for the turn of its value, before the younger runs of the
/// value; so does a run whose worker died.
pub async fn a_woken_run_waits_for_the_turn_of_its_value(world: &World) {
    limited(world, one_at_a_time()).await;
    let runs = send(world, "aaabbb").await;
    let first = world.lease_one().await;
    assert_eq!(first.id, runs[0]);
    world.sleep(&first, "nap", 1000).await;
    let second = world.lease_one().await;
    assert_eq!(second.id, runs[1], "the first tag of a");
    world.tick(1000).await;
    healthy(world).await;
    world.complete(&second).await;
    let expected = [runs[3], runs[0], runs[4], runs[2], runs[5]];
    assert_eq!(world.drain().await, expected);
    world.check_holds().await;
}

/// spec L16: if the first run of a value leaves the queue, its next one has the value's turn, at its
/// own cost. A value without waiting runs is forgotten, and gains nothing by that.
pub async fn a_cancelled_run_leaves_the_turn_to_its_value(world: &World) {
    limited(world, one_at_a_time()).await;
    let runs = send(world, "xaaabbb").await;
    let first = world.lease_one().await;
    for run in [runs[1], runs[2], runs[4]] {
        assert_eq!(world.cancel(run).await, Ok(Answer::Done));
        healthy(world).await;
    }
    assert_eq!(shares(world).await, 2);
    assert_eq!(world.cancel(runs[3]).await, Ok(Answer::Done));
    healthy(world).await;
    assert_eq!(shares(world).await, 1);
    send(world, "a").await;
    world.complete(&first).await;
    assert_eq!(served(world).await, "bab");
    world.check_holds().await;
}

/// spec L8, L16: a value pays for what its runs take: of two with equal weights, that with runs of
/// three units gets a third of the entries.
pub async fn turns_are_counted_in_units(world: &World) {
    let fair = json!({ "by": "tenant" });
    limited(world, json!({ "limit": 3, "cost": "units", "fair": fair })).await;
    let run = async |tenant: &str, units: u32| {
        world.send_for_run("work", json!({ "tenant": tenant, "units": units })).await
    };
    run("x", 3).await;
    for _ in 0..3 {
        run("a", 3).await;
    }
    for _ in 0..9 {
        run("b", 1).await;
    }
    let first = world.lease_one().await;
    world.complete(&first).await;
    let mut order = String::new();
    loop {
        let leased = world.lease(1).await;
        let Some(run) = leased.first() else { break };
        order.push_str(&tenant(world, run).await);
        world.complete(run).await;
        healthy(world).await;
    }
    assert_eq!(order, "bbabbbabbbab");
    world.check_holds().await;
}

/// spec L16, M1: at a throttle the values take turns, and starts keep their distance.
pub async fn turns_at_a_throttle(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "fair": { "by": "tenant" } });
    world.define(json!({ "name": "work", "throttle": throttle })).await;
    send(world, "xaaabb").await;
    let mut order = String::new();
    for _ in 0..6 {
        let run = world.lease_one().await;
        order.push_str(&tenant(world, &run).await);
        world.complete(&run).await;
        assert!(world.lease_all().await.is_empty(), "two starts at once");
        healthy(world).await;
        world.tick(1000).await;
    }
    assert_eq!(order, "xababa");
    world.check_holds().await;
}

/// spec L4, L16: the values of all workflows of a pool take turns together, on a limit with the span
/// `run`, too.
pub async fn workflows_of_a_pool_share_the_turns(world: &World) {
    for (name, span) in [("inside", "run"), ("driven", "executing")] {
        let world = world.in_workspace(name);
        let fair = json!({ "by": "tenant", "weights": { "b": 2 } });
        let limit = json!({ "limit": 1, "span": span, "fair": fair });
        world.put_pool(json!({ "name": "gpu", "concurrency": limit })).await;
        for name in ["work", "other"] {
            world.define(json!({ "name": name, "concurrency": { "pool": "gpu" } })).await;
        }
        send(&world, "xaaa").await;
        for _ in 0..4 {
            world.send_for_run("other", json!({ "tenant": "b" })).await;
        }
        assert_eq!(served(&world).await, "xbabbaba");
        world.check_holds().await;
    }
}

/// spec L16, L19: a bound counts the runs of all values.
pub async fn a_bound_counts_the_runs_of_all_values(world: &World) {
    let mut limit = one_at_a_time();
    limit["queue"] = json!({ "maxWaiting": 3 });
    limited(world, limit).await;
    send(world, "xaab").await;
    for tenant in ["a", "c"] {
        let refused = world.send("work", json!({ "tenant": tenant })).await;
        assert_eq!(refused.outcome(), "rejected", "{refused:?}");
        healthy(world).await;
    }
    assert_eq!(shares(world).await, 2, "a refused run leaves no share");
    let first = world.lease_one().await;
    world.complete(&first).await;
    send(world, "c").await;
    assert_eq!(served(world).await, "abac");
    world.check_holds().await;
}

/// spec L16: a release that adds `fair` lets the runs that wait go first, by rank; one that removes
/// it returns all to the order of rank. No run is lost.
pub async fn a_release_adds_and_removes_fair(world: &World) {
    limited(world, json!({ "limit": 1 })).await;
    let before = send(world, "xaab").await;
    limited(world, one_at_a_time()).await;
    healthy(world).await;
    let after = send(world, "aaabbc").await;
    let first = world.lease_one().await;
    world.complete(&first).await;
    for run in &before[1..] {
        let next = world.lease_one().await;
        assert_eq!(next.id, *run, "the runs of before go first");
        world.complete(&next).await;
        healthy(world).await;
    }
    let next = world.lease_one().await;
    assert_eq!(next.id, after[0]);
    limited(world, json!({ "limit": 1 })).await;
    let last = send(world, "ab").await;
    world.complete(&next).await;
    healthy(world).await;
    assert_eq!(shares(world).await, 0);
    let expected: Vec<RunId> = after[1..].iter().chain(&last).copied().collect();
    assert_eq!(world.drain().await, expected);
    healthy(world).await;
    world.check_holds().await;
}

/// spec L16: weights of a new release apply to the tags that are given from then on.
pub async fn a_release_changes_the_weights(world: &World) {
    limited(world, one_at_a_time()).await;
    send(world, "xaaaabbbb").await;
    let fair = json!({ "by": "tenant", "weights": { "b": 3 } });
    limited(world, json!({ "limit": 1, "fair": fair })).await;
    assert_eq!(served(world).await, "xabbbabaa");
    world.check_holds().await;
}

/// spec L16, L25: a pause takes runs out of a fair queue, and lets them in again at the turns of
/// their values.
pub async fn a_pause_takes_runs_out_of_a_fair_queue(world: &World) {
    let mut limit = one_at_a_time();
    limit["queue"] = json!({ "maxWaiting": 9 });
    limited(world, limit).await;
    let runs = send(world, "xaab").await;
    let first = world.lease_one().await;
    paused(world, true).await;
    world.complete(&first).await;
    assert_eq!(world.lease_all().await, []);
    healthy(world).await;
    assert_eq!(shares(world).await, 0);
    paused(world, false).await;
    healthy(world).await;
    assert_eq!(served(world).await.len(), runs.len() - 1);
    world.check_holds().await;
}

async fn paused(world: &World, paused: bool) {
    let target: Target = serde_json::from_value(
        json!({ "app": tidegate_core::definition::DEFAULT_APP, "workflow": "work" }),
    )
    .expect("a target");
    let change = if paused {
        let fields = serde_json::from_value(json!({ "paused": true })).expect("fields");
        OverrideChange::Set { target, fields, reason: None, expires_at: None }
    } else {
        OverrideChange::Remove(target)
    };
    let by = Author { name: Some("ops".to_owned()), address: None };
    let (ws, change) = (world.ws.clone(), Box::new(change));
    let changed = world.run(Command::Override { ws, change, by, if_epoch: None }).await;
    assert!(matches!(changed, Ok(Answer::Overridden(_))), "{changed:?}");
    world.sweep().await;
}

/// spec L16, I7: a run with a lower cost that becomes the first of its value starts if there is room
/// for it.
pub async fn a_cheaper_first_run_finds_room(world: &World) {
    let fair = json!({ "limit": 4, "cost": "units", "fair": { "by": "tenant" } });
    limited(world, fair).await;
    let run = async |tenant: &str, units: u32| {
        world.send_for_run("work", json!({ "tenant": tenant, "units": units })).await
    };
    run("x", 3).await;
    let large = run("a", 2).await;
    let small = run("a", 1).await;
    let first = world.lease_one().await;
    assert_eq!(world.cancel(large).await, Ok(Answer::Done));
    healthy(world).await;
    assert_eq!(world.lease_one().await.id, small);
    world.complete(&first).await;
    world.check_holds().await;
}

/// spec L18: `why` names the value, its weight, the place of the run in it, and a bound of the
/// entries before it.
pub async fn why_names_the_turn(world: &World) {
    let fair = json!({ "by": "tenant", "weights": { "b": 3 } });
    limited(world, json!({ "limit": 1, "fair": fair })).await;
    let runs = send(world, "xaaabbbbg").await;
    let said = async |run: RunId| why(&*world.store, &world.ws, run).await.unwrap().unwrap();
    for (run, words) in [
        (runs[1], "1st of a (weight 1 of 5), at most 3 entries until then; freed by the end of"),
        (runs[3], "3rd of a (weight 1 of 5), at most 13 entries until then"),
        (runs[4], "1st of b (weight 3 of 5), at most 0 entries until then"),
        (runs[7], "4th of b (weight 3 of 5), at most 5 entries until then"),
        (runs[8], "1st of g (weight 1 of 5), at most 3 entries until then"),
    ] {
        let why = said(run).await;
        assert!(why.sentence.contains(words), "{}", why.sentence);
        assert_eq!(why.gates[0].place, None);
    }
    let standing = said(runs[3]).await.gates[0].fair.clone().expect("a fair gate");
    assert_eq!((standing.value.as_str(), standing.place, standing.ahead), ("a", Some(3), 13));
    let before = served(world).await;
    assert_eq!(before, "xbbagbbaa");
    world.check_holds().await;
}

/// spec L16, L24: an override replaces the weight of one value, for the tags that are given from
/// then on, until it is undone; `why` names its author and reason.
pub async fn an_override_changes_the_weight_of_one_value(world: &World) {
    limited(world, one_at_a_time()).await;
    let of = || json!({ "workflow": "work", "control": "concurrency", "value": "a" });
    change(world, set(of(), json!({ "weight": 2 }))).await;
    let runs = send(world, "xaaaabb").await;
    let why = why(&*world.store, &world.ws, runs[2]).await.unwrap().unwrap();
    let words = "2nd of a (weight 2 of 3, overridden by ops: the provider is slow), at most";
    assert!(why.sentence.contains(words), "{}", why.sentence);
    assert_eq!(served(world).await, "xaabaab");
    change(world, OverrideChange::Undo(target(of()))).await;
    assert_eq!(in_force(world).await, []);
    send(world, "xaaaabb").await;
    assert_eq!(served(world).await, "xababaa");
    world.check_holds().await;
}

/// spec L24: a weight belongs to a value of a limit with `fair`, and a value has nothing else.
pub async fn a_weight_of_no_value_is_refused_with_the_fix(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000 });
    let definition =
        json!({ "name": "work", "concurrency": one_at_a_time(), "throttle": throttle });
    world.define(definition).await;
    let weight = |of: u32| json!({ "weight": of });
    let on = |control: &str, more: Value| {
        let mut of = json!({ "workflow": "work", "control": control });
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of
    };
    let value = || json!({ "value": "a" });
    let rows = [
        (on("concurrency", json!({})), weight(2), "`weight` needs `value` in the target"),
        (on("concurrency", value()), weight(0), "weight must be from 1 to 1000, got 0"),
        (on("concurrency", value()), weight(1001), "weight must be from 1 to 1000, got 1001"),
        (on("concurrency", value()), json!({}), "give at least one of weight"),
        (on("concurrency", value()), json!({ "limit": 2 }), "which has only a `weight`"),
        (on("concurrency", json!({ "value": "" })), weight(2), "1 to 1,024 bytes, got 0"),
        (
            on("concurrency", json!({ "value": "a", "key": "b" })),
            weight(2),
            "give `value` without `key`, `keyPrefix` and `position`",
        ),
        (on("throttle", value()), weight(2), "the throttle of `work` has no `fair`"),
        (on("rateLimit", value()), weight(2), "`value` needs `control`"),
    ];
    for (of, fields, words) in rows {
        let shown = format!("{of} {fields}");
        let refused = ask(world, set(of, fields), None).await.expect_err(&shown).to_string();
        assert!(refused.contains(words), "{shown}: {refused}");
    }
}

/// spec L16: commits that race, and those of several engines, leave one share for each value.
pub async fn engines_that_race_keep_the_turns(world: &World) {
    limited(world, json!({ "limit": 2, "fair": { "by": "tenant" } })).await;
    let drive = async |id: u128| {
        let engine = world.engine(id);
        let mut done = 0;
        for n in 0..10 {
            send(&engine, ["a", "ab", "c"][n % 3]).await;
            for run in engine.lease(1).await {
                tokio::task::yield_now().await;
                engine.complete(&run).await;
                done += 1;
            }
        }
        done
    };
    let (a, b, c, d) = tokio::join!(drive(11), drive(12), drive(13), drive(14));
    healthy(world).await;
    let rows = world.dump().await;
    let queued = rows.iter().filter_map(Row::as_run);
    let queued = queued.filter(|run| matches!(run.phase, Phase::Queued { .. })).count();
    assert!(queued > 4, "too few runs waited: {queued}");
    assert_eq!(a + b + c + d + served(world).await.len(), 4 * 13);
    world.check_holds().await;
}
