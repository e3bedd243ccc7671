//! A server of one's own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

/// A running server, its data, and a client.
pub(crate) struct Server {
    process: Child,
    url: String,
    client: Client,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Longer than anything here takes; reached only if something never happens.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// Starts one on an empty file, with this in its configuration.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(config: &str, variables: &[(&str, &str)]) -> Self {
        Self::launch(tempfile::tempdir().unwrap(), config, variables)
    }

    /// Starts one on what is in a folder's `tidegate.db`.
    pub(crate) fn start_in(folder: TempDir, config: &str) -> Self {
        Self::launch(folder, config, &[])
    }

    fn launch(folder: TempDir, config: &str, variables: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let (process, url) = spawn(command(&folder).envs(variables.iter().copied()));
        Self { process, url, client: Client::builder().no_proxy().build().unwrap(), folder }
    }

    /// Kills it without a word, and starts another on the same data.
    pub(crate) fn crash_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        (self.process, self.url) = spawn(&mut command(&self.folder));
    }

    async fn ask(&self, method: Method, path: &str, body: Option<String>) -> (StatusCode, Value) {
        let request = self.client.request(method, format!("{}{path}", self.url));
        Self::answer(path, body.into_iter().fold(request, RequestBuilder::body)).await
    }

    async fn answer(path: &str, request: RequestBuilder) -> (StatusCode, Value) {
        let answer = request.send().await.unwrap();
        let (status, kind) = (answer.status(), answer.headers()["content-type"].clone());
        let expected =
            if status.is_success() { "application/json" } else { "application/problem+json" };
        assert_eq!(kind, expected, "{path}");
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> (StatusCode, Value) {
        self.ask(Method::POST, path, Some(body.to_string())).await
    }

    /// The same, with these headers.
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
        let status = answer.status();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// The beginning of an answer, whose rest comes later.
    pub(crate) async fn open(&self, path: &str, body: String) -> Response {
        self.client.post(format!("{}{path}", self.url)).body(body).send().await.unwrap()
    }

    pub(crate) async fn put(&self, path: &str, body: impl ToString) -> (StatusCode, Value) {
        self.ask(Method::PUT, path, Some(body.to_string())).await
    }

    /// A change, as a step of a run if one is given.
    pub(crate) async fn patch(
        &self,
        path: &str,
        run: Option<&str>,
        body: Value,
    ) -> (StatusCode, Value) {
        let request = self.client.patch(format!("{}{path}", self.url)).body(body.to_string());
        let named = run.into_iter().fold(request, |it, run| it.header("tidegate-run", run));
        Self::answer(path, named).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::DELETE, path, None).await
    }

    /// The status of an answer, if there is one.
    pub(crate) async fn try_post(&self, path: &str, body: String) -> Option<StatusCode> {
        let request = self.client.post(format!("{}{path}", self.url)).body(body);
        request.send().await.ok().map(|answer| answer.status())
    }

    /// The whole text of an answer, for what is not one document.
    pub(crate) async fn text(&self, path: &str) -> String {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap().text().await.unwrap()
    }

    /// The whole text of a stream of events, with something that happens once a mark is in it.
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

    /// Runs a command of the binary against this server: what it printed, or its error.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.env_clear().env("TIDEGATE_URL", &self.url).args(arguments);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Posts an event that makes one run; its id.
    pub(crate) async fn start_run(&self, name: &str, data: Value) -> String {
        let event = serde_json::json!({ "name": name, "data": data });
        let (status, told) = self.post("/events", event).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{told}");
        told["events"][0]["runs"][0]["runId"].as_str().expect("a run").to_owned()
    }

    /// The run, once it is in a state.
    pub(crate) async fn until(&self, run: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let (_, told) = self.get(&format!("/runs/{run}")).await;
            if told["state"] == state {
                return told;
            }
            assert!(began.elapsed() < PATIENCE, "{run} is never {state}: {told}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Server {
    /// What it says instead of starting with this in its configuration.
    pub(crate) fn refused(config: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let output = command(&folder).output().unwrap();
        assert!(!output.status.success(), "it has started");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// An answer as it came.
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
    /// Starts one on a store that is there, which writes what it logs to a file.
    pub(crate) fn start_on(store: &str, config: &str, log: &std::path::Path) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidegate.toml"), config).unwrap();
        let log = std::fs::File::create(log).unwrap();
        let mut command = command_on(&folder, store);
        let (process, url) = spawn(command.env("TIDEGATE_LOG", "debug").stderr(log));
        Self { process, url, client: Client::builder().no_proxy().build().unwrap(), folder }
    }

    /// Kills it without a word, while others still speak to it.
    pub(crate) fn crash(&self) {
        let killed = Command::new("kill").args(["-9", &self.process.id().to_string()]).status();
        assert!(killed.unwrap().success());
    }

    /// What it says to this, if anything.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Raw> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body.to_owned()).send().await.ok()?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        // A stream of events may have no end.
        let endless = headers.get("content-type").is_some_and(|it| it == "text/event-stream");
        let text = if endless { String::new() } else { answer.text().await.ok()? };
        Some(Raw { status, headers, text })
    }
}

fn command(folder: &TempDir) -> Command {
    command_on(folder, &format!("sqlite:{}", folder.path().join("tidegate.db").display()))
}

fn command_on(folder: &TempDir, store: &str) -> Command {
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--config", &at("tidegate.toml")])
        .args(["--store", store])
        .env_clear()
        .env("TIDEGATE_LEASE_TTL_MS", "500")
        .env("TIDEGATE_LOG", "warn");
    command
}

fn spawn(command: &mut Command) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let first = lines.next().expect("it says where it listens").unwrap();
    let (_, url) = first.split_once(" listens at ").expect("an address");
    (process, url.to_owned())
}
