//! One operation of the API: its route, access level and description. The router, the OpenAPI
//! document and the access matrix are built from the list of operations.

use axum::{
    handler::Handler,
    http::StatusCode,
    middleware::from_fn_with_state,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::{
    App, middleware,
    problem::ProblemView,
    schema::{Make, Schemas, of},
};

/// Access level of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No API key: probes, and the OpenAPI document.
    Nothing,
    /// Any API key of the workspace.
    Read,
    /// An API key of the workspace that is not read-only.
    Full,
}

/// One operation: a method of a path.
pub(crate) struct Operation {
    method: &'static str,
    pub(super) path: &'static str,
    name: &'static str,
    says: &'static str,
    needs: Needs,
    route: MethodRouter<App>,
    /// Schema of the query parameters.
    query: Option<Make>,
    any_query: bool,
    /// Schema of the body, and whether a body is required.
    body: Option<(Make, bool)>,
    answers: Vec<Answer>,
    audit: Audited,
    /// Statuses of errors that only this operation has. Others follow from its method and access
    /// level.
    fails: &'static [u16],
}

/// Part of a request that is recorded in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audited {
    /// Nothing: a query, or an input, which is recorded as an event or with its run.
    Nothing,
    /// The operation and its object.
    Operation,
    /// The operation, its object and the body.
    Body,
}

/// One response of an operation: its status, its meaning, and its content type with a schema.
struct Answer {
    status: u16,
    meaning: &'static str,
    content: Option<(&'static str, Make)>,
}

impl Operation {
    fn new<H: Handler<T, App>, T: 'static>(
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        let needs = if method == "get" { Needs::Read } else { Needs::Full };
        Self {
            method,
            path,
            name,
            says: "",
            needs,
            route: on(filter, handler),
            query: None,
            any_query: false,
            body: None,
            answers: Vec::new(),
            audit: if method == "get" { Audited::Nothing } else { Audited::Operation },
            fails: &[],
        }
    }

    pub(super) fn get<H: Handler<T, App>, T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        Self::new(("get", MethodFilter::GET), path, name, handler)
    }

    pub(super) fn post<H: Handler<T, App>, T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        Self::new(("post", MethodFilter::POST), path, name, handler)
    }

    pub(super) fn put<H: Handler<T, App>, T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        Self::new(("put", MethodFilter::PUT), path, name, handler)
    }

    pub(super) fn patch<H: Handler<T, App>, T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        Self::new(("patch", MethodFilter::PATCH), path, name, handler)
    }

    pub(super) fn delete<H: Handler<T, App>, T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        Self::new(("delete", MethodFilter::DELETE), path, name, handler)
    }

    /// Requires a key that is not read-only, even for a read operation.
    pub(super) fn full(mut self) -> Self {
        self.needs = Needs::Full;
        self
    }

    /// Accepts a read-only key. The operation itself rejects requests that need a full key.
    pub(super) fn read(mut self) -> Self {
        self.needs = Needs::Read;
        self
    }

    /// Sets the summary: one sentence.
    pub(super) fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }

    /// Requires no key.
    pub(super) fn open(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }

    /// Leaves the operation out of the audit log, because its input is recorded elsewhere.
    pub(super) fn input(mut self) -> Self {
        self.audit = Audited::Nothing;
        self
    }

    /// Records the body in the audit log.
    pub(super) fn logs_body(mut self) -> Self {
        self.audit = Audited::Body;
        self
    }

    /// Sets the type of the query.
    pub(super) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// Allows any query parameters, because the sender may add its own.
    pub(super) fn any_query(mut self) -> Self {
        self.any_query = true;
        self
    }

    /// Sets the type of a required body.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        self.body_as(of::<T>())
    }

    /// Sets the schema of a required body.
    pub(super) fn body_as(mut self, make: Make) -> Self {
        self.body = Some((make, true));
        self
    }

    /// Sets the type of an optional body.
    pub(super) fn maybe_body<T: JsonSchema>(mut self) -> Self {
        self.body = Some((of::<T>(), false));
        self
    }

    /// Adds a response with the type of its body.
    pub(super) fn answers<T: JsonSchema>(self, status: u16, meaning: &'static str) -> Self {
        self.answers_as(status, meaning, Some(("application/json", of::<T>())))
    }

    /// Adds a response without a body.
    pub(super) fn answers_nothing(self, status: u16, meaning: &'static str) -> Self {
        self.answers_as(status, meaning, None)
    }

    /// Adds a response whose body is text.
    pub(super) fn answers_text(
        self,
        status: u16,
        meaning: &'static str,
        kind: &'static str,
    ) -> Self {
        self.answers_as(status, meaning, Some((kind, of::<String>())))
    }

    fn answers_as(
        mut self,
        status: u16,
        meaning: &'static str,
        content: Option<(&'static str, Make)>,
    ) -> Self {
        self.answers.push(Answer { status, meaning, content });
        self
    }

    /// Adds statuses of errors that only this operation has.
    pub(super) fn fails(mut self, statuses: &'static [u16]) -> Self {
        self.fails = statuses;
        self
    }

    /// Builds the route, with the middleware that enforces its requirements.
    pub(super) fn into_route(self, app: &App) -> (&'static str, MethodRouter<App>) {
        let query = (!self.any_query).then(|| {
            let members = parameters(self.query, &mut Schemas::new());
            members.iter().filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
        });
        let asks = middleware::Requirements { needs: self.needs, audit: self.audit, query };
        let state = (app.clone(), asks, self.name);
        let guarded = from_fn_with_state(state, middleware::pass);
        (self.path, self.route.route_layer(guarded))
    }

    /// Returns the method and its part of the OpenAPI document.
    pub(super) fn describe(&self, schemas: &mut Schemas) -> (&'static str, Value) {
        let parts = self.path.split('/');
        let parts = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let mut all: Vec<_> = parts
            .map(|name| {
                let schema = json!({ "type": "string", "minLength": 1 });
                json!({ "name": name, "in": "path", "required": true, "schema": schema })
            })
            .collect();
        all.extend(parameters(self.query, schemas));
        let mut responses = Map::new();
        for status in self.failures() {
            let reason = StatusCode::from_u16(status).ok().and_then(|it| it.canonical_reason());
            let schema = schemas.answer(of::<ProblemView>());
            let content = json!({ "application/problem+json": { "schema": schema } });
            let problem = json!({ "description": reason, "content": content });
            responses.insert(status.to_string(), problem);
        }
        for Answer { status, meaning, content } in &self.answers {
            let mut response = json!({ "description": meaning });
            if let Some((kind, make)) = content {
                response["content"] = json!({ (*kind): { "schema": schemas.answer(*make) } });
            }
            responses.insert(status.to_string(), response);
        }
        let mut operation = json!({
            "operationId": self.name, "summary": self.says, "parameters": all,
            "responses": responses, "x-needs": self.needs.as_str(),
        });
        if let Some((make, required)) = self.body {
            let content = json!({ "application/json": { "schema": schemas.request(make) } });
            operation["requestBody"] = json!({ "content": content, "required": required });
        }
        if self.needs == Needs::Nothing {
            operation["security"] = json!([]);
        }
        (self.method, operation)
    }

    /// Returns the statuses of all errors of the operation.
    fn failures(&self) -> Vec<u16> {
        // Malformed query, store error, timeout.
        let mut statuses = vec![422, 500, 503];
        if self.needs != Needs::Nothing {
            // Errors of API keys, workspaces, host names, and the limit of concurrent requests.
            statuses.extend([401, 403, 404, 421, 429]);
        }
        if self.method != "get" {
            // Errors of bodies, and conflicts with other requests, such as one with the same
            // idempotency key.
            statuses.extend([400, 408, 409, 413]);
        }
        if self.method != "get" && self.needs != Needs::Nothing {
            statuses.push(415);
        }
        statuses.extend(self.fails);
        statuses
    }
}

/// Returns the query parameters for the document. It has no maximum lengths: a name that is too
/// long is not rejected, it only matches no row. An empty value is rejected.
fn parameters(query: Option<Make>, schemas: &mut Schemas) -> Vec<Value> {
    let members = query.map(|query| schemas.query(query)).unwrap_or_default();
    let parameters = members.into_iter().map(|(name, mut schema)| {
        let mut parameter = json!({ "name": name, "in": "query" });
        if let Some(rules) = schema.as_object_mut() {
            if let Some(description) = rules.remove("description") {
                parameter["description"] = description;
            }
            let free = ["enum", "pattern", "format"].iter().all(|it| !rules.contains_key(*it));
            if free && rules.get("type").is_some_and(|kind| kind == "string") {
                rules.insert("minLength".to_owned(), 1.into());
            }
        }
        parameter["schema"] = schema;
        parameter
    });
    parameters.collect()
}

impl Needs {
    fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Read => "read",
            Self::Full => "full",
        }
    }
}
