//! The engine's metrics, spans and log lines, captured by a test recorder and subscriber.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]
#![allow(clippy::float_cmp, reason = "counts and virtual times are exact")]

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use serde_json::{Value, json};
use tidegate::{
    Action, Concurrency, Ctx, Flow, Rate, Reaction, ReactionCtx, Retry, StepError, StreamEvent,
    Workflow, new_request, testing::TestHarness,
};
use tidegate_core::{
    command::Command,
    json::Payload,
    row::Row,
    stream::{Expected, NewLogged},
};
use tidegate_store::commit;
use tracing::{
    Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::{LookupSpan, Registry},
};

const SECOND: Duration = Duration::from_secs(1);

/// Metrics recorder that keeps all values of each metric and its labels, in order.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

impl Heard {
    /// Returns the values of a metric, given as `name{label=value,…}`.
    fn values(&self, metric: &str) -> Vec<f64> {
        self.0.lock().unwrap().get(metric).cloned().unwrap_or_default()
    }

    fn sum(&self, metric: &str) -> f64 {
        self.values(metric).iter().sum()
    }

    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        Arc::new(One { heard: self.clone(), metric: format!("{}{labels}", key.name()) })
    }
}

struct One {
    heard: Heard,
    metric: String,
}

impl One {
    fn told(&self, value: f64) {
        self.heard.0.lock().unwrap().entry(self.metric.clone()).or_default().push(value);
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.told(f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, _: u64) {
        unreachable!("no counter is told where it stands")
    }
}

impl GaugeFn for One {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set")
    }

    fn decrement(&self, _: f64) {
        unreachable!("gauges are set")
    }

    fn set(&self, value: f64) {
        self.told(value);
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.told(value);
    }
}

impl Recorder for Heard {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// A workflow with one step, which takes ten seconds.
fn slow(harness: &TestHarness, name: &str) -> Workflow<Value, Value> {
    let timer = harness.timer();
    Workflow::new(name, move |ctx: Ctx, input: Value| {
        let timer = timer.clone();
        async move {
            let work = ctx.step("work", || async {
                timer.sleep_until(timer.elapsed() + 10 * SECOND).await;
                Ok(())
            });
            work.await?;
            Ok(input)
        }
    })
}

#[tokio::test]
async fn admissions_are_counted_by_verdict_and_waits_by_control() {
    let (heard, harness) = (Heard::default(), TestHarness::new());
    let _listening = metrics::set_default_local_recorder(&heard);
    let limited = slow(&harness, "limited").concurrency(Concurrency::limit(1));
    let spread = slow(&harness, "spread").throttle(Rate::per_minute(1));
    let shed = slow(&harness, "shed").rate_limit(Rate::per_minute(1));
    let engine = harness.engine().workflow(limited).workflow(spread).workflow(shed).start();
    let engine = engine.await.unwrap();
    for name in ["limited", "limited", "limited", "spread", "spread", "shed", "shed"] {
        engine.send(name, json!({})).await.unwrap();
    }
    let admissions = |workflow: &str, verdict: &str| {
        let labels = format!("workflow={workflow},verdict={verdict}");
        heard.sum(&format!("tidegate_admissions_total{{{labels}}}"))
    };
    let verdicts = ["started", "queued", "dropped"];
    let admitted = |workflow| verdicts.map(|verdict| admissions(workflow, verdict));
    assert_eq!(admitted("limited"), [1.0, 2.0, 0.0]);
    assert_eq!(admitted("spread"), [1.0, 1.0, 0.0]);
    assert_eq!(admitted("shed"), [1.0, 0.0, 1.0]);
    let waits = |workflow: &str, control: &str| {
        heard.sum(&format!("tidegate_waits_total{{workflow={workflow},control={control}}}"))
    };
    assert_eq!(waits("limited", "concurrency"), 2.0);
    assert_eq!(waits("spread", "throttle"), 1.0);
}

#[tokio::test]
async fn a_start_is_counted_once_and_its_delay_is_measured() {
    let (heard, harness) = (Heard::default(), TestHarness::new());
    let _listening = metrics::set_default_local_recorder(&heard);
    let limited = slow(&harness, "limited").concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(limited).start().await.unwrap();
    for _ in 0..3 {
        engine.send("limited", json!({})).await.unwrap();
    }
    harness.advance(SECOND).await;
    assert_eq!(heard.sum("tidegate_starts_total{workspace=default,workflow=limited}"), 1.0);
    assert_eq!(heard.values("tidegate_driven_runs").last(), Some(&1.0));
    harness.advance(60 * SECOND).await;
    assert_eq!(heard.sum("tidegate_starts_total{workspace=default,workflow=limited}"), 3.0);
    let delays = heard.values("tidegate_start_delay_seconds{workspace=default,workflow=limited}");
    assert_eq!(delays, [0.0, 10.0, 20.0]);
    assert_eq!(heard.values("tidegate_hand_off_seconds").len(), 3);
    assert_eq!(heard.values("tidegate_driven_runs").last(), Some(&0.0));
}

#[tokio::test]
async fn a_run_that_goes_on_after_a_sleep_is_handed_over_again_and_not_started_again() {
    let (heard, harness) = (Heard::default(), TestHarness::new());
    let _listening = metrics::set_default_local_recorder(&heard);
    let nap =
        Workflow::new(
            "nap",
            |ctx: Ctx, _: Value| async move { ctx.sleep("nap", 60 * SECOND).await },
        );
    let engine = harness.engine().workflow(nap).start().await.unwrap();
    engine.send("nap", json!({})).await.unwrap();
    harness.advance(120 * SECOND).await;
    assert_eq!(harness.runs("nap").await[0].state, "completed");
    assert_eq!(heard.sum("tidegate_starts_total{workspace=default,workflow=nap}"), 1.0);
    assert_eq!(heard.values("tidegate_hand_off_seconds").len(), 2);
}

#[tokio::test]
async fn each_transaction_is_measured_with_its_commands() {
    let (heard, harness) = (Heard::default(), TestHarness::new());
    let _listening = metrics::set_default_local_recorder(&heard);
    let engine = harness.engine().workflow(slow(&harness, "plain")).start().await.unwrap();
    harness.settle().await;
    let (took, size) = ("tidegate_store_seconds{outcome=ok}", "tidegate_batch_commands");
    let before = heard.values(took).len();
    engine.send("plain", json!({})).await.unwrap();
    assert_eq!(heard.values(took).len(), before + 1);
    assert_eq!(heard.values(size).len(), before + 1);
    assert_eq!(heard.values(size).last(), Some(&1.0));
    assert!(heard.values("tidegate_store_seconds{outcome=error}").is_empty());
}

#[tokio::test]
async fn a_lost_lease_is_counted() {
    let (heard, harness) = (Heard::default(), TestHarness::new());
    let _listening = metrics::set_default_local_recorder(&heard);
    let engine = harness.engine().lease_ttl(30 * SECOND).workflow(slow(&harness, "plain")).start();
    let _engine = engine.await.unwrap();
    harness.advance(30 * SECOND).await;
    assert_eq!(heard.sum("tidegate_lease_losses_total"), 0.0);
    let rows = harness.store().dump().await.unwrap();
    let engines = rows.iter().filter_map(|row| {
        let Row::Engine(engine) = row else { return None };
        Some((Command::MarkDead { engine: engine.id, beat: engine.beat }, 0))
    });
    commit(&**harness.store(), engines.collect()).await.unwrap();
    harness.advance(30 * SECOND).await;
    assert_eq!(heard.sum("tidegate_lease_losses_total"), 1.0);
}

/// Started spans, each as `LEVEL parent>name field=value …`.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, (Level, String)>>>);

impl Spans {
    /// Returns the spans of a level, without ids that differ between executions.
    fn of(&self, level: Level) -> Vec<String> {
        let spans = self.0.lock().unwrap();
        spans.values().filter(|(at, _)| *at == level).map(|(_, line)| line.clone()).collect()
    }

    fn note(&self, id: &Id, note: impl FnOnce(&mut Fields)) {
        if let Some((_, line)) = self.0.lock().unwrap().get_mut(&id.into_u64()) {
            let mut fields = Fields(std::mem::take(line));
            note(&mut fields);
            *line = fields.0;
        }
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let metadata = attributes.metadata();
        if metadata.target().starts_with("tidegate") {
            let parents = ctx.span_scope(id).into_iter().flatten().skip(1);
            let path = parents.fold(metadata.name().to_owned(), |path, parent| {
                format!("{}>{path}", parent.name())
            });
            let mut spans = self.0.lock().unwrap();
            let place = spans.len() as u64;
            // A later span may get the id of an ended one, so the ended one is moved away.
            if let Some(ended) = spans.remove(&id.into_u64()) {
                spans.insert(u64::MAX - place, ended);
            }
            spans.insert(id.into_u64(), (*metadata.level(), path));
            drop(spans);
            self.note(id, |fields| attributes.record(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.note(id, |fields| values.record(fields));
    }
}

#[tokio::test]
async fn a_run_is_a_span_at_info_and_its_tries_are_spans_within_it_at_debug() {
    let (spans, harness) = (Spans::default(), TestHarness::new());
    let _listening = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
    let order = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        let attempt = ctx.attempt("pay");
        let pay = ctx.step("pay", || async move {
            if attempt < 2 { Err(StepError::new("declined")) } else { Ok(()) }
        });
        pay.retry(Retry::attempts(2).fixed(SECOND)).await
    });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let posted = engine.send("order", json!({})).await.unwrap();
    let run = posted.runs[0].verdict.run().unwrap();
    harness.advance(10 * SECOND).await;
    let expected = |fence| {
        format!("run run_id={run} workflow=\"order\" version=1 workspace=default fence={fence}")
    };
    let mut at_info = spans.of(Level::INFO);
    at_info.sort_unstable();
    assert_eq!(at_info, [expected(1), expected(2)]);
    let mut at_debug = spans.of(Level::DEBUG);
    at_debug.sort_unstable();
    let post =
        format!("post workspace=\"default\" event=\"order\" events=1 event_id={}", posted.id);
    let tries = [1, 2].map(|attempt| format!("run>step step=\"pay\" attempt={attempt}"));
    assert_eq!(at_debug, [post, tries[0].clone(), tries[1].clone()]);
}

#[tokio::test]
async fn a_request_is_named_by_its_run_where_it_is_called_and_where_it_is_driven() {
    let (spans, harness) = (Spans::default(), TestHarness::new());
    let _listening = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
    let chat = Flow::new("chat").action(Action::new("say", async |_: Ctx, _: Value| Ok(())));
    let engine = harness.engine().flow(chat).start().await.unwrap();
    let outcome = engine.dispatch(new_request("chat", "say", json!({})).unwrap()).await.unwrap();
    harness.settle().await;
    let request = format!(" request_id={}", outcome.verdict.run().unwrap());
    let (driven, called) = (spans.of(Level::INFO), spans.of(Level::DEBUG));
    assert!(driven.len() == 1 && driven[0].contains(&request), "{driven:?}");
    assert!(called.len() == 1 && called[0].contains(&request), "{called:?}");
    let call = "dispatch workspace=\"default\" flow=\"chat\" action=\"say\" verdict=\"started\"";
    assert!(called[0].starts_with(call), "{called:?}");
}

/// Log lines about reactions, with their level and fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("tidegate::reaction") {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push((*event.metadata().level(), fields.0));
        }
    }
}

async fn commit_to(engine: &tidegate::Engine, stream: &str) {
    let (name, data, meta) = ("made".to_owned(), Payload::null(), Payload::null());
    let event = NewLogged { name, data, meta };
    engine.streams().commit(stream, vec![event], None).await.unwrap();
}

/// spec B221: claims, acks and blocks of reactions are logged at trace level, and nothing at other
/// levels.
#[tokio::test]
async fn a_reaction_leaves_breadcrumbs_at_trace_only() {
    let (lines, heard, harness) = (Lines::default(), Heard::default(), TestHarness::new());
    let _listening = tracing::subscriber::set_default(Registry::default().with(lines.clone()));
    let _counting = metrics::set_default_local_recorder(&heard);
    let reaction = Reaction::new("mail").on_any(async |ctx: ReactionCtx, _: StreamEvent| {
        if ctx.stream() == "bad" { Err(StepError::new("never").fatal()) } else { Ok(()) }
    });
    let engine = harness.engine().reaction(reaction).start().await.unwrap();
    harness.settle().await;
    commit_to(&engine, "good").await;
    harness.settle().await;
    commit_to(&engine, "bad").await;
    harness.settle().await;
    let lines = lines.0.lock().unwrap().clone();
    assert!(lines.iter().all(|(level, _)| *level == Level::TRACE), "{lines:#?}");
    let of = |stream: &str| {
        let wanted = format!("stream=\"{stream}\"");
        let lines = lines.iter().filter(|(_, line)| line.contains(&wanted));
        let words = lines.map(|(_, line)| {
            let known = ["claimed", "acked", "blocked"];
            known.into_iter().find(|word| line.contains(&format!("message={word}")))
        });
        words.map(Option::unwrap).collect::<Vec<_>>()
    };
    assert_eq!((of("good"), of("bad")), (vec!["claimed", "acked"], vec!["claimed", "blocked"]));
    let counted = |metric: &str| heard.sum(&format!("tidegate_reaction_{metric}{{reaction=mail}}"));
    assert_eq!((counted("claims_total"), counted("events_total")), (2.0, 2.0));
    assert_eq!((counted("failures_total"), counted("blocks_total")), (1.0, 1.0));
    let lags = heard.values("tidegate_reaction_lag_seconds{reaction=mail}");
    assert_eq!(lags, [0.0, 0.0]);
}

/// All log lines of every level, without spans.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let (level, target) = (event.metadata().level(), event.metadata().target());
        self.0.lock().unwrap().push(format!("{level} {target}: {}", fields.0));
    }
}

/// spec B220: a conflict is reported only to the caller. It is not logged at any level.
#[tokio::test]
async fn a_conflict_is_told_to_the_caller_only() {
    let (answer, harness) = (Told::default(), TestHarness::new());
    let engine = harness.engine().start().await.unwrap();
    harness.settle().await;
    let listening = tracing::subscriber::set_default(Registry::default().with(answer.clone()));
    commit_to(&engine, "order").await;
    let quiet = std::mem::take(&mut *answer.0.lock().unwrap());
    let event = tidegate::events::new("made", Value::Null).unwrap();
    let pinned = engine.streams().commit("order", vec![event], Some(Expected::NoStream)).await;
    let pinned = pinned.unwrap_err().to_string();
    assert_eq!(pinned, "stream `order`: expected no stream, got version 0");
    harness.settle().await;
    assert_eq!(
        *answer.0.lock().unwrap(),
        quiet,
        "a conflict must log no more than a commit without one"
    );
    tracing::warn!("heard");
    assert_eq!(
        answer.0.lock().unwrap().len(),
        quiet.len() + 1,
        "the test's subscriber must receive log lines"
    );
    drop(listening);
}
