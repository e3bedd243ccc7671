//! Tests of the parts of limits that are no controls of their own, beside controls and each other:
//! queues, costs, pools, numbers from data, pauses and closed gates. Each row of
//! docs/controls/combining.md about such a part names its test.

use expect_test::expect;

use crate::{
    pairs::{panel, played, sent_to},
    play::{Panel, Sent, Setting, event},
};

const ONE: &str = "concurrency = { limit = 1 }";

/// Creates an event that costs this many units.
fn costs(letter: char, at: u64, works: u64, units: &'static str) -> Sent {
    event(letter, at, works).key("units", units)
}

/// Workflows that share a pool with this limit: `work` with these controls, and `other`.
fn pooled(limit: &str, controls: &str, sent: Vec<Sent>) -> Panel {
    let uses = "concurrency = { pool = \"p\" }";
    let work = format!("name = \"work\"\n{uses}\n{controls}");
    let other = format!("name = \"other\"\n{uses}");
    let panel = Panel::new("", Setting::Workflows(vec![work, other], 100), sent);
    panel.pool(&format!("name = \"p\"\n{limit}"))
}

#[tokio::test]
async fn a_bound_counts_runs_and_not_units() {
    let controls = "concurrency = { limit = 4, cost = \"units\", queue = { maxWaiting = 1 } }";
    let sent =
        vec![costs('a', 0, 3000, "4"), costs('b', 500, 1000, "1"), costs('c', 1000, 1000, "1")];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: rejected, 1 wait
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_cost_that_is_rejected_takes_no_claim() {
    let controls = "concurrency = { limit = 4, cost = \"units\" }\n\
                    idempotency = { key = \"id\" }";
    let sent = vec![
        costs('a', 0, 1000, "5").id("x"),
        costs('b', 500, 1000, "2").id("x"),
        costs('c', 1000, 1000, "2").id("x"),
    ];
    expect![[r#"
        a at 0 s: rejected
        b at 0.5 s: started; runs (b) 0.5 s to 1.5 s
        c at 1 s: deduped, b was first
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_large_run_that_expires_lets_smaller_ones_in() {
    let controls = "startWithinMs = 2000\nconcurrency = { limit = 4, cost = \"units\" }";
    let sent =
        vec![costs('a', 0, 5000, "3"), costs('b', 500, 1000, "2"), costs('c', 1000, 1000, "1")];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 5 s
        b at 0.5 s: queued; waits 0.5 s to 2.5 s; replaced
        c at 1 s: queued; waits 1 s to 2.5 s; runs (c) 2.5 s to 3.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_large_run_that_an_event_cancels_lets_smaller_ones_in() {
    let controls = "cancelOn = { event = \"gone\", match = { units = \"units\" } }\n\
                    concurrency = { limit = 4, cost = \"units\" }";
    let sent = vec![
        costs('a', 0, 5000, "3"),
        costs('b', 500, 1000, "2"),
        costs('c', 1000, 1000, "1"),
        costs('x', 2000, 0, "2").to("gone"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 5 s
        b at 0.5 s: queued; waits 0.5 s to 2 s; replaced
        c at 1 s: queued; waits 1 s to 2 s; runs (c) 2 s to 3 s
        x at 2 s: recorded
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_run_that_replaces_another_brings_its_own_cost() {
    let controls = "singleton = { mode = \"cancel\", key = \"id\" }\n\
                    concurrency = { limit = 4, cost = \"units\" }";
    let sent = vec![
        costs('a', 0, 3000, "3").id("x"),
        costs('b', 500, 1000, "2").id("y"),
        costs('c', 1000, 1000, "1").id("y"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 1 s; replaced
        c at 1 s: replaced b; runs (c) 1 s to 2 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn versions_share_the_units() {
    let handoff = "handoff = { type = \"singleton\", onNewVersion = \"coexist\" }";
    let limit = "concurrency = { limit = 4, cost = \"units\" }";
    let definition = format!("name = \"work\"\n{handoff}\n{limit}");
    let sent = vec![costs('a', 0, 3000, "3"), costs('b', 1500, 1000, "2")];
    let panel = Panel::new("", Setting::versions(definition, 1000), sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 1.5 s: queued; waits 1.5 s to 3 s; runs (b) 3 s to 4 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_run_that_an_event_cancels_leaves_room_in_the_queue() {
    let controls = "cancelOn = { event = \"gone\", match = { id = \"id\" } }\n\
                    concurrency = { limit = 1, queue = { maxWaiting = 1 } }";
    let sent = vec![
        event('a', 0, 4000).id("1"),
        event('b', 500, 1000).id("2"),
        event('c', 1000, 1000).id("3"),
        event('x', 1500, 0).id("2").to("gone"),
        event('d', 2000, 1000).id("4"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 4 s
        b at 0.5 s: queued; waits 0.5 s to 1.5 s; replaced
        c at 1 s: rejected, 1 wait
        d at 2 s: queued; waits 2 s to 4 s; runs (d) 4 s to 5 s
        x at 1.5 s: recorded
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_singleton_keeps_its_key_while_it_waits_for_the_pool() {
    let sent = vec![event('a', 0, 3000).to("other"), event('b', 500, 1000), event('c', 1000, 1000)];
    let panel = pooled(ONE, "singleton = { mode = \"skip\" }", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: skipped, b is live
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_pool_takes_claims_at_arrival() {
    let sent = vec![
        event('a', 0, 4000).to("other"),
        event('b', 500, 1000).id("x"),
        event('c', 1000, 1000).id("x"),
        event('d', 3000, 1000).id("x"),
    ];
    let panel = pooled(ONE, "idempotency = { key = \"id\", periodMs = 2000 }", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 4 s
        b at 0.5 s: queued; waits 0.5 s to 4 s; runs (b) 4 s to 5 s
        c at 1 s: deduped, b was first
        d at 3 s: queued; waits 3 s to 5 s; runs (d) 5 s to 6 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_busy_workflow_lets_the_runs_of_others_expire() {
    let sent = vec![event('a', 0, 3000).to("other"), event('b', 500, 1000)];
    let panel = pooled(ONE, "startWithinMs = 2000", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 2.5 s; replaced
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_run_that_an_event_cancels_leaves_the_queue_of_the_pool() {
    let sent = vec![
        event('a', 0, 3000).to("other"),
        event('b', 500, 1000).id("1"),
        event('c', 1000, 1000).id("2"),
        event('x', 1500, 0).id("1").to("gone"),
    ];
    let panel = pooled(ONE, "cancelOn = { event = \"gone\", match = { id = \"id\" } }", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 1.5 s; replaced
        c at 1 s: queued; waits 1 s to 3 s; runs (c) 3 s to 4 s
        x at 1.5 s: recorded
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_window_takes_a_place_of_the_pool_at_its_fire() {
    let sent = vec![event('a', 0, 1000), event('b', 500, 1000), event('c', 1000, 2000).to("other")];
    let panel = pooled(ONE, "debounce = { periodMs = 1000 }", sent);
    expect![[r#"
        a at 0 s, b at 0.5 s: coalesced; collects 0 s to 1.5 s; waits 1.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: started; runs (c) 1 s to 3 s
    "#]].assert_eq(&played(panel).await);
}

#[tokio::test]
async fn an_older_version_waits_for_the_pool_before_the_newer() {
    let sent = vec![event('a', 0, 3000).to("other"), event('b', 500, 1000), event('c', 1000, 1000)];
    let panel = pooled(ONE, "handoff = { type = \"singleton\", onNewVersion = \"drain\" }", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: queued; waits 1 s to 4 s; runs (c) 4 s to 5 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_refusal_lowers_the_limit_of_all_workflows_of_the_pool() {
    let sent = vec![
        event('a', 0, 1000).refused(8000),
        event('b', 500, 3000).to("other"),
        event('c', 1000, 1000).to("other"),
    ];
    let limit = "concurrency = { limit = 2, adaptive = { min = 1, max = 4 } }";
    let panel = pooled(limit, "", sent);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 1 s; sleeps 1 s to 9 s; runs (a) 9 s to 10 s
        b at 0.5 s: started; runs (b) 0.5 s to 3.5 s
        c at 1 s: queued; waits 1 s to 3.5 s; runs (c) 3.5 s to 4.5 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_higher_number_empties_the_queue_and_a_bound_counts_what_waits() {
    let limit = "limit = { from = \"seats\", min = 1, max = 3 }";
    let controls = format!("concurrency = {{ {limit}, queue = {{ maxWaiting = 1 }} }}");
    let sent = vec![
        event('a', 0, 4000).key("seats", "1"),
        event('b', 500, 2000).key("seats", "1"),
        event('c', 1000, 1000).key("seats", "3"),
        event('d', 1500, 1000).key("seats", "1"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 4 s
        b at 0.5 s: queued; waits 0.5 s to 1 s; runs (b) 1 s to 3 s
        d at 1.5 s: queued; waits 1.5 s to 4 s; runs (d) 4 s to 5 s
        c at 1 s: started; runs (c) 1 s to 2 s
    "#]]
    .assert_eq(&sent_to(&controls, sent).await);
}

#[tokio::test]
async fn values_take_turns_at_a_limit_from_data() {
    let controls =
        "concurrency = { limit = { from = \"seats\", min = 1, max = 3 }, fair = { by = \"id\" } }";
    let sent = vec![
        event('a', 0, 2000).key("seats", "1").id("x"),
        event('b', 500, 1000).key("seats", "1").id("x"),
        event('c', 1000, 1000).key("seats", "1").id("x"),
        event('d', 1500, 1000).key("seats", "1").id("y"),
    ];
    expect![[r#"
            a at 0 s: started; runs (a) 0 s to 2 s
            b at 0.5 s: queued; waits 0.5 s to 2 s; runs (b) 2 s to 3 s
            c at 1 s: queued; waits 1 s to 4 s; runs (c) 4 s to 5 s
            d at 1.5 s: queued; waits 1.5 s to 3 s; runs (d) 3 s to 4 s
        "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_window_sets_the_limit_of_its_kept_event() {
    let controls = "debounce = { periodMs = 1000 }\n\
                    concurrency = { limit = { from = \"seats\", min = 1, max = 3 } }";
    let sent = vec![
        event('a', 0, 4000).key("seats", "1"),
        event('b', 500, 4000).key("seats", "2"),
        event('c', 2000, 1000).key("seats", "1"),
        event('d', 2500, 1000).key("seats", "2"),
    ];
    expect![[r#"
        a at 0 s, b at 0.5 s: coalesced; collects 0 s to 1.5 s; runs (b) 1.5 s to 5.5 s
        c at 2 s, d at 2.5 s: coalesced; collects 2 s to 3.5 s; runs (d) 3.5 s to 4.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_batch_sets_the_limit_of_its_first_event() {
    let controls = "batch = { maxSize = 2, timeoutMs = 1000 }\n\
                    concurrency = { limit = { from = \"seats\", min = 1, max = 3 } }";
    let sent = vec![
        event('a', 0, 4000).key("seats", "1"),
        event('b', 500, 4000).key("seats", "2"),
        event('c', 1000, 4000).key("seats", "2"),
        event('d', 1500, 4000).key("seats", "1"),
    ];
    expect![[r#"
        a at 0 s, b at 0.5 s: a buffered, b started; collects 0 s to 0.5 s; runs (a b) 0.5 s to 4.5 s
        c at 1 s, d at 1.5 s: c buffered, d started; collects 1 s to 1.5 s; runs (c d) 1.5 s to 5.5 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_paused_workflow_spends_its_rate() {
    let sent = vec![event('a', 500, 1000), event('b', 1000, 1000)];
    let panel = panel("rateLimit = { limit = 1, perMs = 2000 }", sent).paused(0).undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 3 s; runs (a) 3 s to 4 s
        b at 1 s: dropped, retry at 2.5 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_paused_workflow_collects_a_window_and_its_run_waits() {
    let sent = vec![event('a', 500, 1000), event('b', 2000, 1000)];
    let panel = panel("debounce = { periodMs = 1000 }", sent).paused(0).undone(3000);
    expect![[r#"
        a at 0.5 s: coalesced; collects 0.5 s to 1.5 s; waits 1.5 s to 3 s; runs (a) 3 s to 4 s
        b at 2 s: coalesced; collects 2 s to 3 s; runs (b) 3 s to 4 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_paused_workflow_fills_a_buffer_and_its_run_waits() {
    let sent = vec![event('a', 500, 1000), event('b', 1000, 1000), event('c', 1500, 1000)];
    let panel = panel("batch = { maxSize = 2, timeoutMs = 5000 }", sent).paused(0).undone(3000);
    expect![[r#"
        a at 0.5 s, b at 1 s: a buffered, b queued; collects 0.5 s to 1 s; waits 1 s to 3 s; runs (a b) 3 s to 4 s
        c at 1.5 s: buffered; collects 1.5 s to 6.5 s; runs (c) 6.5 s to 7.5 s
    "#]].assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_paused_run_keeps_its_claim() {
    let sent = vec![
        event('a', 500, 1000).id("x"),
        event('b', 1000, 1000).id("x"),
        event('c', 2000, 1000).id("x"),
    ];
    let panel =
        panel("idempotency = { key = \"id\", periodMs = 1000 }", sent).paused(0).undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 3 s; runs (a) 3 s to 4 s
        b at 1 s: deduped, a was first
        c at 2 s: queued; waits 2 s to 3 s; runs (c) 3 s to 4 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn an_event_cancels_a_paused_run() {
    let sent = vec![event('a', 500, 1000).id("x"), event('x', 1000, 0).id("x").to("gone")];
    let panel = panel("cancelOn = { event = \"gone\", match = { id = \"id\" } }", sent)
        .paused(0)
        .undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 1 s; replaced
        x at 1 s: recorded
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_paused_workflow_fills_the_queue_of_the_whole_run() {
    let sent = vec![event('a', 500, 1000), event('b', 1000, 1000), event('c', 1500, 1000)];
    let panel =
        panel("concurrency = { limit = 1, span = \"run\", queue = { maxWaiting = 1 } }", sent)
            .paused(0)
            .undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 3 s; runs (a) 3 s to 4 s
        b at 1 s: queued; waits 1 s to 4 s; runs (b) 4 s to 5 s
        c at 1.5 s: rejected, 1 wait
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn paused_runs_are_not_counted_by_the_bound_of_a_slot() {
    let sent = vec![event('a', 500, 1000), event('b', 1000, 1000), event('c', 1500, 1000)];
    let panel = panel("concurrency = { limit = 1, queue = { maxWaiting = 1 } }", sent)
        .paused(0)
        .undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 3 s; runs (a) 3 s to 4 s
        b at 1 s: queued; waits 1 s to 4 s; runs (b) 4 s to 5 s
        c at 1.5 s: queued; waits 1.5 s to 5 s; runs (c) 5 s to 6 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn paused_runs_take_no_units() {
    let sent = vec![costs('a', 500, 1000, "3"), costs('b', 1000, 1000, "3")];
    let panel = panel("concurrency = { limit = 4, cost = \"units\" }", sent).paused(0).undone(3000);
    expect![[r#"
        a at 0.5 s: queued; waits 0.5 s to 3 s; runs (a) 3 s to 4 s
        b at 1 s: queued; waits 1 s to 4 s; runs (b) 4 s to 5 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_paused_older_version_holds_back_the_newer() {
    let sent = vec![event('a', 0, 1000), event('b', 1500, 1000)];
    let handoff = "handoff = { type = \"singleton\", onNewVersion = \"drain\" }";
    let setting = Setting::versions(format!("name = \"work\"\n{handoff}"), 1000);
    let panel = Panel::new("", setting, sent).paused(0).undone(3000);
    expect![[r#"
        a at 0 s: queued; waits 0 s to 3 s; runs (a) 3 s to 4 s
        b at 1.5 s: queued; waits 1.5 s to 4 s; runs (b) 4 s to 5 s
    "#]]
    .assert_eq(&played(panel).await);
}

#[tokio::test]
async fn a_closed_gate_spends_the_rate() {
    let controls = "rateLimit = { limit = 2, perMs = 9000 }\nconcurrency = { limit = 2 }";
    let sent =
        vec![event('a', 0, 500).closes(3000), event('b', 1000, 1000), event('c', 1500, 1000)];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; runs (a) 3.5 s to 4 s
        b at 1 s: queued; waits 1 s to 3.5 s; runs (b) 3.5 s to 4.5 s
        c at 1.5 s: dropped, retry at 4.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_full_buffer_is_flushed_while_a_gate_is_closed() {
    let controls = "batch = { maxSize = 2, timeoutMs = 1000 }\nconcurrency = { limit = 2 }";
    let sent = vec![
        event('a', 0, 500).closes(4000),
        event('b', 500, 1000),
        event('c', 2500, 1000),
        event('d', 3000, 1000),
    ];
    expect![[r#"
        a at 0 s, b at 0.5 s: a buffered, b started; collects 0 s to 0.5 s; runs (a b) 0.5 s to 1 s; sleeps 1 s to 5 s; runs (a b) 5 s to 5.5 s
        c at 2.5 s, d at 3 s: c buffered, d queued; collects 2.5 s to 3 s; waits 3 s to 5 s; runs (c d) 5 s to 6 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_window_fires_while_a_gate_is_closed_and_its_run_waits() {
    let controls = "debounce = { periodMs = 500 }\nconcurrency = { limit = 2 }";
    let sent =
        vec![event('a', 0, 500).closes(4000), event('b', 1500, 1000), event('c', 3000, 1000)];
    expect![[r#"
        a at 0 s: coalesced; collects 0 s to 0.5 s; runs (a) 0.5 s to 1 s; sleeps 1 s to 5 s; waits 5 s to 6 s; runs (a) 6 s to 6.5 s
        b at 1.5 s: coalesced; collects 1.5 s to 2 s; waits 2 s to 5 s; runs (b) 5 s to 6 s
        c at 3 s: coalesced; collects 3 s to 3.5 s; waits 3.5 s to 5 s; runs (c) 5 s to 6 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_run_that_waits_for_a_closed_gate_is_live() {
    let controls = "singleton = { mode = \"skip\", key = \"id\" }\nconcurrency = { limit = 2 }";
    let sent = vec![
        event('a', 0, 500).closes(3000).id("x"),
        event('b', 1000, 1000).id("y"),
        event('c', 1500, 1000).id("y"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; runs (a) 3.5 s to 4 s
        b at 1 s: queued; waits 1 s to 3.5 s; runs (b) 3.5 s to 4.5 s
        c at 1.5 s: skipped, b is live
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_claim_runs_on_while_a_gate_is_closed() {
    let controls = "idempotency = { key = \"id\", periodMs = 1000 }\n\
                    concurrency = { limit = 2 }";
    let sent = vec![
        event('a', 0, 500).closes(3000),
        event('b', 1000, 1000).id("y"),
        event('c', 1500, 1000).id("y"),
        event('d', 2500, 1000).id("y"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; waits 3.5 s to 4.5 s; runs (a) 4.5 s to 5 s
        b at 1 s: queued; waits 1 s to 3.5 s; runs (b) 3.5 s to 4.5 s
        c at 1.5 s: deduped, b was first
        d at 2.5 s: queued; waits 2.5 s to 3.5 s; runs (d) 3.5 s to 4.5 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn an_event_cancels_a_run_that_waits_for_a_closed_gate() {
    let controls = "cancelOn = { event = \"gone\", match = { id = \"id\" } }\n\
                    concurrency = { limit = 2 }";
    let sent = vec![
        event('a', 0, 500).closes(3000).id("x"),
        event('b', 1000, 1000).id("y"),
        event('x', 1500, 0).id("y").to("gone"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; runs (a) 3.5 s to 4 s
        b at 1 s: queued; waits 1 s to 1.5 s; replaced
        x at 1.5 s: recorded
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn turns_and_costs_are_kept_while_a_gate_is_closed() {
    let controls = "concurrency = { limit = 2, cost = \"units\", fair = { by = \"id\" } }";
    let sent = vec![
        costs('a', 0, 500, "1").id("x").closes(3000),
        costs('b', 1000, 1000, "2").id("y"),
        costs('c', 1500, 1000, "2").id("y"),
        costs('d', 2000, 1000, "2").id("z"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; waits 3.5 s to 5.5 s; runs (a) 5.5 s to 6 s
        b at 1 s: queued; waits 1 s to 3.5 s; runs (b) 3.5 s to 4.5 s
        c at 1.5 s: queued; waits 1.5 s to 6 s; runs (c) 6 s to 7 s
        d at 2 s: queued; waits 2 s to 4.5 s; runs (d) 4.5 s to 5.5 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn ranks_are_kept_while_a_gate_is_closed() {
    let controls = "priority = { shiftMs = { from = \"units\", default = 1, min = 1, max = 9000 } }\n\
                    concurrency = { limit = 1 }";
    let sent = vec![
        costs('a', 0, 500, "1").closes(3000),
        costs('b', 1000, 1000, "1"),
        costs('c', 1500, 1000, "9000"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; waits 3.5 s to 4.5 s; runs (a) 4.5 s to 5 s
        b at 1 s: queued; waits 1 s to 5 s; runs (b) 5 s to 6 s
        c at 1.5 s: queued; waits 1.5 s to 3.5 s; runs (c) 3.5 s to 4.5 s
    "#]].assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn an_older_version_that_has_closed_a_gate_holds_back_the_newer() {
    let sent = vec![event('a', 0, 500).closes(3000), event('b', 1500, 1000)];
    let handoff = "handoff = { type = \"singleton\", onNewVersion = \"drain\" }";
    let limit = "concurrency = { limit = 2 }";
    let setting = Setting::versions(format!("name = \"work\"\n{handoff}\n{limit}"), 1000);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; sleeps 0.5 s to 3.5 s; runs (a) 3.5 s to 4 s
        b at 1.5 s: queued; waits 1.5 s to 4 s; runs (b) 4 s to 5 s
    "#]]
    .assert_eq(&played(Panel::new("", setting, sent)).await);
}

/// Rows about the parts of limits that are no controls of their own, each with its test here or on
/// every store.
const ROWS: &[(&str, &str)] = &[
    ("queue, rateLimit", "a_newcomer_that_displaces_another_spends_its_token"),
    ("queue, debounce", "a_refused_window_stays_open"),
    ("queue, batch", "a_refused_buffer_loses_no_event"),
    ("queue, singleton", "a_singleton_refuses_before_a_full_queue_does"),
    ("queue, idempotency", "a_displaced_run_gives_back_what_it_holds"),
    ("queue, throttle", "a_run_from_an_earlier_queue_joins_and_stays"),
    ("queue, startWithinMs", "a_run_that_leaves_the_queue_makes_room"),
    ("queue, priority", "a_full_queue_displaces_a_waiting_run"),
    ("queue, handoff", "queued_runs_of_an_older_version_fill_the_queue"),
    ("fair, priority", "inside_a_value_rank_decides"),
    ("fair, queue", "a_bound_counts_the_runs_of_all_values"),
    ("fair, batch", "a_bad_definition_names_the_field_the_value_and_the_rule"),
    ("fair, throttle", "turns_at_a_throttle"),
    ("fair, concurrency", "values_take_turns_by_weight"),
    ("fair, startWithinMs", "a_run_that_expires_leaves_its_turn_to_the_next_of_its_value"),
    ("fair, cancelOn", "a_cancelled_run_leaves_the_turn_to_its_value"),
    ("cost, concurrency", "the_first_in_the_queue_waits_until_there_is_room_for_it"),
    ("cost, throttle", "a_throttle_delays_by_the_whole_cost"),
    ("cost, rateLimit", "a_rate_limit_spends_the_cost"),
    ("cost, debounce", "a_fired_window_costs_its_newest_event"),
    ("cost, batch", "a_batch_costs_the_sum_of_its_events"),
    ("cost, priority", "a_run_with_a_better_rank_enters_the_room_that_is_left"),
    ("cost, fair", "turns_are_counted_in_units"),
    ("[pool](pools.md), concurrency", "gates_are_taken_in_one_order"),
    ("pool, throttle", "workflows_share_the_meters"),
    ("pool, rateLimit", "workflows_share_the_meters"),
    ("pool, priority", "workflows_share_holders_and_queue"),
    ("pool, batch", "a_bad_definition_names_the_field_the_value_and_the_rule"),
    ("pool, queue", "a_bad_definition_names_the_field_the_value_and_the_rule"),
    ("pool, fair", "workflows_of_a_pool_share_the_turns"),
    ("pool, cost", "two_uses_of_one_gate_are_one"),
    (
        "[limits from data](limits-from-data.md), concurrency",
        "the_newest_admitted_run_sets_the_limit_of_its_key",
    ),
    ("limits from data, throttle", "rates_come_from_data"),
    ("limits from data, rateLimit", "rates_come_from_data"),
    ("limits from data, pool", "a_bad_pool_names_the_field_the_value_and_the_rule"),
    ("limits from data, override", "an_override_replaces_a_limit_from_data"),
    (
        "a [pause](../operate/overrides.md#pausing), concurrency",
        "a_ready_run_gives_everything_back_when_its_workflow_is_paused",
    ),
    ("a pause, throttle", "a_paused_throttle_keeps_its_queue"),
    ("a pause, singleton", "a_paused_run_keeps_its_run_gates_and_expires"),
    ("a pause, startWithinMs", "a_paused_run_keeps_its_run_gates_and_expires"),
    ("a pause, priority", "runs_that_waited_for_a_pause_start_in_their_order"),
    ("a pause, fair", "a_pause_takes_runs_out_of_a_fair_queue"),
    ("a pause, pool", "a_paused_pool_lets_nobody_in_and_what_is_inside_goes_on"),
    ("a pause, a closed gate", "a_pause_and_a_closing_are_both_waited_for"),
    ("a [closed](closing.md) gate, queue", "a_closed_gate_fills_its_queue_and_its_runs_expire"),
    ("a closed gate, startWithinMs", "a_closed_gate_fills_its_queue_and_its_runs_expire"),
    ("a closed gate, concurrency", "a_run_closes_the_narrow_limit_of_its_workflow"),
    ("a closed gate, throttle", "a_throttle_that_a_run_closes_stops_first_starts"),
    ("a closed gate, debounce", "a_closed_gate_keeps_its_folds"),
    ("a closed gate, pool", "a_closed_pool_lets_nobody_in_until_its_time"),
    ("queue, cancelOn", "a_run_that_an_event_cancels_leaves_room_in_the_queue"),
    ("cost, queue", "a_bound_counts_runs_and_not_units"),
    ("cost, singleton", "a_run_that_replaces_another_brings_its_own_cost"),
    ("cost, idempotency", "a_cost_that_is_rejected_takes_no_claim"),
    ("cost, handoff", "versions_share_the_units"),
    ("cost, startWithinMs", "a_large_run_that_expires_lets_smaller_ones_in"),
    ("cost, cancelOn", "a_large_run_that_an_event_cancels_lets_smaller_ones_in"),
    ("pool, adaptive", "a_refusal_lowers_the_limit_of_all_workflows_of_the_pool"),
    ("pool, debounce", "a_window_takes_a_place_of_the_pool_at_its_fire"),
    ("pool, singleton", "a_singleton_keeps_its_key_while_it_waits_for_the_pool"),
    ("pool, idempotency", "a_pool_takes_claims_at_arrival"),
    ("pool, handoff", "an_older_version_waits_for_the_pool_before_the_newer"),
    ("pool, startWithinMs", "a_busy_workflow_lets_the_runs_of_others_expire"),
    ("pool, cancelOn", "a_run_that_an_event_cancels_leaves_the_queue_of_the_pool"),
    ("limits from data, queue", "a_higher_number_empties_the_queue_and_a_bound_counts_what_waits"),
    ("limits from data, fair", "values_take_turns_at_a_limit_from_data"),
    ("limits from data, debounce", "a_window_sets_the_limit_of_its_kept_event"),
    ("limits from data, batch", "a_batch_sets_the_limit_of_its_first_event"),
    ("a pause, rateLimit", "a_paused_workflow_spends_its_rate"),
    ("a pause, debounce", "a_paused_workflow_collects_a_window_and_its_run_waits"),
    ("a pause, batch", "a_paused_workflow_fills_a_buffer_and_its_run_waits"),
    ("a pause, idempotency", "a_paused_run_keeps_its_claim"),
    ("a pause, handoff", "a_paused_older_version_holds_back_the_newer"),
    ("a pause, cancelOn", "an_event_cancels_a_paused_run"),
    ("a pause, queue", "paused_runs_are_not_counted_by_the_bound_of_a_slot"),
    ("a pause, cost", "paused_runs_take_no_units"),
    ("a closed gate, rateLimit", "a_closed_gate_spends_the_rate"),
    ("a closed gate, batch", "a_full_buffer_is_flushed_while_a_gate_is_closed"),
    ("a closed gate, singleton", "a_run_that_waits_for_a_closed_gate_is_live"),
    ("a closed gate, idempotency", "a_claim_runs_on_while_a_gate_is_closed"),
    ("a closed gate, handoff", "an_older_version_that_has_closed_a_gate_holds_back_the_newer"),
    ("a closed gate, cancelOn", "an_event_cancels_a_run_that_waits_for_a_closed_gate"),
    ("a closed gate, priority", "ranks_are_kept_while_a_gate_is_closed"),
    ("a closed gate, fair or cost", "turns_and_costs_are_kept_while_a_gate_is_closed"),
];

/// Every row of the page about such a part is in the table, and its test exists.
#[test]
fn every_row_of_a_part_has_a_test() {
    let page = include_str!("../../../../docs/controls/combining.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tests = [include_str!("pairs.rs"), include_str!("parts.rs")].concat();
    tests +=
        &std::fs::read_to_string(root.join("tidegate-server/tests/api/flow_input.rs")).unwrap();
    for file in std::fs::read_dir(root.join("tidegate-testkit/src/behaviour")).unwrap() {
        tests += &std::fs::read_to_string(file.unwrap().path()).unwrap();
    }
    for (pair, test) in ROWS {
        assert!(page.contains(&format!("\n| {pair} |")), "no row for {pair}");
        assert!(tests.contains(&format!("fn {test}(")), "{pair}: there is no test {test}");
    }
    let parts = [
        "queue, ",
        "fair, ",
        "cost, ",
        "pool, ",
        "limits from data, ",
        "a pause, ",
        "a closed gate, ",
    ];
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    for (pair, _) in rows.filter(|(pair, _)| parts.iter().any(|part| pair.starts_with(part))) {
        assert!(ROWS.iter().any(|(row, _)| *row == pair), "the row {pair} names no test");
    }
}
