//! Tests of two controls together, for each pair whose effect docs/controls/combining.md warns
//! about.

use std::fmt::Write as _;

use expect_test::expect;
use tidegate_core::flow::CONTROLS;

use crate::{
    draw::{lines, told},
    play::{Doing, Panel, Played, Sent, Setting, Story, event, play, seconds},
};

/// Creates a panel that sends events to the workflow `work` with these controls.
pub(crate) fn panel(controls: &str, sent: Vec<Sent>) -> Panel {
    let definition = format!("name = \"work\"\n{controls}");
    Panel::new("", Setting::Workflows(vec![definition], 100), sent)
}

/// Sends events to the workflow `work` with these controls, and describes their runs.
pub(crate) async fn sent_to(controls: &str, sent: Vec<Sent>) -> String {
    played(panel(controls, sent)).await
}

/// Plays a panel, and describes its runs.
pub(crate) async fn played(panel: Panel) -> String {
    let story = Story { title: "", until: 30_000, tick: 500, mark: 1000, panels: vec![panel] };
    written(&play(&story, &story.panels[0]).await)
}

/// Formats one line for each run, and for each event without a run.
fn written(played: &Played) -> String {
    let mut text = String::new();
    for line in lines(played) {
        let came: Vec<String> =
            line.arrivals.iter().map(|it| format!("{} at {}", it.letter, seconds(it.at))).collect();
        write!(text, "{}: {}", came.join(", "), told(&line.arrivals)).unwrap();
        if let Some(course) = line.course {
            for (doing, from, to) in &course.parts {
                let what = match doing {
                    Doing::Collects => "collects".to_owned(),
                    Doing::Waits => "waits".to_owned(),
                    Doing::Runs => format!("runs ({})", course.carries),
                    Doing::Sleeps => "sleeps".to_owned(),
                };
                write!(text, "; {what} {} to {}", seconds(*from), seconds(*to)).unwrap();
            }
            if course.cancelled.is_some() {
                text.push_str("; replaced");
            }
        }
        text.push('\n');
    }
    let told_of = |run| played.arrivals.iter().any(|arrival| arrival.run == Some(run));
    for (_, course) in played.runs.iter().filter(|(run, _)| !told_of(**run)) {
        for (_, from, to) in course.parts.iter().filter(|part| part.0 == Doing::Runs) {
            let (from, to, carries) = (seconds(*from), seconds(*to), &course.carries);
            writeln!(text, "nobody was told of this run: runs ({carries}) {from} to {to}").unwrap();
        }
    }
    text
}

fn keyed(letter: char, at: u64, works: u64, key: &'static str) -> Sent {
    event(letter, at, works).key("key", key)
}

#[tokio::test]
async fn a_window_that_has_fired_takes_no_more_while_its_run_waits() {
    let controls = "concurrency = { limit = 1 }\ndebounce = { periodMs = 1000 }";
    let sent = vec![event('a', 0, 6000), event('b', 2000, 1000), event('c', 4000, 1000)];
    expect![[r#"
        a at 0 s: coalesced; collects 0 s to 1 s; runs (a) 1 s to 7 s
        b at 2 s: coalesced; collects 2 s to 3 s; waits 3 s to 7 s; runs (b) 7 s to 8 s
        c at 4 s: coalesced; collects 4 s to 5 s; waits 5 s to 8 s; runs (c) 8 s to 9 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_run_in_line_is_live() {
    let controls = "concurrency = { limit = 1 }\nsingleton = { mode = \"skip\", key = \"key\" }";
    let sent =
        vec![keyed('a', 0, 3000, "x"), keyed('b', 1000, 1000, "y"), keyed('c', 2000, 1000, "y")];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 1 s: queued; waits 1 s to 3 s; runs (b) 3 s to 4 s
        c at 2 s: skipped, b is live
    "#]]
    .assert_eq(&sent_to(controls, sent.clone()).await);
    let controls = "concurrency = { limit = 1 }\nsingleton = { mode = \"cancel\", key = \"key\" }";
    let mut sent = sent;
    sent.insert(2, keyed('d', 1500, 1000, "z"));
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 1 s: queued; waits 1 s to 2 s; replaced
        c at 2 s: replaced b; waits 2 s to 3 s; runs (c) 3 s to 4 s
        d at 1.5 s: queued; waits 1.5 s to 4 s; runs (d) 4 s to 5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_replaced_run_is_gone_before_the_newcomers_turn() {
    let controls = "throttle = { limit = 1, perMs = 5000 }\nsingleton = { mode = \"cancel\" }";
    let sent = vec![event('a', 0, 4000), event('b', 1000, 4000), event('c', 2000, 4000)];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 1 s; replaced
        b at 1 s: replaced a; waits 1 s to 2 s; replaced
        c at 2 s: replaced b; waits 2 s to 5 s; runs (c) 5 s to 9 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_claim_counts_from_the_arrival_and_not_from_the_start() {
    let controls =
        "throttle = { limit = 1, perMs = 5000 }\nidempotency = { key = \"id\", periodMs = 3000 }";
    let sent = vec![
        event('a', 0, 500).id("1"),
        event('b', 500, 500).id("2"),
        event('c', 4000, 500).id("2"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s
        b at 0.5 s: queued; waits 0.5 s to 5 s; runs (b) 5 s to 5.5 s
        c at 4 s: queued; waits 4 s to 10 s; runs (c) 10 s to 10.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn who_waits_in_line_has_spent_a_token() {
    let controls = "concurrency = { limit = 1 }\nrateLimit = { limit = 2, perMs = 10000 }";
    let sent = vec![event('a', 0, 3000), event('b', 500, 1000), event('c', 1000, 1000)];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: dropped, retry at 5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_token_opens_one_window_or_one_buffer() {
    let rate = "rateLimit = { limit = 1, perMs = 10000 }";
    let sent = [0, 500, 1000, 3000].into_iter().zip('a'..);
    let sent: Vec<Sent> = sent.map(|(at, letter)| event(letter, at, 500)).collect();
    let debounce = format!("{rate}\ndebounce = {{ periodMs = 1000 }}");
    expect![[r#"
        a at 0 s, b at 0.5 s, c at 1 s: coalesced; collects 0 s to 2 s; runs (c) 2 s to 2.5 s
        d at 3 s: dropped, retry at 10 s
    "#]]
    .assert_eq(&sent_to(&debounce, sent.clone()).await);
    let batch = format!("{rate}\nbatch = {{ maxSize = 3, timeoutMs = 1000 }}");
    expect![[r#"
        a at 0 s, b at 0.5 s: buffered; collects 0 s to 1 s; runs (a b) 1 s to 1.5 s
        c at 1 s: dropped, retry at 10 s
        d at 3 s: dropped, retry at 10 s
    "#]]
    .assert_eq(&sent_to(&batch, sent).await);
}

#[tokio::test]
async fn a_skipped_event_spends_no_token_and_a_replacing_one_does() {
    let sent = || vec![event('a', 0, 1000), event('b', 500, 1000), event('c', 2000, 1000)];
    let rate = "rateLimit = { limit = 2, perMs = 10000 }";
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 1 s
        b at 0.5 s: skipped, a is live
        c at 2 s: started; runs (c) 2 s to 3 s
    "#]]
    .assert_eq(&sent_to(&format!("{rate}\nsingleton = {{ mode = \"skip\" }}"), sent()).await);
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s; replaced
        b at 0.5 s: replaced a; runs (b) 0.5 s to 1.5 s
        c at 2 s: dropped, retry at 5 s
    "#]]
    .assert_eq(&sent_to(&format!("{rate}\nsingleton = {{ mode = \"cancel\" }}"), sent()).await);
}

#[tokio::test]
async fn a_dropped_event_takes_no_claim() {
    let controls = "rateLimit = { limit = 1, perMs = 2000 }\nidempotency = { key = \"id\" }";
    let sent = vec![
        event('a', 0, 500).id("1"),
        event('b', 500, 500).id("2"),
        event('c', 3000, 500).id("2"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s
        b at 0.5 s: dropped, retry at 2 s
        c at 3 s: started; runs (c) 3 s to 3.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn what_debounce_fires_is_what_batch_collects() {
    let controls =
        "debounce = { periodMs = 1000, key = \"key\" }\nbatch = { maxSize = 2, timeoutMs = 5000 }";
    let sent = vec![
        keyed('a', 0, 1000, "x"),
        keyed('b', 500, 1000, "x"),
        keyed('c', 500, 1000, "y"),
        keyed('d', 4000, 1000, "z"),
    ];
    expect![[r#"
            a at 0 s, b at 0.5 s: coalesced; collects 0 s to 1.5 s; runs (b c) 1.5 s to 2.5 s
            c at 0.5 s: coalesced; collects 0.5 s to 1.5 s; replaced
            d at 4 s: coalesced; collects 4 s to 10 s; runs (d) 10 s to 11 s
        "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_window_waits_for_a_live_run_or_replaces_it() {
    let sent = || vec![event('a', 0, 4000), event('b', 2000, 2000), event('c', 4000, 2000)];
    let window = "debounce = { periodMs = 1000 }";
    expect![[r#"
        a at 0 s: coalesced; collects 0 s to 1 s; runs (a) 1 s to 5 s
        b at 2 s, c at 4 s: coalesced; collects 2 s to 5 s; runs (c) 5 s to 7 s
    "#]]
    .assert_eq(&sent_to(&format!("{window}\nsingleton = {{ mode = \"skip\" }}"), sent()).await);
    expect![[r#"
        a at 0 s: coalesced; collects 0 s to 1 s; runs (a) 1 s to 3 s; replaced
        b at 2 s: coalesced; collects 2 s to 3 s; runs (b) 3 s to 5 s
        c at 4 s: coalesced; collects 4 s to 5 s; runs (c) 5 s to 7 s
    "#]]
    .assert_eq(&sent_to(&format!("{window}\nsingleton = {{ mode = \"cancel\" }}"), sent()).await);
}

#[tokio::test]
async fn a_window_claims_the_key_of_its_last_event() {
    let controls = "debounce = { periodMs = 1000 }\nidempotency = { key = \"id\" }";
    let sent = [('a', 0, "1"), ('b', 500, "2"), ('c', 3000, "1"), ('d', 6000, "2")];
    let sent = sent.map(|(letter, at, id)| event(letter, at, 500).id(id)).to_vec();
    expect![[r#"
        a at 0 s, b at 0.5 s: coalesced; collects 0 s to 1.5 s; runs (b) 1.5 s to 2 s
        c at 3 s: coalesced; collects 3 s to 4 s; runs (c) 4 s to 4.5 s
        d at 6 s: deduped, b was first
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_repeat_never_enters_a_buffer() {
    let controls = "batch = { maxSize = 3, timeoutMs = 2000 }\nidempotency = { key = \"id\" }";
    let sent = [('a', 0, "1"), ('b', 500, "1"), ('c', 1000, "2")];
    let sent = sent.map(|(letter, at, id)| event(letter, at, 500).id(id)).to_vec();
    expect![[r#"
        a at 0 s, c at 1 s: buffered; collects 0 s to 2 s; runs (a c) 2 s to 2.5 s
        b at 0.5 s: deduped, a was first
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_buffer_waits_for_a_live_run_and_flushes_in_chunks() {
    let controls = "batch = { maxSize = 2, timeoutMs = 1000 }\nsingleton = { mode = \"skip\" }";
    let sent = [0, 0, 1000, 1500, 2000, 2500].into_iter().zip('a'..);
    let sent = sent.map(|(at, letter)| event(letter, at, 4000)).collect();
    expect![[r#"
        a at 0 s, b at 0 s: a buffered, b started; runs (a b) 0 s to 4 s
        c at 1 s, d at 1.5 s: buffered; collects 1 s to 4 s; runs (c d) 4 s to 8 s
        e at 2 s, f at 2.5 s: buffered; collects 2 s to 8 s; runs (e f) 8 s to 12 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn a_replaced_run_that_had_started_keeps_its_claim() {
    let controls = "singleton = { mode = \"cancel\" }\nidempotency = { key = \"id\" }";
    let sent = [('a', 0, "1"), ('b', 1000, "2"), ('c', 2000, "1")];
    let sent = sent.map(|(letter, at, id)| event(letter, at, 3000).id(id)).to_vec();
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 1 s; replaced
        b at 1 s: replaced a; runs (b) 1 s to 4 s
        c at 2 s: deduped, a was first
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn with_handoff_a_singleton_is_one_within_its_version() {
    let sent = || {
        vec![
            event('a', 0, 6000),
            event('b', 500, 1000),
            event('c', 2000, 2000),
            event('d', 2500, 1000),
        ]
    };
    let skip = "singleton = { mode = \"skip\" }";
    for (rule, expected) in [
        (
            "drain",
            expect![[r#"
        a at 0 s: started; runs (a) 0 s to 6 s
        b at 0.5 s: skipped, a is live
        c at 2 s: queued; waits 2 s to 6 s; runs (c) 6 s to 8 s
        d at 2.5 s: skipped, c is live
    "#]],
        ),
        (
            "coexist",
            expect![[r#"
        a at 0 s: started; runs (a) 0 s to 6 s
        b at 0.5 s: skipped, a is live
        c at 2 s: started; runs (c) 2 s to 4 s
        d at 2.5 s: skipped, c is live
    "#]],
        ),
    ] {
        let handoff = format!("handoff = {{ type = \"singleton\", onNewVersion = \"{rule}\" }}");
        let definition = format!("name = \"work\"\n{handoff}\n{skip}");
        let panel = Panel::new("", Setting::versions(definition, 1000), sent());
        expected.assert_eq(&played(panel).await);
    }
    let definition = format!("name = \"work\"\n{skip}");
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 6 s
        b at 0.5 s: skipped, a is live
        c at 2 s: skipped, a is live
        d at 2.5 s: skipped, a is live
    "#]]
    .assert_eq(&played(Panel::new("", Setting::versions(definition, 1000), sent())).await);
}

#[tokio::test]
async fn versions_share_claims_and_tokens() {
    let controls = "idempotency = { key = \"id\" }\nrateLimit = { limit = 2, perMs = 60000 }";
    let definition = format!("name = \"work\"\n{controls}");
    let sent = [('a', 0, "1"), ('b', 2000, "1"), ('c', 2500, "2"), ('d', 3000, "3")];
    let sent = sent.map(|(letter, at, id)| event(letter, at, 500).id(id)).to_vec();
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 0.5 s
        b at 2 s: deduped, a was first
        c at 2.5 s: started; runs (c) 2.5 s to 3 s
        d at 3 s: dropped, retry at 30 s
    "#]]
    .assert_eq(&played(Panel::new("", Setting::versions(definition, 1000), sent)).await);
}

#[test]
fn every_pair_has_a_row() {
    let page = include_str!("../../../../docs/controls/combining.md");
    let names: Vec<&str> = CONTROLS.iter().map(|control| control.name).collect();
    for (n, one) in names.iter().enumerate() {
        for other in &names[n + 1..] {
            let rows = [format!("| {one}, {other} |"), format!("| {other}, {one} |")];
            assert!(
                rows.iter().any(|row| page.contains(row)),
                "docs/controls/combining.md has no row for {one} and {other}"
            );
        }
    }
}

#[tokio::test]
async fn a_newcomer_that_displaces_another_spends_its_token() {
    let queue = "queue = { maxWaiting = 1, onOverflow = \"dropOldest\" }";
    let limit = format!("concurrency = {{ limit = 1, span = \"run\", {queue} }}");
    let controls = format!("{limit}\nrateLimit = {{ limit = 3, perMs = 10000 }}");
    let sent = [0, 500, 1000, 1500].into_iter().zip('a'..);
    let sent = sent.map(|(at, letter)| event(letter, at, 3000)).collect();
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 1 s; replaced
        c at 1 s: queued; waits 1 s to 3 s; runs (c) 3 s to 6 s
        d at 1.5 s: dropped, retry at 3.333 s
    "#]]
    .assert_eq(&sent_to(&controls, sent).await);
}

#[tokio::test]
async fn a_singleton_refuses_before_a_full_queue_does() {
    let limit = "concurrency = { limit = 1, queue = { maxWaiting = 1 } }";
    let controls = format!("{limit}\nsingleton = {{ mode = \"skip\", key = \"key\" }}");
    let sent = vec![
        keyed('a', 0, 3000, "x"),
        keyed('b', 500, 1000, "y"),
        keyed('c', 1000, 1000, "y"),
        keyed('d', 1500, 1000, "z"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1 s: skipped, b is live
        d at 1.5 s: rejected, 1 wait
    "#]]
    .assert_eq(&sent_to(&controls, sent).await);
}

#[tokio::test]
async fn a_run_that_expires_leaves_its_turn_to_the_next_of_its_value() {
    let controls = "startWithinMs = 2000\nconcurrency = { limit = 1, fair = { by = \"key\" } }";
    let sent = vec![
        keyed('a', 0, 3000, "x"),
        keyed('b', 500, 1000, "x"),
        keyed('c', 1500, 500, "x"),
        keyed('d', 2000, 1000, "y"),
    ];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 2.5 s; replaced
        c at 1.5 s: queued; waits 1.5 s to 3 s; runs (c) 3 s to 3.5 s
        d at 2 s: queued; waits 2 s to 3.5 s; runs (d) 3.5 s to 4.5 s
    "#]]
    .assert_eq(&sent_to(controls, sent).await);
}

#[tokio::test]
async fn queued_runs_of_an_older_version_fill_the_queue() {
    let queue = "queue = { maxWaiting = 1 }";
    let handoff = format!("type = \"singleton\", onNewVersion = \"drain\", {queue}");
    let definition = format!("name = \"work\"\nhandoff = {{ {handoff} }}");
    let sent = vec![event('a', 0, 3000), event('b', 500, 1000), event('c', 1500, 1000)];
    expect![[r#"
        a at 0 s: started; runs (a) 0 s to 3 s
        b at 0.5 s: queued; waits 0.5 s to 3 s; runs (b) 3 s to 4 s
        c at 1.5 s: rejected, 1 wait
    "#]]
    .assert_eq(&played(Panel::new("", Setting::versions(definition, 1000), sent)).await);
}
