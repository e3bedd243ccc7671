//! Tests the application on a virtual clock: two days take a millisecond.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Request};
use rusqlite::Connection;
use saas::{
    outside::Outside,
    routes,
    workflows::{
        self, ANSWER, ONBOARD, Question, REMINDER, REPORT, Report, SEEN, Signup, TRIP, Trip,
    },
};
use serde_json::json;
use tempfile::TempDir;
use tidegate::{
    Engine, RunStatus, SqliteStore, Verdict,
    testing::{TestHarness, VirtualClock},
};
use tower::ServiceExt;

/// The application on a SQLite file of its own.
struct App {
    harness: TestHarness,
    engine: Engine,
    outside: Outside,
    dir: TempDir,
}

impl App {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("saas.db");
        let clock = Arc::new(VirtualClock::default());
        let store = SqliteStore::open(&path, clock.clone()).await.unwrap();
        workflows::create_tables(&path).unwrap();
        let harness = TestHarness::on(Arc::new(store), clock);
        let outside = Outside::default();
        let engine = workflows::serve(harness.engine(), outside.clone()).start().await.unwrap();
        Self { harness, engine, outside, dir }
    }

    /// Executes a statement on the application's own tables.
    fn execute(&self, sql: &str) -> usize {
        Connection::open(self.dir.path().join("saas.db")).unwrap().execute(sql, []).unwrap()
    }

    async fn sign_up(&self, tenant: &str) -> tidegate::RunHandle<bool> {
        let (tenant, mail) = (tenant.to_owned(), format!("ada@{tenant}.example"));
        self.engine.start(&ONBOARD, Signup { tenant, mail }).await.unwrap()
    }
}

#[tokio::test]
async fn a_customer_who_does_not_come_back_is_reminded_after_two_days() {
    let app = App::start().await;
    let (acme, initech) = (app.sign_up("acme").await, app.sign_up("initech").await);
    app.harness.settle().await;
    app.engine.send(SEEN, json!({ "tenant": "acme" })).await.unwrap();
    app.harness.advance(REMINDER / 2).await;
    assert_eq!(app.outside.calls(), ["welcome ada@acme.example", "welcome ada@initech.example"]);
    app.harness.advance(REMINDER / 2).await;
    assert_eq!(app.outside.calls()[2..], ["remind ada@initech.example"]);
    assert!(!acme.output().await.unwrap());
    assert!(initech.output().await.unwrap());
}

#[tokio::test]
async fn a_second_sign_up_finds_the_first_one() {
    let app = App::start().await;
    let (first, second) = (app.sign_up("acme").await, app.sign_up("acme").await);
    assert_eq!(first.id(), second.id());
    assert!(matches!(second.verdict(), Some(Verdict::Deduped { .. })));
    app.harness.settle().await;
    let accounts = app.execute("update app_account set tenant = tenant");
    assert_eq!(accounts, 1, "there must be one account");
}

#[tokio::test]
async fn two_reports_of_a_customer_run_at_once_and_others_do_not_wait() {
    let app = App::start().await;
    let mut runs = Vec::new();
    for (tenant, month) in [("acme", 1), ("acme", 2), ("acme", 3), ("initech", 1)] {
        let tenant = tenant.to_owned();
        runs.push(app.engine.start(&REPORT, Report { tenant, month }).await.unwrap());
    }
    app.harness.settle().await;
    let mut statuses = Vec::new();
    for run in &runs {
        statuses.push(run.status().await.unwrap());
    }
    let (waiting, queued) = (RunStatus::Waiting, RunStatus::Queued);
    assert_eq!(statuses, [waiting, waiting, queued, waiting]);
    app.harness.advance(Duration::from_secs(60)).await;
    assert_eq!(
        runs[2].status().await.unwrap(),
        waiting,
        "the third report must start when two have ended"
    );
    app.harness.advance(Duration::from_secs(60)).await;
    assert_eq!(runs[2].output().await.unwrap(), "/files/acme-3.pdf");
}

#[tokio::test]
async fn a_trip_that_cannot_be_booked_is_undone() {
    let app = App::start().await;
    let run = app.engine.start(&TRIP, Trip { to: "Berlin".to_owned() }).await.unwrap();
    let booked = ["book flight in Berlin: done", "book hotel in Berlin: done"];
    assert_eq!(run.output().await.unwrap(), booked);
    let run = app.engine.start(&TRIP, Trip { to: "Atlantis".to_owned() }).await.unwrap();
    app.harness.advance(Duration::from_secs(60)).await;
    assert_eq!(run.output().await.unwrap_err().code(), "run_failed");
    let undone = ["cancel hotel in Atlantis", "cancel flight in Atlantis"];
    assert_eq!(app.outside.calls()[4..], undone, "newest first");
}

#[tokio::test]
async fn an_answer_is_streamed_word_by_word() {
    let app = App::start().await;
    let question = Question { tenant: "acme".to_owned(), text: "tides".to_owned() };
    let body = serde_json::to_string(&question).unwrap();
    let request = Request::post("/questions").header("content-type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let response = routes::router(app.engine.clone()).oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let words: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(words.join(" "), "Let me see. I found: search tides: done");
}

#[tokio::test]
async fn a_customer_who_asks_too_often_is_told_so() {
    let app = App::start().await;
    let question = || Question { tenant: "acme".to_owned(), text: "tides".to_owned() };
    for _ in 0..10 {
        app.engine.start(&ANSWER, question()).await.unwrap();
    }
    let error = app.engine.start(&ANSWER, question()).await.unwrap_err();
    assert_eq!(error.code(), "not_started");
    assert!(error.to_string().contains("its rateLimit of `acme` is exceeded"), "{error}");
    app.harness.advance(Duration::from_secs(6)).await;
    app.engine.start(&ANSWER, question()).await.unwrap();
}
