//! Lists of runs: newest first, complete page by page, and filtered.

use serde_json::json;
use tidegate_core::{
    id::{RunId, Seq},
    list::{RunFilter, RunStatus},
    row::{Row, RowKey},
};

use crate::world::World;

/// Returns the numbers of all runs of a list, read page by page.
async fn listed(world: &World, which: &RunFilter, limit: u32) -> Vec<Seq> {
    let (mut all, mut below) = (Vec::new(), None);
    loop {
        let page = world.list(which, below, limit).await;
        assert!(page.runs.len() <= limit as usize);
        all.extend(page.runs.iter().map(|row| match row.key() {
            RowKey::Run(seq) | RowKey::Ended(seq) => seq,
            other => panic!("unexpected item in a list of runs: {other:?}"),
        }));
        below = page.next;
        if below.is_none() {
            return all;
        }
    }
}

fn newest_first(runs: &[RunId]) -> Vec<Seq> {
    let mut numbers: Vec<Seq> = runs.iter().map(|run| run.seq).collect();
    numbers.sort();
    numbers.reverse();
    numbers
}

/// spec N15: a list is complete for every page size, with live and ended runs.
pub async fn a_list_is_complete_whatever_its_pages(world: &World) {
    world.define(json!({ "name": "a" })).await;
    world.define(json!({ "name": "b" })).await;
    let mut sent = Vec::new();
    for n in 0..9 {
        let name = if n % 3 == 0 { "a" } else { "b" };
        sent.push(world.send_for_run(name, json!(n)).await);
        if n % 2 == 0 {
            world.complete(&world.lease(1).await[0]).await;
        }
    }
    let driven = world.lease(1).await.remove(0);
    world.cancel(driven.id).await.unwrap();
    let other = world.in_workspace("other");
    other.define(json!({ "name": "a" })).await;
    let theirs = other.send_for_run("a", json!(1)).await;
    for limit in [1, 2, 3, 4, 100] {
        let all = listed(world, &RunFilter::default(), limit).await;
        assert_eq!(all, newest_first(&sent), "{limit} a page");
        assert_eq!(listed(&other, &RunFilter::default(), limit).await, newest_first(&[theirs]));
    }
    for (state, shown) in [(RunStatus::Running, &[][..]), (RunStatus::Cancelled, &[driven.id])] {
        let which = RunFilter { state: Some(state), ..RunFilter::default() };
        let runs = listed(world, &which, 2).await;
        assert_eq!(
            runs,
            newest_first(shown),
            "a cancelled run whose worker has not stopped must be listed as ended"
        );
    }
}

/// spec N15: pages are stable while runs are created and end.
pub async fn a_list_is_stable_while_runs_come_and_end(world: &World) {
    world.define(json!({ "name": "a" })).await;
    let mut sent = Vec::new();
    for n in 0..4 {
        sent.push(world.send_for_run("a", json!(n)).await);
    }
    let first = world.list(&RunFilter::default(), None, 2).await;
    world.send("a", json!(4)).await;
    world.drain().await;
    let second = world.list(&RunFilter::default(), first.next, 2).await;
    let keys: Vec<_> = second.runs.iter().map(Row::key).collect();
    assert_eq!(keys, [RowKey::Ended(sent[1].seq), RowKey::Ended(sent[0].seq)]);
}

/// spec lists: lists can be filtered by app, workflow, version and status.
pub async fn a_list_shows_what_was_asked_for(world: &World) {
    world.define(json!({ "name": "a", "version": 1, "concurrency": { "limit": 1 } })).await;
    world.define(json!({ "name": "b", "app": "shop", "triggers": ["b"] })).await;
    let (mut sent, mut by_state) = (Vec::new(), Vec::new());
    for state in RunStatus::ALL {
        let run = world.send_for_run("b", json!(state.as_str())).await;
        sent.push(run);
        by_state.push((state, run));
        if state == RunStatus::Queued {
            // This run is not leased: it is paused while the other runs are driven.
            world.pause(run).await.unwrap();
            continue;
        }
        let leased = world.lease_one().await;
        match state {
            RunStatus::Queued | RunStatus::Running => {}
            RunStatus::Waiting => world.sleep(&leased, "nap", 1000).await,
            RunStatus::Paused => {
                world.sleep(&leased, "nap", 1000).await;
                world.pause(run).await.unwrap();
            }
            RunStatus::Completed => world.complete(&leased).await,
            RunStatus::Failed => world.fail(&leased).await,
            RunStatus::Cancelled => {
                world.cancel(run).await.unwrap();
                world.stopped(&leased).await;
            }
        }
    }
    world.resume(sent[0]).await.unwrap();
    for (state, run) in by_state {
        for limit in [1, 2, 10] {
            let which = RunFilter { state: Some(state), ..RunFilter::default() };
            assert_eq!(listed(world, &which, limit).await, [run.seq], "{state:?}");
        }
    }
    let old = world.send_for_run("a", json!(1)).await;
    world.define(json!({ "name": "a", "version": 2 })).await;
    let new = world.send_for_run("a", json!(1)).await;
    let cases = [
        (RunFilter { app: Some("shop".into()), ..RunFilter::default() }, sent.clone()),
        (RunFilter { app: Some("none".into()), ..RunFilter::default() }, Vec::new()),
        (RunFilter { workflow: Some("a".into()), ..RunFilter::default() }, vec![old, new]),
        (
            RunFilter { workflow: Some("a".into()), version: Some(2), ..RunFilter::default() },
            vec![new],
        ),
        (RunFilter { version: Some(1), ..RunFilter::default() }, [&sent[..], &[old]].concat()),
    ];
    for (which, expected) in cases {
        assert_eq!(listed(world, &which, 2).await, newest_first(&expected), "{which:?}");
    }
}
