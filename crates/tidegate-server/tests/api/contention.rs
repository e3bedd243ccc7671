//! Conflicts between requests, by policy, key and workspace.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, On},
    server::Server,
    target::Target,
};

/// Config of flows whose policies are written in every possible form.
fn flows(url: &str) -> String {
    format!(
        r#"
        workspaces = ["other"]

        [[flow]]
        name = "plain"
        actions.any = {{ url = "{url}" }}

        [[flow]]
        name = "bare"
        concurrency = "reject"
        actions.any = {{ url = "{url}" }}
        actions.also = {{ url = "{url}" }}
        actions.free = {{ url = "{url}", concurrency = "allow" }}
        actions.none = {{ url = "{url}", concurrency = {{ policy = "reject", key = "none" }} }}
        actions.order = {{ url = "{url}", concurrency = {{ policy = "reject", key = "input.order" }} }}

        [[flow]]
        name = "table"
        concurrency = {{ policy = "reject", key = "user" }}
        actions.any = {{ url = "{url}" }}
        actions.own = {{ url = "{url}", concurrency = "reject" }}
        "#
    )
}

/// A request: flow and action, session, user, input.
type Ask = (&'static str, &'static str, &'static str, Value);

/// Rows of the table: description, two requests, and whether they conflict. Each row has its own
/// keys.
#[rustfmt::skip]
fn table() -> Vec<(&'static str, Ask, Ask, bool)> {
    let no = Value::Null;
    let order = |id: Value| json!({ "order": id });
    vec![
        ("spec B1, B2, B4, B7: no policy",
            ("plain/any", "a", "u1", no.clone()), ("plain/any", "a", "u1", no.clone()), false),
        ("spec B6, B8, B22: the flow's policy as a name is keyed by session",
            ("bare/any", "b", "u2", no.clone()), ("bare/any", "b", "u3", no.clone()), true),
        ("all actions of the flow share the gate",
            ("bare/any", "c", "u2", no.clone()), ("bare/also", "c", "u2", no.clone()), true),
        ("spec B23: two sessions",
            ("bare/any", "d", "u2", no.clone()), ("bare/any", "e", "u2", no.clone()), false),
        ("spec B25: no session",
            ("bare/any", "", "u2", no.clone()), ("bare/any", "", "u2", no.clone()), false),
        ("spec B5: the action's own, which neither takes",
            ("bare/free", "f", "u2", no.clone()), ("bare/any", "f", "u2", no.clone()), false),
        ("nor sees the gate",
            ("bare/any", "g", "u2", no.clone()), ("bare/free", "g", "u2", no.clone()), false),
        ("spec B28: the key `none`",
            ("bare/none", "h", "u2", no.clone()), ("bare/none", "h", "u2", no.clone()), false),
        ("spec B29: a path, whatever the session",
            ("bare/order", "i", "", order(json!(1))), ("bare/order", "j", "", order(json!(1))), true),
        ("spec B29: another value, and another type",
            ("bare/order", "k", "", order(json!(2))), ("bare/order", "k", "", order(json!("2"))), false),
        ("spec B30: a missing path",
            ("bare/order", "l", "", order(no.clone())), ("bare/order", "l", "", no.clone()), false),
        ("a path is another gate than the session",
            ("bare/any", "m", "", no.clone()), ("bare/order", "x", "", order(json!("m"))), false),
        ("spec B8, B26: the flow's policy as a table: one user, two sessions",
            ("table/any", "n", "u4", no.clone()), ("table/any", "o", "u4", no.clone()), true),
        ("one session, two users",
            ("table/any", "p", "u5", no.clone()), ("table/any", "p", "u6", no.clone()), false),
        ("spec B25: no user",
            ("table/any", "q", "", no.clone()), ("table/any", "q", "", no.clone()), false),
        ("spec B5: the action's own policy replaces the key as well: by session",
            ("table/own", "r", "u7", no.clone()), ("table/own", "s", "u7", no.clone()), false),
        ("spec B5, B22: by session only",
            ("table/own", "t", "u8", no.clone()), ("table/own", "t", "u9", no.clone()), true),
    ]
}

/// Sends a request in a workspace. Returns whether it was admitted, and the run that the answer
/// names.
async fn ask(server: &Server, ws: &str, (to, session, user, input): &Ask) -> (bool, Value) {
    let (flow, action) = to.split_once('/').unwrap();
    let name = |name: &str| if name.is_empty() { Value::Null } else { name.into() };
    let body = json!({ "session": name(session), "user": name(user), "input": input });
    let path = format!("/flows/{flow}/actions/{action}");
    let headers = [("tidegate-workspace", ws)];
    let answer = server.raw("POST", &path, &headers, &body.to_string()).await.unwrap();
    assert!([202, 409].contains(&answer.status), "{}", answer.text);
    (answer.status == 202, answer.json()["requestId"].clone())
}

/// spec B1, B2, B4–B8, B22–B30: an action's policy completely replaces that of the flow; an action
/// without a policy has that of the flow, if it has one. Requests conflict if they have the same
/// session, or the same value of the policy's key: a path in the config file, or also a function in
/// a program. Requests without a value of the key do not conflict.
///
/// Requests in different workspaces do not conflict.
async fn requests_meet_by_policy_and_key(on: On) {
    let target = Target::kind().await;
    target.open(false);
    let Some(fleet) = Fleet::start(on, &flows(&target.url), &[]).await else { return };
    let other = [
        ("any", json!({ "flow": "bare", "url": target.url, "concurrency": "reject" })),
        (
            "own",
            json!({ "flow": "table", "url": target.url,
                    "concurrency": { "policy": "reject", "key": "user" } }),
        ),
    ];
    for (name, definition) in &other {
        let headers = [("tidegate-workspace", "other")];
        let path = format!("/workflows/{name}");
        let answer = fleet.next().raw("PUT", &path, &headers, &definition.to_string()).await;
        assert_eq!(answer.unwrap().status, 200);
    }
    for (what, first, second, meets) in &table() {
        let (taken, holder) = ask(fleet.next(), "default", first).await;
        assert!(taken, "{what}: {first:?}");
        let (taken, named) = ask(fleet.next(), "default", second).await;
        assert_eq!(taken, !meets, "wrong admission of the second request, {what}: {second:?}");
        assert_eq!(named == holder, *meets, "{what}");
    }
    for (what, ask_there) in [
        ("spec B24: the same session in another workspace", ("bare/any", "b", "u2", Value::Null)),
        ("spec B27: the same user in another workspace", ("table/own", "t", "u4", Value::Null)),
    ] {
        let (taken, holder) = ask(fleet.next(), "other", &ask_there).await;
        assert!(taken, "{what}");
        let (taken, named) = ask(fleet.next(), "other", &ask_there).await;
        assert_eq!(
            (taken, named),
            (false, holder),
            "{what}: the other workspace must have its own gate"
        );
    }
    target.open(true);
}

#[tokio::test]
async fn requests_meet_by_policy_and_key_on_a_file() {
    requests_meet_by_policy_and_key(On::File).await;
}

#[tokio::test]
async fn requests_meet_by_policy_and_key_on_two_servers() {
    requests_meet_by_policy_and_key(On::Postgres).await;
}

/// spec B3, B47: runs that concurrently change one session lose no update, with or without a
/// policy. A change with an outdated `expectedVersion` is refused.
async fn runs_that_write_together_lose_nothing(on: On) {
    let target = Target::kind().await;
    target.open(false);
    let Some(fleet) = Fleet::start(on, &flows(&target.url), &[]).await else { return };
    for (to, others) in [("plain/any", 3), ("bare/any", 0)] {
        let flow = to.split_once('/').unwrap().0;
        let mut runs = Vec::new();
        for _ in 0..=others {
            let (_, run) = ask(fleet.next(), "default", &(to, "s", "u", Value::Null)).await;
            runs.push(run.as_str().unwrap().to_owned());
        }
        for run in &runs {
            fleet.next().until(run, "running").await;
        }
        let path = format!("/sessions/{flow}/s");
        let change =
            |n: u32| json!({ "op": "increment", "path": "n", "by": 1, "step": n.to_string() });
        for n in 0..5 {
            // The session is changed concurrently by clients and by steps of every run.
            let outside = json!({ "op": "append", "path": "log", "value": n });
            let mine = async |at: usize| {
                let Some(run) = runs.get(at) else { return };
                let (status, answer) = fleet.next().patch(&path, Some(run), change(n)).await;
                assert_eq!(status, StatusCode::OK, "{answer}");
            };
            let (answer, ..) = tokio::join!(
                fleet.next().patch(&path, None, outside),
                mine(0),
                mine(1),
                mine(2),
                mine(3)
            );
            assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        }
        let (_, answer) = fleet.next().get(&path).await;
        let whole = json!({ "n": 5 * runs.len(), "log": [0, 1, 2, 3, 4] });
        assert_eq!((&answer["state"], &answer["version"]), (&whole, &json!(5 * runs.len() + 5)));
        let stale =
            json!({ "op": "set", "path": "n", "value": 0, "expectedVersion": 1, "step": "x" });
        let (status, answer) = fleet.next().patch(&path, Some(&runs[0]), stale).await;
        assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("session_changed")));
    }
    target.open(true);
}

#[tokio::test]
async fn runs_that_write_together_lose_nothing_on_a_file() {
    runs_that_write_together_lose_nothing(On::File).await;
}

#[tokio::test]
async fn runs_that_write_together_lose_nothing_on_two_servers() {
    runs_that_write_together_lose_nothing(On::Postgres).await;
}

/// spec B20, B21: an unknown policy or key is refused when it is defined, in the config file and
/// over HTTP, and the error says how to fix it. spec B48: a second server on the same file cannot
/// enforce a policy, so it does not start, and says why.
#[tokio::test]
async fn what_cannot_be_enforced_is_refused_at_the_start() {
    let server = Server::start_on_file("");
    let table = [
        (json!("serialize"), "has no value `serialize`: known are `allow`, `queue`"),
        (json!("rejct"), "did you mean `reject`?"),
        (json!({ "policy": "reject", "key": "sesion" }), "did you mean `session`?"),
        (json!({ "policy": "reject", "key": "tenant" }), "known are `session`, `user`, `none`"),
        (json!({ "policy": "debounce" }), "periodMs is required"),
    ];
    for (concurrency, said) in &table {
        let definition = json!({ "flow": "f", "url": "http://h", "concurrency": concurrency });
        let (status, answer) = server.put("/workflows/act", definition).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (422, &json!("bad_definition")),
            "{answer}"
        );
        assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
    }
    let actions = "actions.act = { url = \"http://h\", concurrency = \"serialize\" }";
    let said =
        Server::refused(&format!("[[flow]]\nname = \"f\"\nconcurrency = \"que\"\n{actions}"));
    for part in ["did you mean `queue`?", "has no value `serialize`"] {
        assert!(said.contains(part), "{said}");
    }
    let file = server.file("tidegate.db");
    let said = Server::refused(&format!("store = \"sqlite:{file}\""));
    assert!(said.contains("tidegate.db") && said.contains("another"), "{said}");
}
