//! Registration of an app's functions: `POST /fn/register`, and the answer of an app that registers
//! in band.
//!
//! A registration is all of an app: functions that it does not contain are retired. Definitions are
//! stored, so after a restart nothing has to be registered again.

use std::collections::BTreeSet;

use axum::{Json, body::Bytes, extract::State};
use serde_json::{Value, json};
use tidegate::{AuditEntry, Engine};
use tidegate_core::{catalog::Catalog, definition::Definition};

use super::{
    Inngest,
    access::{Refused, SdkCaller},
    fields::{Fields, Read, plain},
    function::Function,
    remote_of,
};
use crate::http::{self, App};

/// An app with all of its functions, as its SDK sends it.
#[derive(Debug)]
pub(super) struct Registration {
    app: String,
    functions: Vec<Function>,
}

/// Result of a registration.
#[derive(Debug, PartialEq)]
pub(super) struct Registered {
    pub(super) app: String,
    /// The names of the functions, without that of the app.
    pub(super) functions: Vec<String>,
    /// Whether anything is different from before.
    pub(super) modified: bool,
}

impl Registration {
    /// Reads the body of a registration.
    pub(super) fn read(body: &[u8]) -> Read<Self> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| format!("the registration is not JSON: {error}"))?;
        let value = plain(value);
        let fields = Fields::open(&value, "")?;
        // The second is the name in the answer of an app that registers in band.
        let app = fields.text("appName")?.or(fields.text("appId")?);
        let app = app.ok_or("appName is required")?;
        // In band the language has a field of its own.
        let sdk = fields.text("sdk")?.or(fields.text("sdkLanguage")?).unwrap_or_default();
        let language = sdk.split(':').next().unwrap_or_default();
        let functions = fields.list("functions").iter();
        let functions = functions.map(|value| Function::read(value, app, language));
        let functions: Vec<Function> = functions.collect::<Result<_, _>>()?;
        let mut ids = BTreeSet::new();
        if let Some(twice) = functions.iter().find(|function| !ids.insert(&function.id)) {
            return Err(format!("function `{}` is in the registration twice", twice.id));
        }
        Ok(Self { app: app.to_owned(), functions })
    }

    /// Returns the pools of all functions. Functions that share a limit must agree about it.
    fn pools(&self) -> Read<Vec<Value>> {
        let mut pools: Vec<Value> = Vec::new();
        for function in &self.functions {
            for pool in &function.pools {
                match pools.iter().find(|known| known["name"] == pool["name"]) {
                    None => pools.push(pool.clone()),
                    Some(known) if known == pool => {}
                    Some(known) => {
                        let limit = |pool: &Value| pool["concurrency"]["limit"].to_string();
                        return Err(format!(
                            "function `{}`: concurrency limit {} for {} is shared, but another \
                             function gives it the limit {}: give both the same",
                            function.id,
                            limit(pool),
                            pool["name"],
                            limit(known)
                        ));
                    }
                }
            }
        }
        Ok(pools)
    }

    /// Refuses functions that the engine would refuse, and names that other workflows have.
    fn check(&self, catalog: &Catalog) -> Read<()> {
        for function in &self.functions {
            Definition::parse(&function.definition)
                .map_err(|errors| format!("function `{}`: {errors}", function.id))?;
            let name = function.definition["name"].as_str().unwrap_or_default();
            let current = catalog.entry(&self.app, name).and_then(|it| it.current.as_ref());
            if current.is_some_and(|current| remote_of(&current.workflow).is_none()) {
                return Err(format!(
                    "function `{}`: app `{}` has a workflow `{name}` that no SDK has registered: \
                     give the function another id",
                    function.id, self.app
                ));
            }
        }
        Ok(())
    }
}

/// Registers an app: defines its functions, and retires those that are gone.
pub(super) async fn register(engine: &Engine, body: &[u8]) -> Result<Registered, Refused> {
    let registration = Registration::read(body).map_err(Refused::config)?;
    let catalog = http::workflows::catalog(engine).await?;
    registration.check(&catalog).map_err(Refused::config)?;
    let pools = registration.pools().map_err(Refused::config)?;
    let Registration { app, functions } = registration;
    let engine = &audited(engine, &app);
    let definitions: Vec<Value> = functions.into_iter().map(|it| it.definition).collect();
    let names: Vec<String> =
        definitions.iter().filter_map(|it| it["name"].as_str().map(str::to_owned)).collect();
    engine.declare_pools(&pools).await.map_err(Refused::definition)?;
    // Apps are synced again and again: only a change is a command, and enters the audit log.
    let changed = definitions.into_iter().filter(|it| !is_current(&catalog, it));
    let changed: Vec<Value> = changed.collect();
    let mut modified = !changed.is_empty();
    if modified {
        engine.define_all(&changed).await.map_err(Refused::definition)?;
    }
    for ((of, name), entry) in catalog.entries() {
        let current = entry.current.as_ref().filter(|_| *of == app && !entry.is_retired());
        if current.is_some_and(|it| remote_of(&it.workflow).is_some())
            && !names.iter().any(|it| it == name)
        {
            engine.retire(&app, name).await?;
            modified = true;
        }
    }
    Ok(Registered { app, functions: names, modified })
}

/// Whether new runs already use this definition.
fn is_current(catalog: &Catalog, definition: &Value) -> bool {
    let Ok(parsed) = Definition::parse(definition) else { return false };
    let Definition { app, name, .. } = &parsed.value;
    let entry = catalog.entry(app, name).filter(|entry| !entry.is_retired());
    let current = entry.and_then(|entry| entry.current.as_ref());
    current.is_some_and(|current| {
        Definition { version: None, ..Definition::clone(&current.workflow) } == parsed.value
    })
}

/// Returns an engine that records its changes in the audit log.
fn audited(engine: &Engine, app: &str) -> Engine {
    engine.audited(AuditEntry {
        ws: engine.workspace().into(),
        by: tidegate::Author { name: None, address: None },
        operation: "registerInngestApp".to_owned(),
        subject: app.to_owned(),
        before: None,
        after: None,
    })
}

/// `POST /fn/register`.
pub(super) async fn post(
    State(app): State<App>,
    caller: SdkCaller,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let registered = register(&caller.engine, &body).await?;
    let modified = registered.modified;
    app.inngest.note(&caller.engine, &registered);
    Ok(Json(json!({ "ok": true, "modified": modified })))
}

impl Inngest {
    /// Reports a registration, if it is another one than the last of its app.
    pub(super) fn note(&self, engine: &Engine, registered: &Registered) {
        let Registered { app, functions, .. } = registered;
        let list = functions.join(", ");
        let line = match functions.len() {
            0 => "no functions".to_owned(),
            1 => format!("1 function: {list}"),
            count => format!("{count} functions: {list}"),
        };
        let place = match engine.workspace() {
            tidegate::DEFAULT_WORKSPACE => String::new(),
            name => format!(" in `{name}`"),
        };
        self.reports.say(&format!("{app}{place}"), &format!("app `{app}`{place}: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Registration;
    use crate::inngest::PROTOCOL;

    fn function(id: &str, concurrency: &Value) -> Value {
        let runtime = json!({ "type": "http", "url": "http://h/x" });
        json!({ "id": id, "triggers": [{ "event": "a" }], "concurrency": concurrency,
                "steps": { "step": { "id": "step", "name": "step", "runtime": runtime } } })
    }

    fn read(body: &Value) -> Result<Registration, String> {
        Registration::read(body.to_string().as_bytes())
    }

    /// S4: names in any case, and both names of an app.
    #[test]
    fn a_registration_is_read_in_every_spelling() {
        let functions = [function("shop-pay", &json!(null)), function("other", &json!([]))];
        for name in ["appName", "appname", "app_id", "APP_NAME"] {
            let body = json!({ name: "shop", "sdk": "py:v0.5.19", "functions": functions,
                               "deploy_type": "ping", "capabilities": {}, "url": null });
            let read = read(&body).unwrap();
            assert_eq!(read.app, "shop");
            let names: Vec<_> = read.functions.iter().map(|it| &it.definition["name"]).collect();
            assert_eq!(names, ["pay", "other"]);
            let remote = &read.functions[0].definition["remote"];
            assert_eq!(remote["settings"], json!({ "functionId": "shop-pay", "sdk": "py" }));
            assert_eq!(remote["protocol"], PROTOCOL);
        }
        let in_band = json!({ "app_id": "shop", "sdk_language": "go", "sdk_version": "v0.15",
                              "functions": [function("shop-pay", &json!(1))] });
        let settings = &read(&in_band).unwrap().functions[0].definition["remote"]["settings"];
        assert_eq!(settings["sdk"], "go");
        let empty = read(&json!({ "appName": "shop", "functions": null })).unwrap();
        assert!(empty.functions.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let shared = |limit: u32| json!({ "limit": limit, "scope": "env", "key": "'x'" });
        let body = json!({ "appName": "s", "functions": [
            function("s-a", &shared(5)), function("s-b", &shared(6)),
        ] });
        let error = read(&body).unwrap().pools().unwrap_err();
        assert!(error.contains("function `s-b`: concurrency limit 6 for \"env 'x'\""), "{error}");
        let twice = json!({ "appName": "s", "functions": [
            function("s-a", &json!(1)), function("s-a", &json!(1)),
        ] });
        for (body, said) in [
            (json!([]), "the configuration must be an object"),
            (json!({ "functions": [] }), "appName is required"),
            (json!({ "appName": "s", "functions": [{}] }), "id is required"),
            (twice, "function `s-a` is in the registration twice"),
        ] {
            let error = read(&body).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
