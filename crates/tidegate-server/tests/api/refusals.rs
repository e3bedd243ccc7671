//! Policies that admit one request at a time, and the answers to rejected requests.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate_core::time::Timestamp;
use tokio::task::JoinSet;

use crate::{
    fleet::{Fleet, On},
    target::Target,
    ways::{SECRETS, deliver, flow},
};

/// Service that refuses invalid input.
async fn strict() -> Target {
    let json = ("content-type", "application/json");
    let answer = move |call: &crate::target::Call, _| {
        let status = if call.body.contains("bad") { 400 } else { 200 };
        (status, vec![json], r#"{"ok": true}"#.to_owned())
    };
    Target::start(answer).await
}

/// spec B14, B15, B16, B17, B18, B19, B39: of many concurrent requests one is admitted. The others
/// get its id and can follow it to its result; they leave no run and are not started later. However
/// the admitted request ends, the next one is admitted.
async fn one_of_many_is_let_in(on: On) {
    let target = strict().await;
    let config = flow("one", "concurrency = 'reject'", "", &target.url);
    let Some(fleet) = Fleet::start(on, &config, &SECRETS).await.map(Arc::new) else { return };
    for (n, ending) in ["completed", "failed", "cancelled"].into_iter().enumerate() {
        target.shut("/act", true);
        let input = if ending == "failed" { "bad" } else { "good" };
        let ask = json!({ "session": "s", "input": input });
        let mut asked = JoinSet::new();
        for _ in 0..20 {
            let (fleet, ask) = (fleet.clone(), ask.clone());
            asked.spawn(async move { fleet.next().post("/flows/one/actions/act", ask).await });
        }
        let answer = asked.join_all().await;
        let (taken, refused): (Vec<_>, Vec<_>) = answer.into_iter().partition(|it| it.0 == 202);
        assert_eq!(
            (taken.len(), refused.len()),
            (1, 19),
            "one request must be admitted and 19 rejected: {taken:?} {refused:?}"
        );
        let holder = taken[0].1["requestId"].as_str().unwrap();
        for (status, answer) in &refused {
            assert_eq!((status.as_u16(), &answer["error"]), (409, &json!("busy")), "{answer}");
            assert_eq!(answer["requestId"], holder);
        }
        target.called(n + 1).await;
        let cancel = format!("/runs/{holder}/cancel");
        if ending == "cancelled" {
            fleet.next().post(&cancel, json!({ "reason": "enough" })).await;
        }
        let path = format!("/runs/{holder}/stream");
        let followed = fleet.next().follow(&path, "event: ", || target.open(true)).await;
        assert!(followed.contains(&format!("\"state\":\"{ending}\"")), "{followed}");
        assert_eq!(ending == "completed", followed.contains(r#""output":{"ok": true}"#));
        assert_eq!(target.calls().len(), n + 1, "a rejected request must not be started later");
        let (_, runs) = fleet.next().get("/runs?limit=500").await;
        assert_eq!(
            runs["runs"].as_array().unwrap().len(),
            n + 1,
            "a rejected request must leave no run"
        );
    }
}

#[tokio::test]
async fn one_of_many_is_let_in_on_a_file() {
    one_of_many_is_let_in(On::File).await;
}

#[tokio::test]
async fn one_of_many_is_let_in_on_two_servers() {
    one_of_many_is_let_in(On::Postgres).await;
}

/// spec B37, B38, B40, B41, B42: the flow's policy `reject` also applies to webhook deliveries, as
/// long as the first one runs. With an idempotency key a delivery runs once, also after its end;
/// but the idempotency key alone does not arbitrate between different deliveries. spec B43: many
/// deliveries under `debounce` become one run, and cancel no run.
async fn deliveries_are_arbitrated(on: On) {
    let target = strict().await;
    let id = "key = 'metadata.webhook.deliveryId'";
    let once = format!(", idempotency = {{ {id} }}");
    let reject = format!("concurrency = {{ policy = 'reject', {id} }}");
    let config = [
        flow("busy", "concurrency = 'reject'", "", &target.url),
        flow("both", &reject, &once, &target.url),
        flow("once", "", &once, &target.url),
        flow("calm", "concurrency = { policy = 'debounce', periodMs = 3000 }", "", &target.url),
    ];
    let Some(fleet) = Fleet::start(on, &config.concat(), &SECRETS).await else { return };
    let send = async |flow: &str, id: &str| {
        let body = json!({ "id": id, "session": "s" });
        let (status, answer) = deliver(fleet.next(), flow, body).await;
        let status = (status != 202).then(|| answer["status"].as_str().unwrap().to_owned());
        (status.unwrap_or_default(), answer["requestId"].as_str().unwrap().to_owned())
    };
    target.open(false);
    let (answer, first) = send("busy", "d1").await;
    assert_eq!(answer, "");
    for again in ["d1", "d2"] {
        assert_eq!(send("busy", again).await, ("skipped".to_owned(), first.clone()));
    }
    let (_, once) = send("both", "d1").await;
    assert_eq!(send("both", "d1").await, ("deduped".to_owned(), once.clone()));
    let (answer, other) = send("both", "d2").await;
    assert_eq!(answer, "", "another delivery");
    let (_, left) = send("once", "d1").await;
    let (answer, right) = send("once", "d2").await;
    assert_eq!(
        answer, "",
        "without a policy, another delivery of the same session must be admitted"
    );
    for run in [&left, &right] {
        fleet.next().until(run, "running").await;
    }
    let (answer, calm) = send("calm", "d0").await;
    assert_eq!(answer, "coalesced");
    fleet.next().until(&calm, "running").await;
    let mut burst = Vec::new();
    for n in 1..=10 {
        burst.push(send("calm", &format!("d{n}")).await.1);
    }
    burst.dedup();
    let [late] = &burst[..] else {
        panic!("all deliveries of the burst must become one run: {burst:?}")
    };
    target.open(true);
    for run in [&first, &once, &other, &left, &right, &calm, late] {
        fleet.next().until(run, "completed").await;
    }
    let calls = target.calls();
    let last = calls.iter().find(|call| call.header("tidegate-run") == late).unwrap();
    assert!(
        last.body.contains(r#""id":"d10""#),
        "the run must have the last delivery: {}",
        last.body
    );
    let (answer, again) = send("busy", "d1").await;
    assert_eq!(
        answer, "",
        "after the end of the first run, `reject` must admit the same delivery again"
    );
    fleet.next().until(&again, "completed").await;
    assert_eq!(send("both", "d1").await, ("deduped".to_owned(), once));
    assert_eq!(target.calls().len(), 8);
}

#[tokio::test]
async fn deliveries_are_arbitrated_on_a_file() {
    deliveries_are_arbitrated(On::File).await;
}

#[tokio::test]
async fn deliveries_are_arbitrated_on_two_servers() {
    deliveries_are_arbitrated(On::Postgres).await;
}

/// spec B45, B46: an occurrence of a schedule becomes one run over all servers. It is skipped, with
/// a receipt, while the previous run of its schedule is live, unless occurrences may overlap. It
/// has no session, so the flow's policy does not apply to it (spec B25).
async fn occurrences_are_runs_or_are_skipped(on: On) {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let config = format!(
        r#"
        [[flow]]
        name = "clock"
        concurrency = "reject"
        actions.alone = {{ url = "{url}/alone" }}
        actions.beside = {{ url = "{url}/beside" }}
        schedules.alone = {{ action = "alone", cron = "* * * * * *" }}
        schedules.beside = {{ action = "beside", cron = "* * * * * *", onOverlap = "allow" }}
        "#
    );
    let Some(fleet) = Fleet::start(on, &config, &[]).await else { return };
    let until = async |path: &str, list: &str, count: usize| loop {
        let (_, answer) = fleet.next().get(path).await;
        let found = answer[list].as_array().unwrap().clone();
        if found.len() >= count {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let beside = until("/runs?workflow=clock%2Fbeside&state=running", "runs", 2).await;
    let path = "/receipts?workflow=clock%2Falone&outcome=skipped";
    let skipped = until(path, "receipts", 1).await;
    let alone = until("/runs?workflow=clock%2Falone", "runs", 1).await;
    assert_eq!(
        alone.len(),
        1,
        "only one run may exist, other occurrences must be skipped: {alone:?}"
    );
    assert_eq!(skipped[0]["holder"], alone[0]["id"], "{}", skipped[0]);
    let moment = |call: &crate::target::Call| {
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let planned = body["input"]["plannedAt"].as_str().and_then(Timestamp::parse_rfc3339);
        planned.unwrap_or_else(|| panic!("{body}"))
    };
    let calls = target.calls();
    let mut planned: Vec<_> =
        calls.iter().filter(|call| call.path == "/beside").map(moment).collect();
    let all = planned.len();
    planned.sort_unstable();
    planned.dedup();
    assert_eq!(
        (planned.len(), all >= beside.len()),
        (all, true),
        "each occurrence must start exactly one run"
    );
    target.open(true);
}

#[tokio::test]
async fn occurrences_are_runs_or_are_skipped_on_a_file() {
    occurrences_are_runs_or_are_skipped(On::File).await;
}

#[tokio::test]
async fn occurrences_are_runs_or_are_skipped_on_two_servers() {
    occurrences_are_runs_or_are_skipped(On::Postgres).await;
}
