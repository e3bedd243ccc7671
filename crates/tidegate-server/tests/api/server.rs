//! Test server: a process of the real binary with its own store, and a client for it.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Read as _},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::pgbouncer;

/// A running server, its data, and a client.
pub(crate) struct Server {
    process: Child,
    url: String,
    client: Client,
    folder: TempDir,
    /// Environment variables of the first start, used again at restarts.
    variables: Vec<(String, String)>,
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "the reader of a failed test needs this output too")]
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the server has logged:\n{}", self.log());
        }
    }
}

/// Status of an answer, whether it has `Retry-After`, and its body.
pub(crate) type Answer = (StatusCode, bool, Value);

/// Test timeout. It is reached only if an expected event never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lease of test servers. A server that stalls for two fifths of its lease releases its runs, and
/// their calls are repeated; with this lease, a stall of three seconds does not cause that. After a
/// kill, tests wait until the lease has expired.
const LEASE_MS: &str = "8000";

impl Server {
    /// Starts a server on an empty store, with this configuration.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// Like `start`, with additional environment variables.
    pub(crate) fn start_with(config: &str, variables: &[(&str, &str)]) -> Self {
        Self::launch(tempfile::tempdir().unwrap(), config, variables)
    }

    /// Starts a server on an empty SQLite file, also if other tests use PostgreSQL.
    pub(crate) fn start_on_file(config: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), config)
    }

    /// Starts a server on the existing `tidegate.db` of a folder.
    pub(crate) fn start_in(folder: TempDir, config: &str) -> Self {
        std::fs::write(folder.path().join("store"), file_in(&folder)).unwrap();
        Self::launch(folder, config, &[])
    }

    fn launch(folder: TempDir, config: &str, variables: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(owned).collect();
        let (process, url) = spawn(command(&folder).envs(variables.clone()));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url, client, folder, variables }
    }

    /// Kills the server with SIGKILL, and starts another on the same data.
    pub(crate) fn crash_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts another server on the same data.
    pub(crate) fn restart(&mut self) {
        let variables = self.variables.clone();
        (self.process, self.url) = spawn(command(&self.folder).envs(variables));
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path of a file in the server's folder; the store is `tidegate.db`.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Sends a request that may take long. Returns the answer, if there is one.
    pub(crate) async fn try_ask(&self, path: &str, body: Option<String>) -> Option<Answer> {
        let url = format!("{}{path}", self.url);
        let request = match body.clone() {
            Some(body) => self.client.post(url).body(body),
            None => self.client.get(url),
        };
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let answer = request.send().await.ok()?;
        let retries = answer.headers().contains_key("retry-after");
        let (status, _, text) = described(&method, path, answer).await?;
        Some((status, retries, serde_json::from_str(&text).ok()?))
    }

    /// Replaces the config file and sends SIGHUP.
    pub(crate) fn reload(&self, config: &str) {
        std::fs::write(self.folder.path().join("tidegate.toml"), config).unwrap();
        self.signal("HUP");
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args([&format!("-{name}"), &self.process.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Waits until the process has exited by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the server never exits");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until the log contains a text.
    pub(crate) async fn logged(&self, text: &str) {
        let began = Instant::now();
        while !self.log().contains(text) {
            assert!(began.elapsed() < PATIENCE, "`{text}` is never logged");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<String>) -> (StatusCode, Value) {
        let request = self.client.request(method.clone(), format!("{}{path}", self.url));
        Self::answer(&method, path, body.into_iter().fold(request, RequestBuilder::body)).await
    }

    async fn answer(method: &Method, path: &str, request: RequestBuilder) -> (StatusCode, Value) {
        let answer = request.send().await.unwrap();
        let (status, kind, text) = described(method, path, answer).await.unwrap();
        let expected =
            if status.is_success() { "application/json" } else { "application/problem+json" };
        assert_eq!(kind, expected, "{path}");
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> (StatusCode, Value) {
        self.ask(Method::POST, path, Some(body.to_string())).await
    }

    /// Like `post`, with these headers.
    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (StatusCode, Value) {
        let mut request = self.client.post(format!("{}{path}", self.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let (status, _, text) = described(&Method::POST, path, answer).await.unwrap();
        (status, serde_json::from_str(&text).unwrap())
    }

    /// Sends a request and returns the head of the answer, whose body is streamed.
    pub(crate) async fn open(&self, path: &str, body: String) -> Response {
        self.client.post(format!("{}{path}", self.url)).body(body).send().await.unwrap()
    }

    pub(crate) async fn put(&self, path: &str, body: impl ToString) -> (StatusCode, Value) {
        self.ask(Method::PUT, path, Some(body.to_string())).await
    }

    /// Changes a session; as a step of a run, if one is given.
    pub(crate) async fn patch(
        &self,
        path: &str,
        run: Option<&str>,
        body: Value,
    ) -> (StatusCode, Value) {
        let request = self.client.patch(format!("{}{path}", self.url)).body(body.to_string());
        let named = run.into_iter().fold(request, |it, run| it.header("tidegate-run", run));
        Self::answer(&Method::PATCH, path, named).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::DELETE, path, None).await
    }

    /// Posts a body. Returns the status of the answer, if there is one.
    pub(crate) async fn try_post(&self, path: &str, body: String) -> Option<StatusCode> {
        let request = self.client.post(format!("{}{path}", self.url)).body(body);
        request.send().await.ok().map(|answer| answer.status())
    }

    /// Returns the full text of an answer that is not a JSON document.
    pub(crate) async fn text(&self, path: &str) -> String {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap().text().await.unwrap()
    }

    /// Returns the full text of an event stream. Calls `then` once the text contains `mark`.
    pub(crate) async fn follow(&self, path: &str, mark: &str, then: impl FnOnce()) -> String {
        let request = self.client.get(format!("{}{path}", self.url));
        let (mut answer, mut text) = (request.send().await.unwrap(), String::new());
        let mut then = Some(then);
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text += std::str::from_utf8(&chunk).unwrap();
            if text.contains(mark)
                && let Some(then) = then.take()
            {
                then();
            }
        }
        text
    }

    /// Returns the text of an event stream until it contains `mark`. Calls `then` once the stream
    /// has started.
    pub(crate) async fn read_along(
        &self,
        path: &str,
        last: Option<&str>,
        mark: &str,
        then: impl AsyncFnOnce(),
    ) -> String {
        let mut request = self.client.get(format!("{}{path}", self.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let (mut answer, mut text) = (request.send().await.unwrap(), String::new());
        then().await;
        // One timeout for the whole read: a stalled stream still sends keep-alive comments, so a
        // timeout per chunk would never expire.
        let end = tokio::time::Instant::now() + PATIENCE;
        while !text.contains(mark) {
            let chunk = tokio::time::timeout_at(end, answer.chunk()).await;
            let chunk =
                chunk.unwrap_or_else(|_| panic!("`{mark}` never came in the stream: `{text}`"));
            text += std::str::from_utf8(&chunk.unwrap().expect("the stream must not end")).unwrap();
        }
        text
    }

    /// Runs a command of the binary against this server; returns its output or its error.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.env_clear().env("TIDEGATE_URL", &self.url).args(arguments);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Posts an event that creates one run; returns the run's id.
    pub(crate) async fn start_run(&self, name: &str, data: Value) -> String {
        let event = serde_json::json!({ "name": name, "data": data });
        let (status, answer) = self.post("/events", event).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        answer["events"][0]["runs"][0]["runId"].as_str().expect("a run").to_owned()
    }

    /// Waits until a run has this state. Returns the run.
    pub(crate) async fn until(&self, run: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let (_, answer) = self.get(&format!("/runs/{run}")).await;
            if answer["state"] == state {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "{run} never has state {state}: {answer}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Server {
    /// Returns the error output of a server that refuses to start with this configuration.
    pub(crate) fn refused(config: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let output = command(&folder).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success(), "the server must refuse to start");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Raw HTTP answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Raw {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Server {
    /// Starts a server on an existing store; its log goes to a file.
    pub(crate) fn start_on(store: &str, config: &str, log: &std::path::Path) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let log = std::fs::File::create(log).unwrap();
        let mut command = command_on(&folder, store);
        let (process, url) = spawn(command.env("TIDEGATE_LOG", "debug").stderr(log));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url, client, folder, variables: Vec::new() }
    }

    /// Starts a server whose log goes into a pipe without a reader.
    pub(crate) fn start_unread(config: &str, level: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let mut command = command(&folder);
        let (process, url) = spawn(command.env("TIDEGATE_LOG", level).stderr(Stdio::piped()));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url, client, folder, variables: Vec::new() }
    }

    /// Returns the number of unread bytes in the log pipe, after the server has exited.
    pub(crate) fn unread(&mut self) -> usize {
        let mut log = Vec::new();
        self.process.stderr.take().unwrap().read_to_end(&mut log).unwrap();
        log.len()
    }

    /// Starts a server on a store without waiting until it listens.
    pub(crate) fn begin(store: &str, config: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        // A port that is free now: the server prints its own port only after the start.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = command_at(&folder, store, &free.to_string());
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url: format!("http://{free}"), client, folder, variables: Vec::new() }
    }

    /// Waits until the server accepts requests.
    pub(crate) async fn ready(&self) {
        let began = Instant::now();
        loop {
            let (status, answer) = self.get("/ready").await;
            if status == StatusCode::OK {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the server is never ready: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the server with SIGKILL while clients are connected.
    pub(crate) fn crash(&self) {
        let killed = Command::new("kill").args(["-9", &self.process.id().to_string()]).status();
        assert!(killed.unwrap().success());
    }

    /// Sends a raw request. Returns the answer, if there is one.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Raw> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body.to_owned()).send().await.ok()?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        // The body is not read to its end: an event stream may be endless.
        let endless = headers.get("content-type").is_some_and(|it| it == "text/event-stream");
        let text = if endless { String::new() } else { described(&method, path, answer).await?.2 };
        Some(Raw { status, headers, text })
    }
}

/// Returns status, content type and text of an answer, after comparing it with the OpenAPI
/// document.
async fn described(
    method: &Method,
    path: &str,
    answer: Response,
) -> Option<(StatusCode, String, String)> {
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap());
    let (status, kind) = (answer.status(), kind.unwrap_or_default().to_owned());
    let text = answer.text().await.ok()?;
    crate::described::check(method.as_str(), path, status.as_u16(), &kind, &text);
    Some((status, kind, text))
}

fn command(folder: &TempDir) -> Command {
    let at = |name: &str| folder.path().join(name).display().to_string();
    let config = std::fs::read_to_string(at("tidegate.toml")).unwrap();
    // If the configuration names a store, the server uses it.
    let named = config.strip_prefix("store = \"").and_then(|rest| rest.split_once('"'));
    let own = own_store(folder);
    command_on(folder, named.map_or(&own, |(store, _)| store))
}

/// Returns the default store of test servers: a file. With `TIDEGATE_TEST_SERVER=postgres` it is a
/// database per server, which a restart uses again; with `TIDEGATE_TEST_SERVER=pgbouncer` the
/// server connects to that database through a pooler.
fn own_store(folder: &TempDir) -> String {
    let note = folder.path().join("store");
    if let Ok(known) = std::fs::read_to_string(&note) {
        return known;
    }
    let store = match std::env::var("TIDEGATE_TEST_SERVER") {
        Ok(store) if store == "postgres" => crate::postgres::database_now().expect("a PostgreSQL"),
        Ok(store) if store == "pgbouncer" => {
            let database = crate::postgres::database_now().expect("a PostgreSQL");
            crate::postgres::through(pgbouncer::url().expect("a PgBouncer"), &database)
        }
        _ => file_in(folder),
    };
    std::fs::write(note, &store).unwrap();
    store
}

fn file_in(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("tidegate.db").display())
}

fn command_on(folder: &TempDir, store: &str) -> Command {
    command_at(folder, store, "127.0.0.1:0")
}

fn command_at(folder: &TempDir, store: &str, listen: &str) -> Command {
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["serve", "--listen", listen, "--config", &at("tidegate.toml")])
        .args(["--store", store])
        .env_clear()
        .env("TIDEGATE_LEASE_TTL_MS", LEASE_MS)
        .env("TIDEGATE_LOG", "warn")
        .stderr(OpenOptions::new().create(true).append(true).open(at("log")).unwrap());
    if std::env::var("TIDEGATE_TEST_SERVER").is_ok_and(|it| it == "pgbouncer") {
        command.env("TIDEGATE_POSTGRES_POOLER", "true");
    }
    command
}

/// Returns the path of the log file, which is beside the server's configuration.
fn log_of(command: &Command) -> String {
    let config = command.get_args().skip_while(|it| *it != "--config").nth(1).unwrap();
    std::fs::read_to_string(std::path::Path::new(config).with_file_name("log")).unwrap_or_default()
}

fn spawn(command: &mut Command) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let Some(first) = lines.next() else {
        let (status, log) = (process.wait().unwrap(), log_of(command));
        panic!("the server ended before it listened, {status}; its log: {log}");
    };
    let first = first.unwrap();
    let (_, url) = first.split_once(" listening on ").expect("an address");
    (process, url.to_owned())
}
