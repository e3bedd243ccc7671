//! Authentication and authorization: API keys, read-only access, secrets in answers and logs.

use std::{fmt::Write as _, process::Command};

use expect_test::expect_file;
use serde_json::{Value, json};
use tidegate_core::time::Timestamp;

use crate::{server::Server, target::Target};

/// Runs `tidegate keys` on a SQLite file and returns its output.
pub(crate) fn keys(store: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().arg("keys").args(["--store", store]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns the method, path and required access of every operation.
fn operations(document: &Value) -> Vec<(String, String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(move |(method, answer)| {
            let needs = answer["x-needs"].as_str().unwrap();
            (method.to_uppercase(), path.clone(), needs.to_owned())
        })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
    all
}

/// spec N14 (OWASP API1 and API5): checks every operation with every kind of caller. The list of
/// operations comes from the server's OpenAPI document, and the required access of each is frozen
/// in a file.
#[tokio::test]
async fn every_operation_lets_in_whom_it_should() {
    let target = Target::kind().await;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("tidegate.db").display());
    let full = keys(&store, &["create", "--name", "full"]);
    let read = keys(&store, &["create", "--name", "read", "--read-only"]);
    let other = keys(&store, &["create", "--name", "other", "--workspace", "other"]);
    let gone = keys(&store, &["create", "--name", "gone"]);
    keys(&store, &["revoke", gone.split('_').nth(1).unwrap()]);
    let listed = keys(&store, &["list"]);
    assert!(listed.contains("other") && !listed.contains(&full), "{listed}");
    let log = folder.path().join("log");
    let url = &target.url;
    let config = format!("workspaces = [\"other\"]\n[[workflow]]\nname = \"a\"\nurl = \"{url}\"");
    let server = Server::start_on(&store, &config, &log);
    let bearer = |key: &str| format!("Bearer {key}");
    // A character that differs from the last one of the key.
    let last = if full.ends_with('0') { '1' } else { '0' };
    let unknown = format!("{}{last}", &full[..full.len() - 1]);
    let canary = "canary-in-the-payload";
    let event = json!({ "name": "a", "data": canary }).to_string();
    let headers = [("authorization", bearer(&full)), ("idempotency-key", canary.to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let posted = server.raw("POST", "/events", &headers, &event).await.unwrap();
    assert_eq!(posted.status, 202, "{}", posted.text);
    let run = posted.json()["events"][0]["runs"][0]["runId"].as_str().unwrap().to_owned();
    let document = server.raw("GET", "/openapi.json", &[], "").await.unwrap().json();
    let mut matrix = String::new();
    for (method, path, needs) in operations(&document) {
        writeln!(matrix, "{method} {path}: {needs}").unwrap();
        let at = path.replace("/runs/{id}", &format!("/runs/{run}"));
        let at = at.replace("{id}", "0000000000000000").replace(['{', '}'], "");
        let callers = [("none", ""), ("unknown", &*unknown), ("revoked", &*gone), ("read", &*read)];
        for (who, key) in callers.into_iter().chain([("other", &*other)]) {
            let shown = bearer(key);
            let headers: &[_] = if key.is_empty() { &[] } else { &[("authorization", &*shown)] };
            let body = if path.ends_with("/retry") { r#"{"from":"a"}"# } else { "" };
            let answer = server.raw(&method, &at, headers, body).await.unwrap();
            let status = answer.status;
            let reply = format!("{method} {path} for {who}: {status} {}", answer.text);
            assert!(!answer.text.contains(key) || key.is_empty(), "{reply}");
            match (needs.as_str(), who) {
                ("nothing", _) => assert!([200, 401, 404, 503].contains(&status), "{reply}"),
                (_, "none" | "unknown" | "revoked") => {
                    assert_eq!(
                        (status, answer.header("www-authenticate")),
                        (401, "Bearer"),
                        "{reply}"
                    );
                }
                ("full", "read") => assert_eq!(status, 403, "{reply}"),
                (_, "read") => assert!(![401, 403].contains(&status), "{reply}"),
                _ if path.starts_with("/runs/{id}") || path == "/keys/{id}" => {
                    assert_eq!(status, 404, "{reply}");
                }
                _ => {
                    assert!(![401, 403].contains(&status), "{reply}");
                    assert!(!answer.text.contains(&run), "{reply}");
                }
            }
        }
    }
    expect_file!["matrix.txt"].assert_eq(&matrix);
    revoked_and_never_shown(&server, &full, &read, &run).await;
    let said = std::fs::read_to_string(&log).unwrap();
    for secret in [&*full, &*read, &*other, &*gone, &*unknown, canary] {
        let secret = secret.rsplit('_').next().unwrap();
        assert!(!said.contains(secret), "the log contains a secret:\n{said}");
    }
}

/// A key can be revoked over HTTP, and a key in a URL is never accepted.
async fn revoked_and_never_shown(server: &Server, full: &str, read: &str, run: &str) {
    let shown = |key: &str| format!("Bearer {key}");
    let (all, look) = (shown(full), shown(read));
    let headers = [("authorization", all.as_str())];
    let path = format!("/runs/{run}?key={full}");
    assert_eq!(server.raw("GET", &path, &[], "").await.unwrap().status, 401);
    let elsewhere = [headers[0], ("tidegate-workspace", "other")];
    assert_eq!(server.raw("GET", "/runs", &elsewhere, "").await.unwrap().status, 404);
    let made = server.raw("POST", "/keys", &headers, r#"{"name":"new"}"#).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text);
    let new = shown(made.json()["key"].as_str().unwrap());
    let fresh = [("authorization", new.as_str())];
    assert_eq!(server.raw("GET", "/runs", &fresh, "").await.unwrap().status, 200);
    let listed = server.raw("GET", "/keys", &headers, "").await.unwrap();
    assert!(!listed.text.contains("hash") && listed.text.contains("\"new\""), "{}", listed.text);
    let id = read.split('_').nth(1).unwrap();
    let revoked = server.raw("DELETE", &format!("/keys/{id}"), &headers, "").await.unwrap();
    assert_eq!(revoked.status, 200, "{}", revoked.text);
    let began = std::time::Instant::now();
    while server.raw("GET", "/runs", &[("authorization", &look)], "").await.unwrap().status != 401 {
        assert!(began.elapsed().as_secs() < 60, "the revoked key is still accepted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A server without keys refuses cross-site requests, other host names, other content types and
/// public listen addresses, each with its code.
#[tokio::test]
async fn what_a_browser_could_be_made_to_send_is_refused() {
    let server = Server::start("workspaces = [\"other\"]");
    let event = r#"{"name":"a"}"#;
    let table: [(&str, (&str, &str), u16, &str); 11] = [
        ("POST", ("host", "evil.example"), 421, "wrong_host"),
        ("GET", ("host", "evil.example:7400"), 421, "wrong_host"),
        ("POST", ("origin", "https://evil.example"), 403, "cross_site"),
        ("POST", ("origin", "null"), 403, "cross_site"),
        ("POST", ("sec-fetch-site", "cross-site"), 403, "cross_site"),
        ("POST", ("content-type", "text/plain"), 415, "not_json"),
        ("POST", ("content-type", "application/json; charset=utf-8"), 202, ""),
        ("POST", ("content-type", "application/cloudevents+json"), 202, ""),
        ("POST", ("content-type", "application/x-www-form-urlencoded"), 202, ""),
        ("POST", ("tidegate-workspace", "other"), 202, ""),
        ("POST", ("tidegate-workspace", "nowhere"), 404, "no_workspace"),
    ];
    for (method, header, status, code) in table {
        let path = if method == "GET" { "/runs" } else { "/events" };
        let answer = server.raw(method, path, &[header], event).await.unwrap();
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.status, error.as_str()), (status, code), "{header:?}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
    assert_eq!(server.get("/health").await.0.as_u16(), 200);
    let mut open = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    open.env_clear().args(["serve", "--store", "memory", "--listen", "0.0.0.0:0"]);
    let said = String::from_utf8(open.output().unwrap().stderr).unwrap();
    assert!(said.contains("create one with `tidegate keys create`"), "{said}");
}

/// On the server that created it, a key is valid as soon as the answer with it is sent, and invalid
/// as soon as it is revoked. It is also invalid after its expiry.
#[tokio::test]
async fn a_key_counts_at_once_and_until_its_end() {
    let server = Server::start("");
    let made = server.raw("POST", "/keys", &[], r#"{"name":"first"}"#).await.unwrap();
    let bearer = |answer: &Value| format!("Bearer {}", answer["key"].as_str().unwrap());
    let full = bearer(&made.json());
    let none = server.raw("GET", "/runs", &[], "").await.unwrap();
    assert_eq!(
        none.status, 401,
        "once a key exists, requests without a key must be refused: {}",
        none.text
    );
    let get = async |key: &str| {
        server.raw("GET", "/runs", &[("authorization", key)], "").await.unwrap().status
    };
    let new_key = async |body: Value| {
        let headers = [("authorization", full.as_str())];
        server.raw("POST", "/keys", &headers, &body.to_string()).await.unwrap().json()
    };
    for n in 0..10 {
        // This request with an unknown key makes the server read the keys again, so its cache is
        // fresh.
        assert_eq!(get(&format!("Bearer tg_{n}_x")).await, 401);
        let made = new_key(json!({ "name": format!("k{n}") })).await;
        let key = bearer(&made);
        assert_eq!(get(&key).await, 200, "key {n} is new");
        let path = format!("/keys/{}", made["id"].as_str().unwrap());
        let headers = [("authorization", full.as_str())];
        assert_eq!(server.raw("DELETE", &path, &headers, "").await.unwrap().status, 200);
        assert_eq!(get(&key).await, 401, "revoked key {n} must be refused");
    }
    for (end, status) in [("2020-01-01T00:00:00Z", 401), ("2100-01-01T00:00:00Z", 200)] {
        let made = new_key(json!({ "name": end, "expiresAt": end })).await;
        assert_eq!(
            get(&bearer(&made)).await,
            status,
            "wrong status for a key that expires at {end}"
        );
    }
}

/// A key created on the command line expires after the given number of days.
#[tokio::test]
async fn a_key_lasts_for_its_days() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("tidegate.db").display());
    keys(&store, &["create", "--name", "a", "--expires-days", "2"]);
    let listed: Value = serde_json::from_str(&keys(&store, &["list", "--json"])).unwrap();
    let [made, end] = ["madeAt", "expiresAt"].map(|it| {
        Timestamp::parse_rfc3339(listed["keys"][0][it].as_str().unwrap()).unwrap().micros()
    });
    let days = (end - made + 3_600_000_000) / (24 * 3_600_000_000);
    assert_eq!(days, 2, "{listed}");
}

/// A key created on one server is valid on the others too.
#[tokio::test]
async fn a_new_key_opens_every_server_of_the_store() {
    let Some(store) = crate::postgres::database_now() else { return };
    let first_key = keys(&store, &["create", "--name", "first"]);
    let logs = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|it| Server::start_on(&store, "", &logs.path().join(it)));
    let full = format!("Bearer {first_key}");
    let headers = [("authorization", full.as_str())];
    for server in [&one, &two] {
        assert_eq!(server.raw("GET", "/runs", &headers, "").await.unwrap().status, 200);
    }
    let made = one.raw("POST", "/keys", &headers, r#"{"name":"new"}"#).await.unwrap().json();
    let new = format!("Bearer {}", made["key"].as_str().unwrap());
    let began = std::time::Instant::now();
    while two.raw("GET", "/runs", &[("authorization", &new)], "").await.unwrap().status != 200 {
        assert!(began.elapsed().as_secs() < 60, "the key never becomes valid on the other server");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The security page lists every operation that needs no key. The command `keys` accepts its
/// settings before and after its subcommand.
#[tokio::test]
async fn the_page_says_what_needs_no_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let matrix = include_str!("matrix.txt");
    let open = matrix.lines().filter_map(|line| line.strip_suffix(": nothing"));
    for operation in open {
        assert!(
            page.contains(&format!("`{operation}`")),
            "{operation} needs no key, but the security page does not list it: {page}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("tidegate.db").display());
    let mut behind = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    behind.env_clear().args(["keys", "create", "--name", "a", "--store", &store]);
    let output = behind.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(keys(&store, &["list"]).contains(" a "), "the key must be in the store of `--store`");
}
