//! Deferred events and requests: recorded when they are sent, admitted at their time.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{
    action::Flow,
    command::{Answer, Command, Refusal},
    delivery::{self, CancelledDelivery, DeferredEvent, MAX_DELAY_MS},
    event::{NewEvent, Posted},
    flow::Verdict,
    id::{EventId, RunId, Seq},
    observe::Part,
    request::Request,
    row::{DeliveryEnd, Event, Phase, Row, RowKey, Run},
    run::record::Recorded,
};
use tidegate_store::look;

use crate::{
    worker::for_event,
    world::{World, event, request},
};

/// The delay of most events below.
const DELAY_MS: u64 = 60_000;

fn later(name: &str, data: &Value) -> NewEvent {
    event(name, data).delay(Duration::from_millis(DELAY_MS))
}

fn once(id: &str) -> NewEvent {
    NewEvent { dedupe_id: Some(id.to_owned()), ..later("mail", &json!({ "id": id })) }
}

async fn cancel(world: &World, event: EventId) -> Result<CancelledDelivery, Refusal> {
    let (ws, reason) = (world.ws.clone(), "not needed".to_owned());
    match world.run(Command::CancelDelivery { ws, event, reason }).await {
        Ok(Answer::Undelivered(cancelled)) => Ok(*cancelled),
        Ok(other) => panic!("unexpected answer to a cancellation: {other:?}"),
        Err(refusal) => Err(refusal),
    }
}

async fn stored(world: &World, id: EventId) -> Event {
    match world.row(RowKey::Event(id.seq)).await {
        Some(Row::Event(event)) => event,
        other => panic!("no event {id}: {other:?}"),
    }
}

async fn list(world: &World, below: Option<Seq>, limit: u32) -> (Vec<DeferredEvent>, Option<Seq>) {
    let (ws, part) = (world.ws.clone(), Part { below, limit });
    let page = look(&*world.store, &ws, |draft| delivery::list(draft, &ws, part)).await.unwrap();
    (page.items, page.next)
}

async fn listed(world: &World) -> Vec<EventId> {
    list(world, None, 100).await.0.into_iter().map(|deferred| deferred.event.id).collect()
}

/// The verdict of a deferred request, and its run.
async fn ask(world: &World, request: Request) -> RunId {
    let (due, verdict) = (world.now().plus_ms(DELAY_MS), world.dispatch(request).await.verdict);
    let Verdict::Deferred { run, deliver_at } = verdict else { panic!("{verdict:?}") };
    assert_eq!((deliver_at, verdict.run(), verdict.outcome()), (due, Some(run), "deferred"));
    run
}

fn asked(action: &str, n: u32) -> Request {
    let request = request("chat", action, Some("s"), None, &json!({ "n": n }));
    request.delay(Duration::from_millis(DELAY_MS))
}

/// spec L23: an event is recorded at once, and starts and wakes nothing before its time.
pub async fn an_event_is_delivered_at_its_time_and_not_before(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    let at = world.now().plus_ms(DELAY_MS);
    for new in [later("mail", &json!({})), event("mail", &json!({})).deliver_at(at)] {
        let (sent, due) = (world.now(), world.now().plus_ms(DELAY_MS));
        let posted = world.post_event(new).await;
        let Posted { id, deliver_at, ref runs, woke, .. } = posted;
        assert_eq!((deliver_at, runs.as_slice(), woke), (Some(due), &[][..], 0));
        assert_eq!(posted.to_value()["deliverAt"], due.rfc3339());
        let row = stored(world, id).await;
        assert_eq!((row.at, row.is_deferred(), row.number()), (sent, true, id.seq));
        assert_eq!(listed(world).await, [id]);
        world.tick(DELAY_MS - 1).await;
        assert!(world.lease_all().await.is_empty(), "delivered too early");
        world.check_holds().await;
        world.tick(1).await;
        let run = world.lease_one().await;
        assert_eq!((run.queued_at, run.source.first()), (due, id));
        let row = stored(world, id).await;
        let end = row.delivery.and_then(|delivery| delivery.end);
        let number = row.number();
        assert_eq!(end, Some(DeliveryEnd::Delivered { number, at: due }));
        assert!(number > id.seq, "the event has no new number");
        assert_eq!(listed(world).await, []);
        world.complete(&run).await;
        world.clock.set(at);
        world.check_quiet().await;
        world.clock.set(sent);
    }
}

/// spec L23: a time that has passed means at once; one that is too far ahead is refused, and
/// nothing is recorded.
pub async fn the_time_is_in_the_past_or_at_most_a_year_ahead(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    let now = world.now();
    for at in [now, now.minus_ms(1), now.minus_ms(DELAY_MS)] {
        let posted = world.post_event(event("mail", &json!({})).deliver_at(at)).await;
        assert_eq!((posted.deliver_at, posted.runs.len()), (None, 1));
        world.complete(&world.lease_one().await).await;
    }
    let zero = world.post_event(event("mail", &json!({})).delay(Duration::ZERO)).await;
    assert_eq!((zero.deliver_at, zero.runs.len()), (None, 1));
    world.complete(&world.lease_one().await).await;
    let rows = world.dump().await.len();
    let at = now.plus_ms(MAX_DELAY_MS + 1);
    let new = event("mail", &json!({})).deliver_at(at);
    let command = Command::Post { ws: world.ws.clone(), events: vec![new] };
    let refusal = world.run(command).await.unwrap_err();
    assert_eq!(refusal, Refusal::TooFarAhead { at, now });
    assert_eq!(world.dump().await.len(), rows);
    world.define_flow(json!({ "name": "chat", "actions": { "say": {} } })).await;
    let request = request("chat", "say", None, None, &json!({})).deliver_at(at);
    let refusal = world.run(Command::Dispatch { ws: world.ws.clone(), request }).await.unwrap_err();
    assert_eq!(refusal, Refusal::TooFarAhead { at, now });
    let last = event("mail", &json!({})).deliver_at(now.plus_ms(MAX_DELAY_MS));
    let posted = world.post_event(last).await;
    world.tick(MAX_DELAY_MS).await;
    assert_eq!(world.lease_one().await.source.first(), posted.id);
}

/// spec L23, C2: a `dedupeId` is taken when the event arrives. A repeat says when the first event
/// is delivered, and afterwards what came of it.
pub async fn a_repeat_is_dropped_while_the_event_waits(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    let posted = world.post_all(vec![once("a"), once("a")]).await;
    let (first, at) = (posted[0].id, posted[0].deliver_at);
    assert_eq!((posted[1].id, posted[1].deduped, posted[1].deliver_at), (first, true, at));
    let plain = NewEvent { deliver: None, ..once("a") };
    let repeat = world.post_event(plain.clone()).await;
    assert_eq!((repeat.id, repeat.deduped, repeat.deliver_at), (first, true, at));
    assert_eq!(listed(world).await, [first]);
    world.tick(DELAY_MS).await;
    let run = world.lease_one().await;
    let repeat = world.post_event(plain).await;
    assert_eq!((repeat.id, repeat.deduped, repeat.deliver_at), (first, true, None));
    assert_eq!(repeat.first[0]["runId"], json!(run.id));
    world.complete(&run).await;
    // The claim lives for 24 hours from the arrival, also for an event that waits longer.
    let far = |id: &str| NewEvent { deliver: None, ..once(id) }.delay(Duration::from_secs(90_000));
    let first = world.post_event(far("b")).await;
    world.tick(24 * 60 * 60 * 1000 - 1).await;
    assert_eq!(world.post_event(far("b")).await.id, first.id);
    world.tick(1).await;
    assert_ne!(world.post_event(far("b")).await.id, first.id);
}

/// spec L23: a cancelled event is not delivered, and its `dedupeId` can be used again.
pub async fn a_cancelled_event_frees_its_dedupe_id(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    let first = world.post_event(once("a")).await;
    let cancelled = cancel(world, first.id).await.unwrap();
    let (name, dedupe_id) = ("mail".to_owned(), Some("a".to_owned()));
    let deliver_at = first.deliver_at.unwrap();
    let expected = CancelledDelivery { id: first.id, run: None, name, deliver_at, dedupe_id };
    assert_eq!(cancelled, expected);
    let (event, end) = (first.id, "cancelled");
    assert_eq!(cancel(world, event).await, Err(Refusal::DeliveryEnded { event, end }));
    let second = world.post_event(once("a")).await;
    assert_eq!((second.deduped, listed(world).await), (false, vec![second.id]));
    world.tick(DELAY_MS).await;
    let run = world.lease_one().await;
    assert_eq!(run.source.first(), second.id);
    let (event, end) = (second.id, "delivered");
    assert_eq!(cancel(world, event).await, Err(Refusal::DeliveryEnded { event, end }));
    let at_once = world.post("nobody", json!({})).await.id;
    let end = "delivered";
    assert_eq!(cancel(world, at_once).await, Err(Refusal::DeliveryEnded { event: at_once, end }));
    let unknown = EventId { seq: at_once.seq, salt: at_once.salt + 1 };
    assert_eq!(cancel(world, unknown).await, Err(Refusal::NoEvent(unknown)));
    let elsewhere = world.in_workspace("elsewhere");
    let waiting = world.post_event(once("b")).await.id;
    assert_eq!(cancel(&elsewhere, waiting).await, Err(Refusal::NoEvent(waiting)));
    world.complete(&run).await;
    cancel(world, waiting).await.unwrap();
    // A claim that another event has taken since is not freed.
    let far = |id: &str| NewEvent { deliver: None, ..once(id) }.delay(Duration::from_secs(90_000));
    let old = world.post_event(far("c")).await;
    world.tick(24 * 60 * 60 * 1000).await;
    let new = world.post_event(far("c")).await;
    cancel(world, old.id).await.unwrap();
    assert_eq!(world.post_event(far("c")).await.id, new.id);
    cancel(world, new.id).await.unwrap();
    world.check_quiet().await;
}

/// spec L23: several sweeps, also of several engines, deliver an event once.
pub async fn an_event_is_delivered_once(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    let id = world.post_event(later("mail", &json!({}))).await.id;
    let Some(Row::Chore(chore)) = world.row(RowKey::Chore(id.seq)).await else { panic!("none") };
    let sweep = || Command::SweepChore { known: Box::new(chore.clone()) };
    world.run(sweep()).await.unwrap();
    assert!(world.lease_all().await.is_empty(), "a sweep delivered the event too early");
    world.pass(DELAY_MS);
    let other = world.engine(world.engine + 1);
    for answer in world.batch(vec![sweep(), sweep()]).await {
        answer.unwrap();
    }
    other.run(sweep()).await.unwrap();
    world.complete(&world.lease_one().await).await;
    world.check_quiet().await;
}

/// spec L23: a clock that steps back neither delivers an event early, nor delays it by more than
/// its delay. A time that was given as such stays.
pub async fn a_clock_that_steps_back_delays_by_the_delay_at_most(world: &World) {
    world.define(json!({ "name": "mail" })).await;
    for step_ms in [400, 40_000, 3_600_000] {
        let delayed = world.post_event(later("mail", &json!({}))).await;
        world.clock.set(world.now().minus_ms(step_ms));
        world.sweep().await;
        let (row, due) = (stored(world, delayed.id).await, world.now().plus_ms(DELAY_MS));
        assert_eq!(row.delivery.map(|delivery| delivery.at), Some(due));
        world.check_holds().await;
        world.tick(DELAY_MS - 1).await;
        assert!(world.lease_all().await.is_empty(), "early after a step of {step_ms} ms");
        world.tick(1).await;
        world.complete(&world.lease_one().await).await;
        let at = world.now().plus_ms(DELAY_MS);
        world.post_event(event("mail", &json!({})).deliver_at(at)).await;
        world.clock.set(world.now().minus_ms(step_ms));
        world.sweep().await;
        world.tick(DELAY_MS).await;
        assert!(world.lease_all().await.is_empty(), "early after a step of {step_ms} ms");
        world.clock.set(at);
        world.sweep().await;
        world.complete(&world.lease_one().await).await;
    }
}

/// spec L23: an event has the rank of its delivery, not that of its arrival.
pub async fn a_delivered_event_queues_behind_those_before_it(world: &World) {
    world.define(json!({ "name": "mail", "concurrency": { "limit": 1 } })).await;
    let holder = world.drive("mail", json!({ "n": 0 })).await;
    world.post_event(later("mail", &json!({ "n": 1 }))).await;
    let second = world.send_for_run("mail", json!({ "n": 2 })).await;
    world.tick(DELAY_MS).await;
    let third = world.send_for_run("mail", json!({ "n": 3 })).await;
    world.complete(&holder).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let run = world.lease_one().await;
        order.push(world.input_of(run.id).await["n"].clone());
        world.complete(&run).await;
    }
    assert_eq!(order, [json!(2), json!(1), json!(3)]);
    assert!(world.ended(second).await.is_some() && world.ended(third).await.is_some());
}

/// spec L23: waits that began before the delivery get the event, also those that began after it
/// was sent.
pub async fn a_wait_sees_the_event_at_its_delivery(world: &World) {
    world.define(json!({ "name": "job" })).await;
    world.post_event(later("paid", &json!({ "n": 1 }))).await;
    let run = world.drive("job", json!({})).await;
    world.suspend(&run, vec![for_event("a", "paid")]).await;
    world.tick(DELAY_MS - 1).await;
    assert_eq!(world.state(run.id).await, "waiting");
    world.tick(1).await;
    assert_eq!(world.came_of(run.id, "a").await, Some(Ok(json!({ "n": 1 }).to_string())));
    let run = world.lease_one().await;
    // A wait that begins after the delivery does not get it.
    world.suspend(&run, vec![for_event("b", "paid")]).await;
    assert_eq!(world.state(run.id).await, "waiting");
    world.post("paid", json!({ "n": 2 })).await;
    world.complete(&world.lease_one().await).await;
    world.check_quiet().await;
}

/// spec L23, L29, L35: `cancelOn` and `waitsFor` count an event from its delivery on.
pub async fn listeners_see_the_event_at_its_delivery(world: &World) {
    let on = |name: &str| json!({ "event": name, "match": { "id": "id" } });
    world.define(json!({ "name": "job", "cancelOn": on("stop"), "waitsFor": [on("paid")] })).await;
    world.post_event(later("stop", &json!({ "id": 1 }))).await;
    world.post_event(later("paid", &json!({ "id": 2, "n": "first" }))).await;
    let cancelled = world.drive("job", json!({ "id": 1 })).await;
    world.sleep(&cancelled, "nap", 10 * DELAY_MS).await;
    let kept = world.drive("job", json!({ "id": 2 })).await;
    world.sleep(&kept, "nap", 2 * DELAY_MS).await;
    world.tick(DELAY_MS - 1).await;
    world.post("paid", json!({ "id": 2, "n": "before" })).await;
    assert_eq!(world.state(cancelled.id).await, "waiting");
    world.tick(1).await;
    assert_eq!(world.state(cancelled.id).await, "cancelled");
    // The inbox has the events in the order of their deliveries.
    world.tick(DELAY_MS).await;
    for (step, n) in [("a", "before"), ("b", "first")] {
        let run = world.lease_one().await;
        world.suspend(&run, vec![for_event(step, "paid")]).await;
        let got = world.came_of(kept.id, step).await.unwrap().unwrap();
        assert!(got.contains(n), "{step} got {got}");
    }
    world.complete(&world.lease_one().await).await;
    world.check_quiet().await;
}

/// spec L23, L29: `withinMs` of `cancelOn` counts to the delivery, not to the arrival.
pub async fn a_delivery_after_the_time_of_a_listener_cancels_nothing(world: &World) {
    let cancel_on = json!({ "event": "stop", "match": { "id": "id" }, "withinMs": DELAY_MS - 1 });
    world.define(json!({ "name": "job", "cancelOn": cancel_on })).await;
    let run = world.drive("job", json!({ "id": 1 })).await;
    world.sleep(&run, "nap", 10 * DELAY_MS).await;
    world.post_event(later("stop", &json!({ "id": 1 }))).await;
    world.tick(DELAY_MS).await;
    assert_eq!(world.state(run.id).await, "waiting");
}

/// spec L23, L12: of limits from data, those of the event that was delivered last apply.
pub async fn limits_from_data_are_those_of_the_last_delivery(world: &World) {
    let limit = json!({ "from": "seats", "default": 1, "min": 1, "max": 9 });
    world.define(json!({ "name": "job", "concurrency": { "limit": limit } })).await;
    world.post_event(later("job", &json!({ "seats": 3 }))).await;
    for _ in 0..3 {
        world.send("job", json!({ "seats": 1 })).await;
    }
    assert_eq!(world.lease_all().await.len(), 1);
    world.tick(DELAY_MS).await;
    assert_eq!(world.lease_all().await.len(), 2, "the delivered event has three seats");
}

/// spec L23, retention: an event that waits is spared however old it is. Afterwards it is as old
/// as its delivery.
pub async fn retention_spares_what_is_not_delivered(world: &World) {
    let day = 24 * 60 * 60 * 1000;
    let far = |name: &str| event(name, &json!({})).delay(Duration::from_millis(100 * day));
    let forget = async |world: &World| {
        let before = world.now().minus_ms(30 * day);
        let (past, after) = (tidegate_core::retention::Past::Events, Seq(i64::MIN));
        world.run(Command::Forget { past, before, after, most: 100 }).await.unwrap();
    };
    let is_there =
        async |world: &World, id: EventId| world.row(RowKey::Event(id.seq)).await.is_some();
    let waiting = world.post_event(far("nobody")).await.id;
    let cancelled = world.post_event(far("nobody")).await.id;
    let plain = world.post("nobody", json!({})).await.id;
    world.tick(60 * day).await;
    cancel(world, cancelled).await.unwrap();
    forget(world).await;
    let there = [is_there(world, waiting).await, is_there(world, cancelled).await];
    assert_eq!((there, is_there(world, plain).await), ([true, true], false));
    world.tick(40 * day).await;
    forget(world).await;
    let there = [is_there(world, waiting).await, is_there(world, cancelled).await];
    assert_eq!(there, [true, false], "it was delivered right now");
    world.tick(31 * day).await;
    forget(world).await;
    assert!(!is_there(world, waiting).await);
}

/// spec L23: the run of a deferred request has the promised id, and its policy decides at the
/// delivery.
pub async fn a_request_is_decided_at_its_delivery(world: &World) {
    let actions = json!({ "say": { "concurrency": "queue" }, "ask": { "concurrency": "reject" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let run = ask(world, asked("say", 1)).await;
    assert!(world.live(run).await.is_none(), "the run exists before its time");
    assert_eq!(world.call("chat", "say", "s", json!({})).await.outcome(), "started");
    let holder = world.lease_one().await;
    let refused = ask(world, asked("ask", 2)).await;
    world.tick(DELAY_MS).await;
    let queued = world.live(run).await.expect("it was delivered");
    assert!(matches!(queued.phase, Phase::Queued { .. }), "{:?}", queued.phase);
    assert_eq!(queued.queued_at, world.now());
    let (reason, by) = world.cancelled(refused).await;
    assert_eq!((reason.contains("skipped by policy"), by), (true, None), "{reason}");
    world.complete(&holder).await;
    let leased = world.lease_one().await;
    assert_eq!((leased.id, world.input_of(run).await["input"]["n"].clone()), (run, json!(1)));
    world.complete(&leased).await;
    world.check_quiet().await;
}

/// spec L23: a deferred request that joins a window ends with the id of the run that carries it; one
/// that opens a window gives the window its run.
pub async fn a_request_opens_or_joins_a_window(world: &World) {
    let actions = json!({ "save": { "debounce": { "periodMs": 2 * DELAY_MS } } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let first = ask(world, asked("save", 1)).await;
    let second = ask(world, asked("save", 2)).await;
    world.tick(DELAY_MS).await;
    assert_eq!(world.cancelled(second).await, ("coalesced".to_owned(), Some(first)));
    assert!(world.why(first).await.fold.is_some(), "the window has the run of the first");
    world.tick(2 * DELAY_MS).await;
    let run = world.lease_one().await;
    assert_eq!((run.id, world.input_of(first).await["input"]["n"].clone()), (first, json!(2)));
    world.complete(&run).await;
    world.check_quiet().await;
}

/// spec L23: a deferred request is cancelled by the id of its event or of its run, which ends as
/// cancelled. `why` and the list name the time.
pub async fn a_request_is_cancelled_before_its_delivery(world: &World) {
    world.define_flow(json!({ "name": "chat", "actions": { "say": {} } })).await;
    let (by_event, by_run) = (ask(world, asked("say", 1)).await, ask(world, asked("say", 2)).await);
    let (at, why) = (world.now().plus_ms(DELAY_MS), world.why(by_run).await);
    assert_eq!((why.state, why.deliver_at, why.earliest), ("queued", Some(at), Some(at)));
    assert!(why.sentence.contains(&at.rfc3339()), "{}", why.sentence);
    let items = list(world, None, 10).await.0;
    let shown = items.iter().map(|it| (it.run, it.deliver_at, it.event.name.as_str()));
    let expected = [(Some(by_run), at, "chat/say"), (Some(by_event), at, "chat/say")];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(world.pause(by_run).await, Err(Refusal::Deferred { run: by_run, at }));
    assert_eq!(world.resume(by_run).await, Err(Refusal::Deferred { run: by_run, at }));
    let cancelled = cancel(world, delivery::event_of(by_event)).await.unwrap();
    assert_eq!(cancelled.run, Some(by_event));
    assert_eq!(world.cancelled(by_event).await, ("not needed".to_owned(), None));
    assert_eq!(world.cancel(by_run).await, Ok(Answer::Done));
    assert_eq!(world.state(by_run).await, "cancelled");
    let ended = Refusal::Ended { run: by_run, state: "cancelled" };
    assert_eq!(world.cancel(by_run).await, Err(ended));
    world.tick(DELAY_MS).await;
    assert!(world.lease_all().await.is_empty());
    world.check_quiet().await;
}

/// spec L23: an input is checked when it is sent. The release of the delivery decides: without the
/// action, or with a schema that the input does not match, the run ends as cancelled.
pub async fn the_release_of_the_delivery_decides(world: &World) {
    let schema = |kind: &str| json!({ "type": "object", "properties": { "n": { "type": kind } } });
    let flow = |kind: &str| {
        let say = json!({ "schema": schema(kind) });
        json!({ "name": "chat", "actions": { "say": say, "add": {} } })
    };
    world.define_flow(flow("integer")).await;
    let good = ask(world, asked("say", 1)).await;
    let mut bad = asked("say", 1);
    bad.input = crate::world::payload(&json!({ "n": "one" }));
    let refused = world.run(Command::Dispatch { ws: world.ws.clone(), request: bad }).await;
    assert_eq!(refused.unwrap_err().code(), "bad_input");
    let unknown = asked("sing", 1);
    let refused = world.run(Command::Dispatch { ws: world.ws.clone(), request: unknown }).await;
    assert_eq!(refused.unwrap_err().code(), "no_workflow");
    world.tick(DELAY_MS).await;
    assert_eq!(world.lease_one().await.id, good);
    let misfit = ask(world, asked("say", 1)).await;
    let orphan = ask(world, asked("add", 1)).await;
    for action in Flow::parse(&flow("string")).unwrap().value.actions {
        let (ws, workflow) = (world.ws.clone(), Box::new(action));
        world.run(Command::Register { ws, workflow, dev: true }).await.unwrap();
    }
    let (ws, app) = (world.ws.clone(), "default".to_owned());
    world.run(Command::Retire { ws, app, name: "chat/add".to_owned() }).await.unwrap();
    world.tick(DELAY_MS).await;
    let (reason, _) = world.cancelled(misfit).await;
    assert!(reason.contains("cannot be used"), "{reason}");
    assert_eq!(world.cancelled(orphan).await.0, "its action is gone");
    world.check_holds().await;
}

/// spec L23: a step that posts a deferred event is recorded at once, and posts it once.
pub async fn a_step_defers_an_event_once(world: &World) {
    world.define(json!({ "name": "job" })).await;
    world.define(json!({ "name": "mail" })).await;
    let run: Run = world.drive("job", json!({})).await;
    for _ in 0..2 {
        let told = world.tell(&run, "remind", later("mail", &json!({}))).await;
        assert_eq!(told, Ok(Recorded::GoOn));
    }
    let recorded = world.came_of(run.id, "remind").await.unwrap().unwrap();
    let at = world.now().plus_ms(DELAY_MS).rfc3339();
    assert_eq!(serde_json::from_str::<Value>(&recorded).unwrap()["deliverAt"], at);
    let far = event("mail", &json!({})).delay(Duration::from_millis(MAX_DELAY_MS + 1));
    assert_eq!(world.tell(&run, "far", far).await, Ok(Recorded::GoOn));
    let failed = world.came_of(run.id, "far").await.unwrap().unwrap_err();
    assert_eq!(failed.code, "TooFarAhead", "the report stands, and the step fails");
    world.complete(&run).await;
    assert_eq!(listed(world).await.len(), 1);
    world.tick(DELAY_MS).await;
    world.complete(&world.lease_one().await).await;
    world.check_quiet().await;
}

/// spec L23: the list is by workspace, newest first, in pages.
pub async fn what_waits_is_listed_in_pages(world: &World) {
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.post_event(later("mail", &json!({ "n": n }))).await.id);
        world.post("paid", json!({})).await;
    }
    let elsewhere = world.in_workspace("elsewhere");
    elsewhere.post_event(later("mail", &json!({}))).await;
    ids.reverse();
    let (mut found, mut below) = (Vec::new(), None);
    loop {
        let (page, next) = list(world, below, 2).await;
        assert!(page.len() <= 2);
        found.extend(page.into_iter().map(|deferred| deferred.event.id));
        match next {
            Some(next) => below = Some(next),
            None => break,
        }
    }
    assert_eq!(found, ids);
    cancel(world, ids[2]).await.unwrap();
    ids.remove(2);
    assert_eq!(listed(world).await, ids);
}
