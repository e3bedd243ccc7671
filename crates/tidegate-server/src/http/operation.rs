//! One operation of the API: its route, access level and description. The router, the OpenAPI
//! document and the access matrix are built from the list of operations.

use axum::{
    handler::Handler,
    middleware::from_fn_with_state,
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::{Map, Value, json};

use super::{App, middleware, schema};

/// Access level of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No key: probes, and the OpenAPI document.
    Nothing,
    /// Any key of the workspace.
    Read,
    /// A key of the workspace that is not read-only.
    Full,
}

/// One method of one path.
pub(crate) struct Operation {
    method: &'static str,
    pub(super) path: &'static str,
    name: &'static str,
    says: &'static str,
    needs: Needs,
    route: MethodRouter<App>,
    query: Vec<Value>,
    any_query: bool,
    body: Option<Value>,
    answers: Map<String, Value>,
}

impl Operation {
    fn new<H: Handler<T, App>, T: 'static>(
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        name: &'static str,
        handler: H,
    ) -> Self {
        let needs = if method == "get" { Needs::Read } else { Needs::Full };
        let (query, body, answers) = (Vec::new(), None, Map::new());
        let route = on(filter, handler);
        let any_query = false;
        Self { method, path, name, says: "", needs, route, query, any_query, body, answers }
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

    /// Requires a full key, also for reading.
    pub(super) fn full(mut self) -> Self {
        self.needs = Needs::Full;
        self
    }

    /// Accepts a read-only key; the operation itself rejects what needs more.
    pub(super) fn read(mut self) -> Self {
        self.needs = Needs::Read;
        self
    }

    /// Sets the summary, one sentence.
    pub(super) fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }

    /// Requires no key.
    pub(super) fn open(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }

    /// Adds an optional query parameter. Its maximum length is not part of the description: a name
    /// that is too long is not rejected, it just matches nothing.
    pub(super) fn query(mut self, name: &str, mut shape: Value) -> Self {
        if let Some(shape) = shape.as_object_mut() {
            shape.remove("maxLength");
        }
        self.query.push(json!({ "name": name, "in": "query", "schema": shape }));
        self
    }

    /// Allows any query parameters: the sender adds its own.
    pub(super) fn any_query(mut self) -> Self {
        self.any_query = true;
        self
    }

    /// Sets a required body.
    pub(super) fn body(mut self, shape: Value) -> Self {
        self.body = Some(content("application/json", shape, Some(true)));
        self
    }

    /// Sets an optional body.
    pub(super) fn maybe_body(mut self, shape: Value) -> Self {
        self.body = Some(content("application/json", shape, Some(false)));
        self
    }

    pub(super) fn answers(self, status: u16, what: &str, shape: Value) -> Self {
        self.answers_as(status, what, "application/json", shape)
    }

    /// Adds a response without a body.
    pub(super) fn answers_nothing(mut self, status: u16, what: &str) -> Self {
        self.answers.insert(status.to_string(), json!({ "description": what }));
        self
    }

    /// Adds a response of another content type than JSON.
    pub(super) fn answers_as(mut self, status: u16, what: &str, kind: &str, shape: Value) -> Self {
        let mut answer = content(kind, shape, None);
        answer["description"] = what.into();
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// Builds the route, with the middleware that enforces its requirements.
    pub(super) fn into_route(self, app: &App) -> (&'static str, MethodRouter<App>) {
        let names = self.query.iter().filter_map(|member| member["name"].as_str());
        let query = (!self.any_query).then(|| names.map(str::to_owned).collect());
        let asks = middleware::Requirements { needs: self.needs, query };
        let state = (app.clone(), asks, self.name);
        let guarded = from_fn_with_state(state, middleware::pass);
        (self.path, self.route.route_layer(guarded))
    }

    /// The method, and its part of the OpenAPI document.
    pub(super) fn describe(&self) -> (&'static str, Value) {
        let mut parameters: Vec<_> = parts(self.path)
            .map(|name| {
                let shape = json!({ "type": "string", "minLength": 1 });
                json!({ "name": name, "in": "path", "required": true, "schema": shape })
            })
            .collect();
        parameters.extend(self.query.iter().cloned());
        let mut responses = self.answers.clone();
        for (status, what) in [("4XX", "The request was rejected."), ("503", "Retry later.")] {
            let mut problem = content("application/problem+json", schema::of("Problem"), None);
            problem["description"] = what.into();
            responses.insert(status.to_owned(), problem);
        }
        let mut told = json!({
            "operationId": self.name, "summary": self.says, "parameters": parameters,
            "responses": responses, "x-needs": self.needs.as_str(),
        });
        if let Some(body) = &self.body {
            told["requestBody"] = body.clone();
        }
        if self.needs == Needs::Nothing {
            told["security"] = json!([]);
        }
        (self.method, told)
    }
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

/// The parameters of a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn content(kind: &str, shape: Value, required: Option<bool>) -> Value {
    let mut told = json!({ "content": { kind: { "schema": shape } } });
    if let Some(required) = required {
        told["required"] = required.into();
    }
    told
}
