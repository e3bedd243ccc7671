//! Sessions: the state of a flow's session. Clients read and change it, also as a step of a run.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate::StepError;
use tidegate_core::{
    json::Payload,
    key::{Decimal, Path},
    row::{SessionOp, SessionRef},
    session::{MAX_SESSION_BYTES, NewSessionOp, Outcome},
};

use super::{
    Caller,
    body::{At, Body, Query, as_is, is_name, raw},
    operation::Operation,
    problem::Problem,
    schema::Name,
};

/// Header that names a run: the operation becomes a step of that run.
const RUN: &str = "tidegate-run";

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/sessions/{flow}/{id}", "showSession", show)
            .says("Show a session's document; it is null at version 0, before the first write.")
            .query::<Of>()
            .answers::<SessionView>(200, "The current document."),
        Operation::patch("/sessions/{flow}/{id}", "changeSession", change_one)
            .input()
            .says("Apply one operation to a session's document.")
            .query::<Of>()
            .body::<ChangeBody<'_>>()
            .answers::<ChangedView>(200, "The value after the operation."),
    ]
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Of {
    app: Option<String>,
}

/// A session, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(super) struct SessionView {
    #[serde(flatten)]
    session: NamedSession,
    /// The session's document.
    state: Box<RawValue>,
}

/// Result of an operation on a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedSession")]
pub(super) struct ChangedView {
    #[serde(flatten)]
    session: NamedSession,
    /// Value at the operation's path, after the operation.
    value: Box<RawValue>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NamedSession {
    app: String,
    flow: String,
    id: String,
    /// Number of writes so far.
    version: i64,
}

impl NamedSession {
    fn new(session: SessionRef, version: i64) -> Self {
        let SessionRef { app, flow, id } = session;
        Self { app, flow, id, version }
    }
}

async fn show(
    caller: Caller,
    At((flow, id)): At<(String, String)>,
    Query(of): Query<Of>,
) -> Result<Json<SessionView>, Problem> {
    let session = SessionRef { app: caller.app(of.app), flow, id };
    if let Some(name) =
        [&session.app, &session.flow, &session.id].into_iter().find(|name| !is_name(name))
    {
        let detail = format!("session name {name:?} must not be empty or have control characters");
        return Err(Problem::invalid("session_bad_name", detail));
    }
    let (version, body) =
        caller.engine.session(&session).await?.unwrap_or_else(|| (0, Payload::null()));
    let session = NamedSession::new(session, version);
    Ok(Json(SessionView { session, state: as_is(&body) }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionChange")]
struct ChangeBody<'a> {
    #[schemars(extend("enum" = ["get", "set", "merge", "append", "increment"]))]
    op: String,
    #[serde(default)]
    #[schemars(schema_with = "path_schema")]
    path: Option<Value>,
    #[serde(default, borrow, deserialize_with = "given")]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    #[schemars(with = "Option<f64>")]
    by: Option<&'a RawValue>,
    #[schemars(range(min = 0))]
    expected_version: Option<i64>,
    #[schemars(with = "Option<Name>")]
    step: Option<String>,
}

/// Schema of a path: `a.b`, or a list of names.
fn path_schema(schemas: &mut SchemaGenerator) -> Schema {
    let names = schemas.subschema_for::<Vec<Name>>();
    let text = json_schema!({ "type": ["string", "null"], "maxLength": 256 });
    json_schema!({ "anyOf": [text, names] })
}

/// Deserializes a member that is present. `null` is a value here, and does not mean that it is
/// absent.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

impl ChangeBody<'_> {
    /// Parses the operation in the body. Members that the operation does not use are an error.
    fn op(&self) -> Result<SessionOp, Problem> {
        let path = match &self.path {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::Array(names)) if names.is_empty() => None,
            Some(path) => Some(Path::from_value(path).map_err(|error| bad(&error))?),
        };
        let value = || raw(self.value, MAX_SESSION_BYTES);
        match (self.op.as_str(), self.value, self.by) {
            ("get", None, None) => Ok(SessionOp::Get { path }),
            ("set", Some(_), None) => Ok(SessionOp::Set { path, value: value()? }),
            ("merge", Some(_), None) => Ok(SessionOp::Merge { path, value: value()? }),
            ("append", Some(_), None) => Ok(SessionOp::Append { path, value: value()? }),
            ("increment", None, Some(by)) => {
                let by = Decimal::parse(by.get()).map_err(|error| bad(&error))?;
                Ok(SessionOp::Increment { path, by })
            }
            (op @ ("get" | "set" | "merge" | "append" | "increment"), ..) => Err(bad(&format!(
                "`{op}` takes `path` and {}",
                match op {
                    "get" => "nothing else",
                    "increment" => "`by`",
                    _ => "`value`",
                }
            ))),
            (op, ..) => {
                Err(bad(&format!("`op` must be get, set, merge, append or increment, got `{op}`")))
            }
        }
    }
}

fn bad(said: &dyn std::fmt::Display) -> Problem {
    Problem::invalid("bad_body", said.to_string())
}

async fn change_one(
    caller: Caller,
    At((flow, id)): At<(String, String)>,
    Query(of): Query<Of>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ChangedView>, Problem> {
    let engine = &caller.engine;
    let read: ChangeBody<'_> = body.read()?;
    let (op, expected_version) = (read.op()?, read.expected_version);
    let run = headers.get(RUN).map(|run| run.to_str().unwrap_or_default());
    let mut session = SessionRef { app: String::new(), flow, id };
    let Outcome { version, value } = match (run, read.step) {
        (None, None) => {
            session.app = caller.app(of.app);
            engine.change_session(session.clone(), op, expected_version).await?
        }
        (Some(run), Some(step)) if (1..=200).contains(&step.chars().count()) => {
            let unknown = || Problem::not_found("no_run", format!("there is no run `{run}`"));
            let run = run.parse().map_err(|_| unknown())?;
            // A service that is called by URL does not know the app of its flow: the app of the run
            // is the default.
            let (live, _) = engine.look_up(run).await?;
            session.app = caller.app(of.app.or(live.map(|live| live.app)));
            let operation = NewSessionOp { step, session: session.clone(), op, expected_version };
            engine.change_session_in(run, operation).await?.map_err(|fault| failed(&fault))?
        }
        (Some(_), _) => {
            return Err(bad(
                &"`step` must be the name of the operation, with 1 to 200 characters: each step of \
                  a run takes effect once",
            ));
        }
        (None, Some(step)) => {
            let said = format!("`step` is `{step}`, but the header `Tidegate-Run` is missing");
            return Err(bad(&said));
        }
    };
    let session = NamedSession::new(session, version);
    Ok(Json(ChangedView { session, value: as_is(&value) }))
}

/// Returns the response to a step error, with the code that the same error has outside of a run.
fn failed(fault: &StepError) -> Problem {
    let mut code = String::new();
    for letter in fault.code().chars() {
        if letter.is_ascii_uppercase() && !code.is_empty() {
            code.push('_');
        }
        code.push(letter.to_ascii_lowercase());
    }
    let changed = code == "session_changed" || code == "session_conflict";
    let status = if changed { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
    Problem::new(status, &code, fault.message())
}
