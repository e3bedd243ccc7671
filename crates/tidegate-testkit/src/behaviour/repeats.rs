//! Requests with an idempotency key: the first is executed, and all repeats get its answer.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    id::Seq,
    idempotency_key::{IdempotentRequest, KEPT_MS},
    retention::Past,
    row::Row,
};

use crate::world::{World, event, payload, request};

fn asked(world: &World, id: &str, hash: &str) -> IdempotentRequest {
    IdempotentRequest { ws: world.ws.clone(), id: id.to_owned(), hash: hash.to_owned() }
}

fn once(asked: IdempotentRequest, command: Command) -> Command {
    Command::Once { asked, command: Box::new(command) }
}

fn posting(world: &World, name: &str) -> Command {
    Command::Post { ws: world.ws.clone(), events: vec![event(name, &json!({}))] }
}

/// Returns the stored answer of a repeat.
async fn again(world: &World, command: Command) -> Answer {
    match world.run(command).await {
        Ok(Answer::Again(answer)) => *answer,
        other => panic!("unexpected answer to a repeat: {other:?}"),
    }
}

/// spec B225, B227: a repeat gets the first answer, for 24 hours; a different request with the same
/// key is refused.
pub async fn a_repeated_request_takes_place_once(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let ask = |world: &World, hash: &str| once(asked(world, "k", hash), posting(world, "order"));
    let first = world.run(ask(world, "h")).await.unwrap();
    assert!(matches!(first, Answer::Posted(_)), "{first:?}");
    assert_eq!(again(world, ask(world, "h")).await, first);
    assert_eq!(world.run(ask(world, "other")).await, Err(Refusal::KeyReused));
    let both = world.batch(vec![ask(world, "h"), ask(world, "h")]).await;
    let answer = Ok(Answer::Again(Box::new(first.clone())));
    assert_eq!(
        both,
        [answer.clone(), answer],
        "a repeat in one transaction must get the same answer"
    );
    assert_eq!(world.alive("order").await, 1);
    let elsewhere = world.in_workspace("elsewhere");
    elsewhere.define(json!({ "name": "order" })).await;
    let answer = elsewhere.run(ask(&elsewhere, "h")).await.unwrap();
    assert!(
        matches!(answer, Answer::Posted(_)),
        "keys of two workspaces are not independent: {answer:?}"
    );
    world.pass(KEPT_MS - 1);
    assert_eq!(again(world, ask(world, "h")).await, first);
    world.pass(1);
    let late = world.run(ask(world, "other")).await.unwrap();
    assert!(matches!(late, Answer::Posted(_)), "the key must be free after 24 hours: {late:?}");
    assert_eq!(
        world.alive("order").await,
        3,
        "expected three runs, one of them in the other workspace"
    );
}

/// spec B226, B228: of two concurrent requests with the same key, one is executed, on whichever
/// engines they arrive.
pub async fn of_requests_at_once_one_takes_place(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let other = world.engine(0xb);
    for n in 0..10 {
        let ask = || once(asked(world, &format!("k{n}"), "h"), posting(world, "order"));
        let (one, two) = tokio::join!(world.run(ask()), other.run(ask()));
        let reply = |answer: Answer| match answer {
            Answer::Again(first) => (true, *first),
            first => (false, first),
        };
        let ((late, one), (early, two)) = (reply(one.unwrap()), reply(two.unwrap()));
        assert_eq!(one, two);
        assert!(late ^ early, "exactly one request must be executed");
    }
    assert_eq!(world.alive("order").await, 10);
}

/// spec B225: every kind of answer is repeated unchanged.
pub async fn every_answer_comes_back_as_it_was(world: &World) {
    for (name, controls) in [
        ("plain", json!({})),
        ("one", json!({ "singleton": { "mode": "cancel" } })),
        ("skips", json!({ "singleton": { "mode": "skip" } })),
        ("line", json!({ "concurrency": { "limit": 1, "key": "who" } })),
        ("window", json!({ "debounce": { "periodMs": 1000 } })),
        ("buffer", json!({ "batch": { "maxSize": 9, "timeoutMs": 1000 } })),
        ("few", json!({ "rateLimit": { "limit": 1, "perMs": 60_000 } })),
        ("known", json!({ "idempotency": { "key": "who", "periodMs": 60_000 } })),
    ] {
        let mut definition = json!({ "name": name, "triggers": [{ "event": "all" }] });
        definition.as_object_mut().unwrap().extend(controls.as_object().unwrap().clone());
        world.define(definition).await;
    }
    for n in 0..2 {
        let ask = || once(asked(world, &format!("all{n}"), "h"), posting(world, "all"));
        let first = world.run(ask()).await.unwrap();
        assert_eq!(
            again(world, ask()).await,
            first,
            "the repeat must get all verdicts, keys and times of the first answer"
        );
    }
    let run = world.drain().await[0];
    let ws = || world.ws.clone();
    let commands = [
        Command::Replay { ws: ws(), run, input: None, from_step: None, function_key: None },
        Command::Release { ws: ws(), app: "default".into(), name: "plain".into(), version: 1 },
    ];
    for (n, command) in commands.into_iter().enumerate() {
        let ask = || once(asked(world, &format!("c{n}"), "h"), command.clone());
        let first = world.run(ask()).await.unwrap();
        assert_eq!(again(world, ask()).await, first);
    }
}

/// spec N81: a refused request has no effect, and its key stays free until a caller stores the
/// refusal as the answer.
pub async fn a_refused_request_leaves_its_key_free(world: &World) {
    let flow = json!({ "name": "shop", "actions": { "buy": { "concurrency": "reject" } } });
    world.define_flow(flow).await;
    let buy = || Command::Dispatch {
        ws: world.ws.clone(),
        request: request("shop", "buy", Some("s"), None, &json!({})),
    };
    let ask = |id: &str| once(asked(world, id, "h"), buy());
    let first = world.run(ask("a")).await.unwrap();
    let refused = world.run(ask("b")).await.unwrap();
    assert!(matches!(refused, Answer::Admitted(_)), "{refused:?}");
    let run = world.lease_one().await;
    world.complete(&run).await;
    let late = world.run(ask("b")).await.unwrap();
    assert!(matches!(&late, Answer::Admitted(it) if it.verdict.run().is_some()), "{late:?}");
    assert_eq!(again(world, ask("a")).await, first, "the repeat must get the stored answer");
}

/// spec B226: the first stored answer counts, but an answer without effect never replaces the one
/// of an executed request.
pub async fn the_first_word_is_kept(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let keep = |id: &str, said: &str, done| Command::Keep {
        asked: asked(world, id, "h"),
        response: payload(&json!(said)),
        done,
    };
    let kept = |said: &str| Ok(Answer::Kept(payload(&json!(said))));
    assert_eq!(world.run(keep("a", "no", false)).await, kept("no"));
    assert_eq!(world.run(keep("a", "yes", false)).await, kept("no"));
    let ask = |id: &str| once(asked(world, id, "h"), posting(world, "order"));
    assert_eq!(
        world.run(ask("a")).await,
        Err(Refusal::InProgress),
        "a request with a stored refusal was executed"
    );
    let first = world.run(ask("b")).await.unwrap();
    assert_eq!(
        world.run(keep("b", "no", false)).await,
        kept("no"),
        "the refusal must be returned, but not stored"
    );
    assert_eq!(world.run(keep("b", "yes", true)).await, kept("yes"));
    assert_eq!(world.run(keep("b", "later", true)).await, kept("yes"));
    assert_eq!(again(world, ask("b")).await, first);
    assert_eq!(world.alive("order").await, 1);
}

/// spec B227: answers are deleted 24 hours after the request, unless the key was used again
/// meanwhile.
pub async fn old_answers_go(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for id in ["a", "b", "c"] {
        world.run(once(asked(world, id, "h"), posting(world, "order"))).await.unwrap();
    }
    world.pass(KEPT_MS);
    world.run(once(asked(world, "b", "h"), posting(world, "order"))).await.unwrap();
    let before = world.now().minus_ms(KEPT_MS).plus_ms(1);
    let mut after = Some(Seq(i64::MIN));
    while let Some(from) = after {
        let part = Command::Forget { past: Past::Replies, before, after: from, most: 2 };
        let Ok(Answer::Forgotten(done)) = world.run(part).await else { panic!("not answered") };
        after = done.next;
    }
    let id = |row: Row| if let Row::Reply(it) = row { Some(it.id) } else { None };
    let left: Vec<_> = world.dump().await.into_iter().filter_map(id).collect();
    assert_eq!(left, ["b"]);
}
