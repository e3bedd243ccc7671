//! One operation of the API: its route, what it needs, and how it is described. The router, the
//! OpenAPI document and the matrix of who may do what are all made from these.

use axum::{
    handler::Handler,
    middleware::from_fn_with_state,
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::{Map, Value, json};

use super::{App, middleware, schema};

/// What a caller has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: probes, and the description of the API.
    Nothing,
    /// A key of the workspace.
    Read,
    /// A key of the workspace that may change things.
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

    /// Also to look at it, a key must be one that may change things.
    pub(super) fn full(mut self) -> Self {
        self.needs = Needs::Full;
        self
    }

    /// A key that only lets look is let in; what needs more is refused by the operation itself.
    pub(super) fn read(mut self) -> Self {
        self.needs = Needs::Read;
        self
    }

    /// What it does, in one sentence.
    pub(super) fn says(mut self, says: &'static str) -> Self {
        self.says = says;
        self
    }

    /// Nobody has to say who they are.
    pub(super) fn open(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }

    /// A member of the query that need not be there. A name that is too long is not refused: it
    /// is found nowhere.
    pub(super) fn query(mut self, name: &str, mut shape: Value) -> Self {
        if let Some(shape) = shape.as_object_mut() {
            shape.remove("maxLength");
        }
        self.query.push(json!({ "name": name, "in": "query", "schema": shape }));
        self
    }

    /// The query may have any members: its sender adds to it what it likes.
    pub(super) fn any_query(mut self) -> Self {
        self.any_query = true;
        self
    }

    /// A body that must be there.
    pub(super) fn body(mut self, shape: Value) -> Self {
        self.body = Some(content("application/json", shape, Some(true)));
        self
    }

    /// A body that may be left out.
    pub(super) fn maybe_body(mut self, shape: Value) -> Self {
        self.body = Some(content("application/json", shape, Some(false)));
        self
    }

    pub(super) fn answers(self, status: u16, what: &str, shape: Value) -> Self {
        self.answers_as(status, what, "application/json", shape)
    }

    /// An answer without a body.
    pub(super) fn answers_nothing(mut self, status: u16, what: &str) -> Self {
        self.answers.insert(status.to_string(), json!({ "description": what }));
        self
    }

    /// An answer that is no JSON.
    pub(super) fn answers_as(mut self, status: u16, what: &str, kind: &str, shape: Value) -> Self {
        let mut answer = content(kind, shape, None);
        answer["description"] = what.into();
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// The route, which lets in who shows what it needs.
    pub(super) fn into_route(self, app: &App) -> (&'static str, MethodRouter<App>) {
        let names = self.query.iter().filter_map(|member| member["name"].as_str());
        let query = (!self.any_query).then(|| names.map(str::to_owned).collect());
        let asks = middleware::Requirements { needs: self.needs, query };
        let state = (app.clone(), asks, self.name);
        let guarded = from_fn_with_state(state, middleware::pass);
        (self.path, self.route.route_layer(guarded))
    }

    /// Its method, and its part of the OpenAPI document.
    pub(super) fn describe(&self) -> (&'static str, Value) {
        let mut parameters: Vec<_> = parts(self.path)
            .map(|name| {
                let shape = json!({ "type": "string", "minLength": 1 });
                json!({ "name": name, "in": "path", "required": true, "schema": shape })
            })
            .collect();
        parameters.extend(self.query.iter().cloned());
        let mut responses = self.answers.clone();
        for (status, what) in [("4XX", "It cannot be done as asked."), ("503", "Not now.")] {
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

/// The named parts of a path.
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
