//! Test app: a small SDK, written from the description of the protocol.
//!
//! A function is called anew for each call. Its steps return their memos; the first ones without a
//! memo end the call, as operations of the answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use sha1_smol::Sha1;
use tokio::sync::watch;

/// Version of the protocol and manner of an SDK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sdk {
    /// Version 1, as JS 3.
    One,
    /// Version 2, as JS 4 without checkpoints.
    Two,
    /// Version 2 with checkpoints, as JS 4.
    Checkpoints,
    /// Version 2, as Python: groups are always planned.
    Python,
    /// Version 2, as Go: it fetches nothing.
    Go,
}

/// A call of the app.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) function: String,
    /// The step to run; `step` to discover.
    pub(super) step: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Call {
    pub(super) fn attempt(&self) -> u64 {
        self.body["ctx"]["attempt"].as_u64().expect("a number")
    }
}

/// An operation that a function wants, without a memo.
pub(super) struct Wanted {
    op: Value,
    run: Option<Box<dyn FnOnce() -> Result<Value, Value> + Send>>,
}

/// Reason why a function does not return.
pub(super) enum Stop {
    Wants(Vec<Wanted>),
    Throws(Value),
    /// Answers exactly this.
    Answers(u16, Vec<(&'static str, String)>, String),
}

/// What a function returns.
pub(super) type Flow = Result<Value, Stop>;

/// Tools of a function in one call.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) call: Call,
    memos: Arc<Mutex<BTreeMap<String, Value>>>,
    used: Arc<Mutex<BTreeMap<String, u32>>>,
    app: App,
}

pub(super) fn id_of(name: &str) -> String {
    Sha1::from(name).digest().to_string()
}

/// Error as JS writes it.
pub(super) fn error(name: &str, message: &str) -> Value {
    let cause = json!({ "name": "Error", "message": "inner" });
    json!({ "name": name, "message": message, "stack": format!("{name}: {message}\n at x"),
            "cause": cause, "__serialized": true })
}

impl Step {
    /// Runs a step.
    pub(super) fn run(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<Value, Value> + Send + 'static,
    ) -> Flow {
        let (id, op) = self.op(name, json!({ "op": "StepPlanned", "opts": {} }));
        let (app, log) = (self.app.clone(), op["displayName"].as_str().unwrap().to_owned());
        let run = move || {
            app.ran.lock().unwrap().push(log);
            run()
        };
        self.want(&id, Wanted { op, run: Some(Box::new(run)) })
    }

    /// Wants an operation of the server.
    pub(super) fn ask(&self, name: &str, op: Value) -> Flow {
        let (id, op) = self.op(name, op);
        self.want(&id, Wanted { op, run: None })
    }

    fn op(&self, name: &str, mut op: Value) -> (String, Value) {
        let mut used = self.used.lock().unwrap();
        let index = used.entry(name.to_owned()).or_default();
        let own = if *index == 0 { name.to_owned() } else { format!("{name}:{index}") };
        let userland = match *index {
            0 => json!({ "id": name }),
            index => json!({ "id": name, "index": index }),
        };
        *index += 1;
        let id = id_of(&own);
        (op["id"], op["displayName"], op["userland"]) = (json!(id), json!(name), userland);
        if op.get("name").is_none() {
            op["name"] = json!(name);
        }
        (id, op)
    }

    fn want(&self, id: &str, wanted: Wanted) -> Flow {
        match self.memos.lock().unwrap().get(id) {
            None => Err(Stop::Wants(vec![wanted])),
            Some(memo) if memo.get("error").is_some() => Err(Stop::Throws(memo["error"].clone())),
            // An event is not wrapped.
            Some(memo) if wanted.op["op"] == "WaitForEvent" => Ok(memo.clone()),
            Some(memo) => Ok(memo.get("data").unwrap_or(memo).clone()),
        }
    }

    /// Runs branches side by side; all of them have to end.
    #[allow(clippy::unused_self, reason = "called as in the SDKs")]
    pub(super) fn all(&self, branches: impl IntoIterator<Item = Flow>) -> Result<Vec<Value>, Stop> {
        let (mut values, mut wanted) = (Vec::new(), Vec::new());
        for branch in branches {
            match branch {
                Ok(value) => values.push(value),
                Err(Stop::Wants(more)) => wanted.extend(more),
                Err(stop) => return Err(stop),
            }
        }
        if wanted.is_empty() { Ok(values) } else { Err(Stop::Wants(wanted)) }
    }

    /// Runs branches side by side; the first that has ended counts.
    #[allow(clippy::unused_self, reason = "called as in the SDKs")]
    pub(super) fn race(&self, branches: impl IntoIterator<Item = Flow>) -> Flow {
        let mut wanted = Vec::new();
        for branch in branches {
            match branch {
                Err(Stop::Wants(more)) => wanted.extend(more),
                ended => return ended,
            }
        }
        for it in &mut wanted {
            it.op["opts"]["parallelMode"] = json!("race");
        }
        Err(Stop::Wants(wanted))
    }
}

type Code = dyn Fn(&Step) -> Flow + Send + Sync;

/// The app.
#[derive(Clone)]
pub(super) struct App {
    pub(super) url: String,
    sdk: Sdk,
    functions: Arc<Mutex<BTreeMap<String, Arc<Code>>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    ran: Arc<Mutex<Vec<String>>>,
    /// Calls of these steps are held open.
    shut: watch::Sender<Vec<String>>,
    /// URLs of the servers, separated by blanks, for checkpoints; they take turns.
    pub(super) server: Arc<Mutex<String>>,
    /// Answers of the server to checkpoints.
    pub(super) checkpoints: Arc<Mutex<Vec<u16>>>,
}

impl App {
    pub(super) async fn start(sdk: Sdk) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/inngest", listener.local_addr().unwrap());
        let app = Self {
            url,
            sdk,
            functions: Arc::default(),
            calls: Arc::default(),
            ran: Arc::default(),
            shut: watch::Sender::new(Vec::new()),
            server: Arc::default(),
            checkpoints: Arc::default(),
        };
        let router = Router::new().fallback(called).layer(DefaultBodyLimit::disable());
        let router = router.with_state(app.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        app
    }

    /// Adds a function, or replaces its code.
    pub(super) fn function(
        &self,
        name: &str,
        code: impl Fn(&Step) -> Flow + Send + Sync + 'static,
    ) -> &Self {
        self.functions.lock().unwrap().insert(name.to_owned(), Arc::new(code));
        self
    }

    /// Returns the configuration of a server with the functions of this app. Each is triggered by
    /// the event of its name.
    pub(super) fn config(&self, more: &str) -> String {
        let language = match self.sdk {
            Sdk::One | Sdk::Two | Sdk::Checkpoints => "js",
            Sdk::Python => "py",
            Sdk::Go => "go",
        };
        let functions = self.functions.lock().unwrap();
        let definition = |name: &String| {
            let url = format!("{}?fnId=app-{name}&stepId=step", self.url);
            format!(
                "[[workflow]]\nname = \"{name}\"\napp = \"app\"\ntriggers = [{{ event = \"{name}\" }}]\n\
                 retry = {{ maxAttempts = 3, backoffMs = 20, jitter = false }}\n\
                 remote = {{ protocol = \"inngest\", url = \"{url}\", settings = {{ functionId = \
                 \"app-{name}\", sdk = \"{language}\" }} }}\n"
            )
        };
        let all: String = functions.keys().map(definition).collect();
        format!("{more}\n{all}")
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the steps that have run, in order.
    pub(super) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    /// Holds targeted calls of steps open, until they are released.
    pub(super) fn shut(&self, steps: &[&str]) {
        self.shut.send_replace(steps.iter().map(|step| id_of(step)).collect());
    }

    /// Holds discoveries open, or releases them.
    pub(super) fn hold_discovery(&self, held: bool) {
        self.shut.send_replace(if held { vec!["step".to_owned()] } else { Vec::new() });
    }

    /// Waits until the app has received this many calls.
    pub(super) async fn called(&self, times: usize) {
        while self.calls().len() < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn called(
    State(app): State<App>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let function = query["fnId"].strip_prefix("app-").expect("the app's prefix").to_owned();
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let call = Call { function, step: query["stepId"].clone(), headers, body };
    app.calls.lock().unwrap().push(call.clone());
    // The app goes on if its caller is gone.
    let answering = tokio::spawn(async move {
        let held = |shut: &Vec<String>| shut.contains(&call.step);
        let _ = app.shut.subscribe().wait_for(|shut| !held(shut)).await;
        app.answer(call).await
    });
    let (status, headers, body) = answering.await.unwrap();
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

type Answer = (u16, Vec<(&'static str, String)>, String);

impl App {
    async fn answer(&self, call: Call) -> Answer {
        let code = self.functions.lock().unwrap().get(&call.function).cloned();
        let code = code.expect("the app must have the function");
        let known = if call.body["use_api"] == true {
            self.fetch(&call, "actions").await
        } else {
            call.body["steps"].clone()
        };
        let known = known.as_object().expect("an object").clone();
        let memos = Arc::new(Mutex::new(known.into_iter().collect()));
        loop {
            let (used, app) = (Arc::default(), self.clone());
            let step = Step { call: call.clone(), memos: memos.clone(), used, app };
            let mut wanted = match code(&step) {
                Ok(value) if self.has_checkpoints(&call) => {
                    return self.operations(vec![
                        json!({ "op": "RunComplete", "id": "x", "data": value }),
                    ]);
                }
                Ok(value) => return self.json(200, &[], &value),
                Err(Stop::Throws(error)) => {
                    return self.json(500, &[("no-retry", "false")], &error);
                }
                Err(Stop::Answers(status, headers, body)) => return (status, headers, body),
                Err(Stop::Wants(wanted)) => wanted,
            };
            if call.step != "step" {
                let at = wanted.iter().position(|it| it.op["id"] == call.step.as_str());
                return match at.map(|at| wanted.swap_remove(at)) {
                    Some(Wanted { op, run: Some(run) }) => self.operations(vec![ran(op, run())]),
                    _ if self.sdk == Sdk::Python => self.json(200, &[], &json!([])),
                    _ if self.sdk == Sdk::Go => self.json(200, &[], &Value::Null),
                    _ => self.json(500, &[], &json!({ "error": "Could not find step to run" })),
                };
            }
            let plans_only = call.body["ctx"]["disable_immediate_execution"] == true;
            if wanted.len() > 1 || plans_only || wanted[0].run.is_none() {
                return self.operations(wanted.into_iter().map(|it| it.op).collect());
            }
            let Wanted { op, run } = wanted.remove(0);
            let done = ran(op, run.expect("checked before")());
            if done["op"] != "StepRun" || !self.has_checkpoints(&call) {
                return self.operations(vec![done]);
            }
            match self.checkpoint(&call, &done).await {
                200 => {}
                409 => {
                    let stale = error("StaleDispatchError", "checkpoint returned 409");
                    return self.json(400, &[("no-retry", "true")], &stale);
                }
                _ => return self.operations(vec![done]),
            }
            let id = done["id"].as_str().unwrap().to_owned();
            memos.lock().unwrap().insert(id, json!({ "data": done["data"] }));
        }
    }

    /// Returns a part of a run's state from the server.
    pub(super) async fn fetch(&self, call: &Call, part: &str) -> Value {
        assert_ne!(self.sdk, Sdk::Go, "Go fetches nothing");
        let (run, server) = (&call.body["ctx"]["run_id"], self.server.lock().unwrap().clone());
        let url = format!("{server}/v0/runs/{}/{part}", run.as_str().unwrap());
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn has_checkpoints(&self, call: &Call) -> bool {
        let ctx = &call.body["ctx"];
        self.sdk == Sdk::Checkpoints
            && ctx["fn_id"].is_string()
            && ctx["disable_immediate_execution"] == false
    }

    /// Posts a step that has run. Returns the status of the answer.
    async fn checkpoint(&self, call: &Call, step: &Value) -> u16 {
        let (ctx, servers) = (&call.body["ctx"], self.server.lock().unwrap().clone());
        let turn = self.checkpoints.lock().unwrap().len();
        let all: Vec<&str> = servers.split(' ').collect();
        let server = all[turn % all.len()];
        let run = ctx["run_id"].as_str().unwrap();
        let body = json!({ "run_id": run, "fn_id": ctx["fn_id"], "qi_id": ctx["qi_id"],
                           "request_started_at": 1, "steps": [step], "ts": 2 });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{server}/v1/checkpoint/{run}/async");
        let request = client.post(url).header("authorization", "Bearer ").body(body.to_string());
        let status = request.send().await.map_or(599, |answer| answer.status().as_u16());
        self.checkpoints.lock().unwrap().push(status);
        status
    }

    fn operations(&self, operations: Vec<Value>) -> Answer {
        let failed = operations.iter().any(|it| it["op"] == "StepFailed");
        let no_retry: &[_] = if failed { &[("no-retry", "true")] } else { &[] };
        self.json(206, no_retry, &Value::from(operations))
    }

    fn json(&self, status: u16, headers: &[(&str, &str)], body: &Value) -> Answer {
        let (sdk, version) = match self.sdk {
            Sdk::One => ("inngest-js:v3.54.2", "1"),
            Sdk::Two | Sdk::Checkpoints => ("inngest-js:v4.24.0", "2"),
            Sdk::Python => ("inngest-py:v0.5.19", "2"),
            Sdk::Go => ("go:v0.16.0", "2"),
        };
        let mut all = vec![
            ("x-inngest-sdk", sdk.to_owned()),
            ("x-inngest-req-version", version.to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        for (name, value) in headers {
            assert_eq!(*name, "no-retry", "the only further header");
            all.push(("x-inngest-no-retry", (*value).to_owned()));
        }
        (status, all, body.to_string())
    }
}

/// Returns the operation of a step that has run. An error with the field `final` is not retried.
fn ran(mut op: Value, result: Result<Value, Value>) -> Value {
    match result {
        Ok(value) => (op["op"], op["data"]) = (json!("StepRun"), value),
        Err(error) => {
            let is_final = error.get("final").is_some();
            op["op"] = json!(if is_final { "StepFailed" } else { "StepError" });
            op["error"] = error;
        }
    }
    op
}
