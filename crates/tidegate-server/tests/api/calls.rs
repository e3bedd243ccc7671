//! Workflows without code in the engine: each run is a durable call of a URL.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::StatusCode;
use serde_json::json;
use sha2::Sha256;
use tidegate_core::time::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{server::Server, target::Target};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A run posts its event to the URL. Headers name the run, and the idempotency key is the same for
/// every attempt. The response becomes the run's output, byte for byte.
#[tokio::test]
async fn a_run_is_one_call() {
    let target = Target::start(|_, _| (200, vec![JSON], r#"{ "n": 1.10 }"#.to_owned())).await;
    let url = &target.url;
    let server = Server::start(&format!("[[workflow]]\nname = \"sync\"\nurl = \"{url}/sync?a=1\""));
    let run = server.start_run("sync", json!({ "account": 7 })).await;
    server.until(&run, "completed").await;
    let text = server.text(&format!("/runs/{run}")).await;
    assert!(text.contains(r#""output":{ "n": 1.10 }"#), "{text}");
    let [call] = &target.calls()[..] else { panic!("it is called once") };
    assert_eq!((call.path.as_str(), call.body.as_str()), ("/sync", r#"{"account":7}"#));
    assert_eq!(call.header("idempotency-key"), format!("{run}:call"));
    assert_eq!(call.header("tidegate-run"), run);
    assert_eq!((call.header("tidegate-workflow"), call.header("tidegate-attempt")), ("sync", "1"));
}

/// A server with signing secrets signs each attempt of a call as in Standard Webhooks, with every
/// secret.
#[tokio::test]
async fn calls_are_signed() {
    let target = Target::kind().await;
    let config = format!("[[workflow]]\nname = \"a\"\nurl = \"{}\"", target.url);
    let server = Server::start_with(&config, &[("TIDEGATE_SIGNING_SECRET", "whsec_YWJj,old")]);
    let run = server.start_run("a", json!({ "n": 1 })).await;
    server.until(&run, "completed").await;
    let [call] = &target.calls()[..] else { panic!("it is called once") };
    let (id, at) = (call.header("webhook-id"), call.header("webhook-timestamp"));
    assert_eq!(id, format!("{run}:call"));
    let signed = format!("{id}.{at}.{}", call.body);
    let signatures = [b"abc", b"old"].map(|secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(signed.as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    });
    assert_eq!(call.header("webhook-signature"), signatures.join(" "));
}

/// A call that gets 5xx or 429 is retried as the definition says, with the same idempotency key.
/// Any other error status fails the run.
#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let target = Target::start(|call, before| match (call.path.as_str(), before) {
        ("/flaky", 0) => (500, vec![], "no".to_owned()),
        ("/flaky", 1) => (429, vec![("retry-after", "0")], "slowly".to_owned()),
        ("/flaky", _) => (200, vec![], "done".to_owned()),
        ("/moved", _) => (302, vec![("location", "/flaky")], String::new()),
        _ => (404, vec![], "nobody here".to_owned()),
    });
    let target = target.await;
    let workflow = |name: &str| {
        format!(
            "[[workflow]]\nname = \"{name}\"\nurl = \"{}/{name}\"\n\
                 retry = {{ maxAttempts = 3, backoffMs = 1 }}\n",
            target.url
        )
    };
    let server = Server::start(&["flaky", "moved", "gone"].map(workflow).concat());
    let run = server.start_run("flaky", json!(1)).await;
    assert_eq!(server.until(&run, "completed").await["output"], "done");
    let calls = target.calls();
    let attempts: Vec<_> = calls.iter().map(|call| call.header("tidegate-attempt")).collect();
    assert_eq!(attempts, ["1", "2", "3"]);
    assert!(calls.iter().all(|call| call.header("idempotency-key") == format!("{run}:call")));
    for (name, said) in [("gone", "404 Not Found: nobody here"), ("moved", "302 Found")] {
        let run = server.start_run(name, json!(1)).await;
        let answer = server.until(&run, "failed").await;
        assert_eq!(answer["error"]["code"], "CallRefused");
        assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{answer}");
    }
    assert_eq!(
        target.calls().len(),
        5,
        "wrong number of calls: a final error was retried or a redirect followed"
    );
}

/// A call is retried for every temporary error status, with the same idempotency key.
#[tokio::test]
async fn every_answer_that_may_pass_is_tried_again() {
    let statuses = [408, 425, 429, 500, 502, 503, 504];
    let target = Target::start(move |_, before| {
        let status = statuses.get(before).copied().unwrap_or(200);
        (status, vec![("retry-after", "0")], String::new())
    });
    let target = target.await;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"w\"\nurl = \"{}\"\nretry = {{ maxAttempts = 8, backoffMs = 1 }}\n",
        target.url
    ));
    let run = server.start_run("w", json!(1)).await;
    server.until(&run, "completed").await;
    let keys = target.calls().into_iter().map(|it| it.header("idempotency-key").to_owned());
    assert_eq!(keys.collect::<Vec<_>>(), vec![format!("{run}:call"); statuses.len() + 1]);
}

/// The error of an unreachable service has the cause but not the URL: the URL may contain a secret,
/// and everyone who can read runs would see it.
#[tokio::test]
async fn the_error_of_a_call_holds_no_url() {
    // A free port on which no process listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"w\"\nurl = \"http://{free}/?token=hush\"\n\
         retry = {{ maxAttempts = 1 }}\n"
    ));
    let run = server.start_run("w", json!(1)).await;
    let reply = server.until(&run, "failed").await;
    assert_eq!(reply["error"]["code"], "CallFailed", "{reply}");
    assert!(!reply.to_string().contains("hush"), "{reply}");
    assert!(!server.log().contains("hush"), "{}", server.log());
}

/// The runs of a killed server continue in the next one. Calls without an answer are repeated with
/// the same idempotency key; calls with a recorded answer are not.
#[tokio::test]
async fn a_killed_server_loses_nothing() {
    let target = Target::kind().await;
    let url = &target.url;
    let mut server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}/sync\"\nconcurrency = {{ limit = 1 }}"
    ));
    let first = server.start_run("sync", json!(0)).await;
    server.until(&first, "completed").await;
    target.open(false);
    let mut runs = vec![first];
    for n in 1..4 {
        runs.push(server.start_run("sync", json!(n)).await);
    }
    target.called(2).await;
    server.crash_and_restart();
    target.open(true);
    for run in &runs {
        server.until(run, "completed").await;
    }
    let keys: Vec<_> =
        target.calls().iter().map(|call| call.header("idempotency-key").to_owned()).collect();
    let expected = [0, 1, 1, 2, 3].map(|n: usize| format!("{}:call", runs[n]));
    assert_eq!(keys, expected);
}

/// A changed definition becomes a new version, while running runs keep the old one. An invalid
/// definition has no effect.
#[tokio::test]
async fn a_definition_can_change_while_it_runs() {
    let target = Target::kind().await;
    let server = Server::start("");
    let definition = |path: &str| json!({ "url": format!("{}/{path}", target.url) });
    let (status, answer) = server.put("/workflows/sync", definition("one")).await;
    assert_eq!((status, &answer["version"]), (StatusCode::OK, &json!(1)));
    target.open(false);
    let old = server.start_run("sync", json!(1)).await;
    target.called(1).await;
    let (_, answer) = server.put("/workflows/sync", definition("two")).await;
    assert_eq!(answer["version"], 2);
    let (_, answer) = server.put("/workflows/sync", definition("two")).await;
    assert_eq!((&answer["version"], &answer["unchanged"]), (&json!(2), &json!(true)));
    let bad = json!({ "url": "ftp://x", "throttle": { "limit": 0 } });
    let (status, answer) = server.put("/workflows/sync", bad).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("bad_definition"))
    );
    assert_eq!(answer["problems"].as_array().unwrap().len(), 3, "{answer}");
    let new = server.start_run("sync", json!(1)).await;
    target.called(2).await;
    target.open(true);
    assert_eq!(server.until(&old, "completed").await["version"], 1);
    assert_eq!(server.until(&new, "completed").await["version"], 2);
    let paths: Vec<_> = target.calls().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/one", "/two"]);
    let (_, answer) = server.post("/workflows/sync/release", json!({ "version": 1 })).await;
    assert_eq!(answer["version"], 1);
    let (_, answer) = server.get("/workflows/sync").await;
    assert_eq!((&answer["version"], &answer["versions"]), (&json!(1), &json!([1, 2])));
}

/// Addresses of private networks are refused, except loopback.
#[tokio::test]
async fn private_addresses_are_not_called() {
    let config = ["10.0.0.1", "[::ffff:10.0.0.1]", "169.254.169.254"]
        .map(|host| format!("[[workflow]]\nname = \"{host}\"\nurl = \"http://{host}/x\"\n"));
    let server = Server::start(&config.concat());
    for host in ["10.0.0.1", "[::ffff:10.0.0.1]", "169.254.169.254"] {
        let run = server.start_run(host, json!(1)).await;
        assert_eq!(server.until(&run, "failed").await["error"]["code"], "PrivateAddress");
    }
}

/// The `Retry-After` of a service replaces the backoff of the definition, also if it is 0 or a past
/// date. A date in the far future is limited to the maximum.
#[tokio::test]
async fn a_service_says_when_to_be_called_again() {
    let target = Target::start(|call, _| match call.path.as_str() {
        "/soon" if call.header("tidegate-attempt") == "1" => {
            (503, vec![("retry-after", "0")], String::new())
        }
        "/past" if call.header("tidegate-attempt") == "1" => {
            (503, vec![("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], String::new())
        }
        "/late" => (429, vec![("retry-after", "99999999999999999999")], String::new()),
        "/date" => (429, vec![("retry-after", "Thu, 06 Nov 2194 08:49:37 GMT")], String::new()),
        _ => (200, vec![], String::new()),
    })
    .await;
    let workflow = |name: &str| {
        let retry = "retry = { maxAttempts = 3, backoffMs = 3600000, maxBackoffMs = 3600000 }";
        format!("[[workflow]]\nname = \"{name}\"\nurl = \"{}/{name}\"\n{retry}\n", target.url)
    };
    let server = Server::start(&["soon", "past", "late", "date"].map(workflow).concat());
    for name in ["soon", "past"] {
        let run = server.start_run(name, json!(1)).await;
        server.until(&run, "completed").await;
    }
    for name in ["late", "date"] {
        let run = server.start_run(name, json!(1)).await;
        let answer = server.until(&run, "waiting").await;
        let at = |text: &serde_json::Value| {
            let text = text.as_str().unwrap_or_else(|| panic!("{answer}"));
            Timestamp::parse_rfc3339(text).unwrap()
        };
        let wait = at(&answer["dueAt"]).micros() - at(&answer["queuedAt"]).micros();
        let day = 24 * 60 * 60 * 1_000_000;
        assert!((day..day + 3_600_000_000).contains(&wait), "{name}: {answer}");
    }
}

/// spec N30: a host name is checked by the addresses to which it resolves, not by its spelling.
#[tokio::test]
async fn a_name_of_this_machine_is_a_private_address() {
    let target = Target::kind().await;
    let port = target.url.rsplit(':').next().unwrap();
    let config = |allowed: &str| {
        format!(
            "allowPrivate = \"{allowed}\"\n[[workflow]]\nname = \"a\"\n\
             url = \"http://localhost:{port}/a\"\nretry = {{ maxAttempts = 1 }}"
        )
    };
    let server = Server::start(&config("none"));
    let run = server.start_run("a", json!(1)).await;
    let answer = server.until(&run, "failed").await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("`localhost` is a private network address"), "{answer}");
    assert_eq!(target.calls().len(), 0, "nothing was sent");
    let server = Server::start(&config("loopback"));
    let run = server.start_run("a", json!(1)).await;
    server.until(&run, "completed").await;
}

/// A non-ASCII workflow name is sent unchanged in the header.
#[tokio::test]
async fn a_workflow_of_any_name_can_be_called() {
    let target = Target::kind().await;
    let server =
        Server::start(&format!("[[workflow]]\nname = \"größe\"\nurl = \"{}\"", target.url));
    let run = server.start_run("größe", json!(1)).await;
    server.until(&run, "completed").await;
    let [call] = &target.calls()[..] else { panic!("it is called once") };
    assert_eq!(call.headers["tidegate-workflow"].as_bytes(), "größe".as_bytes());
}

/// Service that answers each connection with the next of these texts and closes it.
async fn answering(answers: &'static [&'static str]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                socket.read_buf(&mut request).await.unwrap();
            }
            socket.write_all(answer.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
        }
    });
    url
}

/// A call whose event stream was cut off is retried, whether or not the framing reveals it. A
/// complete stream is not.
#[tokio::test]
async fn a_stream_that_breaks_off_is_tried_again() {
    let url = answering(&[
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: output\ndata: 0",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
         \r\n9\r\ndata: 2\n\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\n\
         event: output\ndata: 3\n\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 4\n\n\
         event: output\ndata: 5\n\n",
    ]);
    let workflow = |name: &str, url: &str| {
        format!(
            "[[workflow]]\nname = \"{name}\"\nurl = \"{url}\"\n\
             retry = {{ maxAttempts = 6, backoffMs = 1 }}\n"
        )
    };
    // This stream has no `output` event, but is complete: the response has a length.
    let whole = answering(&["HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                             content-length: 9\r\n\r\ndata: 1\n\n"]);
    let (url, whole) = (url.await, whole.await);
    let server = Server::start(&(workflow("cut", &url) + &workflow("whole", &whole)));
    let run = server.start_run("cut", json!({})).await;
    let answer = server.until(&run, "completed").await;
    assert_eq!(answer["output"], 5, "{answer}");
    let text = server.follow(&format!("/runs/{run}/stream"), "event: end", || ()).await;
    let chunks: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(
        chunks[..3],
        ["1", "2", "4"],
        "the chunks of both attempts must be in the stream: {text}"
    );
    let run = server.start_run("whole", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!(null));
}

/// A service that answers 429 or 503 with `Retry-After` closes the gate that `onTooMany` names: the
/// next run does not call, and the run that was refused is repeated without using up an attempt.
#[tokio::test]
async fn a_service_that_refuses_calls_closes_a_gate() {
    let soon = httpdate::fmt_http_date(std::time::SystemTime::now());
    let soon: &'static str = soon.leak();
    let target = Target::start(|call, _| match call.path.as_str() {
        "/long" => (429, vec![("retry-after", "3600")], String::new()),
        "/date" => (503, vec![("retry-after", "Thu, 06 Nov 2194 08:49:37 GMT")], String::new()),
        _ => (200, Vec::new(), String::new()),
    })
    .await;
    let refusals = Target::start(move |_, before| match before {
        0 => (503, vec![("retry-after", soon)], String::new()),
        1 => (429, vec![("retry-after", "1")], String::new()),
        _ => (200, Vec::new(), String::new()),
    })
    .await;
    let (long, short) = (format!("{}/long", target.url), &refusals.url);
    let config = format!(
        "[[pool]]\nname = \"openai\"\nconcurrency = {{ limit = 5 }}\n\n\
         [[workflow]]\nname = \"chat\"\nurl = \"{long}\"\nconcurrency = {{ pool = \"openai\" }}\n\
         onTooMany = {{ close = \"pool:openai\" }}\n\n\
         [[workflow]]\nname = \"index\"\nurl = \"{}\"\nconcurrency = {{ pool = \"openai\" }}\n\n\
         [[workflow]]\nname = \"mail\"\nurl = \"{short}\"\nconcurrency = {{ limit = 2 }}\n\
         retry = {{ maxAttempts = 1 }}\nonTooMany = {{ close = \"concurrency\" }}\n\n\
         [[workflow]]\nname = \"later\"\nurl = \"{}/date\"\nconcurrency = {{ limit = 2 }}\n\
         onTooMany = {{ close = \"concurrency\", maxCloseMs = 60000 }}\n",
        target.url, target.url
    );
    let server = Server::start(&config);
    let refused = server.start_run("chat", json!({})).await;
    server.until(&refused, "waiting").await;
    let waiting = server.start_run("index", json!({})).await;
    let (_, why) = server.get(&format!("/runs/{waiting}/why")).await;
    assert_eq!(why["gates"][0]["closed"]["by"], refused, "{why}");
    let sentence = why["sentence"].as_str().unwrap();
    assert!(sentence.contains(&format!("closed by {refused} until ")), "{why}");
    let (_, page) = server.get("/gates?pool=openai").await;
    assert_eq!(page["gates"][0]["closed"]["by"], refused, "{page}");
    let (_, run) = server.get(&format!("/runs/{refused}/why")).await;
    let sentence = run["sentence"].as_str().unwrap();
    let words = "failed attempts: 0, attempts that have closed a gate: 1,";
    assert!(sentence.contains(words), "{run}");
    assert_eq!(target.calls().len(), 1, "no other run of the pool has called");
    let dated = server.start_run("later", json!({})).await;
    server.until(&dated, "waiting").await;
    let (_, page) = server.get("/gates?workflow=later").await;
    let closed = &page["gates"][0]["closed"];
    assert_eq!(closed["by"], dated, "{page}");
    let time = |name: &str| Timestamp::parse_rfc3339(closed[name].as_str().unwrap()).unwrap();
    let length = time("until").micros() - time("at").micros();
    assert_eq!(length, 60_000_000, "a date is at most `maxCloseMs` ahead: {page}");
    let repeated = server.start_run("mail", json!("first")).await;
    server.until(&repeated, "completed").await;
    let attempts: Vec<String> =
        refusals.calls().iter().map(|call| call.header("tidegate-attempt").to_owned()).collect();
    assert_eq!(attempts, ["1", "1", "1"], "no refusal is counted, although one attempt is allowed");
}

/// spec L28: the statuses 429 and 503 halve an adaptive limit, also without `Retry-After`, a
/// response raises it, and other failures change nothing.
#[tokio::test]
async fn outcomes_of_calls_move_an_adaptive_limit() {
    let target = Target::start(|call, _| {
        let status = call.body.trim_matches('"').parse().unwrap();
        (status, Vec::new(), String::new())
    })
    .await;
    let config = format!(
        "[[workflow]]\nname = \"ask\"\nurl = \"{}\"\nretry = {{ maxAttempts = 1 }}\n\
         concurrency = {{ limit = 8, adaptive = {{ min = 1, max = 16, cooldownMs = 1 }} }}\n",
        target.url
    );
    let server = Server::start(&config);
    for (status, state, limit, successes) in [
        ("200", "completed", 8, 1),
        ("500", "failed", 8, 1),
        ("429", "failed", 4, 0),
        ("200", "completed", 4, 1),
        ("503", "failed", 2, 0),
    ] {
        let run = server.start_run("ask", json!(status)).await;
        server.until(&run, state).await;
        let (_, page) = server.get("/gates?workflow=ask").await;
        let adaptive = &page["gates"][0]["adaptive"];
        let value = (&adaptive["limit"], &adaptive["successes"], &adaptive["max"]);
        assert_eq!(value, (&json!(limit), &json!(successes), &json!(16)), "{status}: {page}");
    }
}
