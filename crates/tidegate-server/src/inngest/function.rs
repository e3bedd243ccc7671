//! One function of an Inngest SDK as a definition of a workflow.
//!
//! Every control of the SDKs is mapped here, field by field; `docs/reference/inngest.md` has the
//! same table for users. What cannot be done is refused with a sentence in the SDK's own words.
//! Expressions are kept as they are, and evaluated in lenient mode; a bare `event.data.a.b` becomes
//! the path `a.b`, which is faster and is shown with its value.

use serde_json::{Value, json};
use tidegate_core::{definition::MAX_PAIRS, expr::Expr};

use super::{
    PROTOCOL,
    fields::{Fields, Read},
};

/// Number of retries of a function that does not say it.
const RETRIES: u64 = 4;

/// Maximum number of retries.
const MAX_RETRIES: u64 = 20;

/// The waits between attempts: 15 s, doubled up to two hours.
const BACKOFF_MS: (u64, u64) = (15_000, 2 * 60 * 60 * 1000);

/// How long an idempotency key is taken: 24 hours.
const IDEMPOTENT_MS: u64 = 24 * 60 * 60 * 1000;

/// Maximum shift of `priority.run`, in seconds.
const MAX_SHIFT_S: i64 = 600;

/// Variable of expressions over the event that starts a run.
const EVENT: [&str; 1] = ["event"];

/// Names of events that only the server sends.
pub(super) const RESERVED: &str = "inngest/";

/// A function, as the engine gets it.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    /// The id as the SDK wrote it: `app-fn`.
    pub(super) id: String,
    /// The definition of the workflow.
    pub(super) definition: Value,
    /// The pools that it shares with other functions.
    pub(super) pools: Vec<Value>,
}

impl Function {
    /// Reads a function of an app. `language` is that of the SDK, such as `js`.
    pub(super) fn read(value: &Value, app: &str, language: &str) -> Read<Self> {
        let id = Fields::open(value, "").and_then(|fields| fields.required("id"))?;
        Self::read_known(value, (app, id), language)
            .map_err(|error| format!("function `{id}`: {error}"))
    }

    fn read_known(value: &Value, (app, id): (&str, &str), language: &str) -> Read<Self> {
        let fields = Fields::open(value, "")?;
        let name = id.strip_prefix(app).and_then(|rest| rest.strip_prefix('-')).unwrap_or(id);
        let (url, retries) = read_step(&fields)?;
        let (least, most) = BACKOFF_MS;
        let mut definition = json!({
            "app": app, "name": name, "triggers": read_triggers(&fields, id)?,
            "retry": { "maxAttempts": retries + 1, "backoffMs": least, "factor": 2,
                       "maxBackoffMs": most },
            "endEvents": {
                "completed": ["inngest/function.finished"],
                "failed": ["inngest/function.failed", "inngest/function.finished"],
                "cancelled": ["inngest/function.cancelled"],
                "data": { "function_id": id },
            },
            "remote": { "protocol": PROTOCOL, "url": url,
                        "settings": { "functionId": id, "sdk": language } },
        });
        let mut pools = Vec::new();
        let title = fields.text("name")?.filter(|title| *title != id && *title != name);
        let timeouts = fields.part("timeouts")?;
        let time = |name| timeouts.as_ref().map_or(Ok(None), |it: &Fields<'_>| it.duration(name));
        let controls = [
            ("description", title.map(Value::from)),
            ("concurrency", read_concurrency(&fields, &mut pools)?),
            ("throttle", read_throttle(&fields)?),
            ("rateLimit", read_rate_limit(&fields)?),
            ("debounce", read_debounce(&fields)?),
            ("batch", read_batch(&fields)?),
            ("priority", read_priority(&fields)?),
            ("singleton", read_singleton(&fields)?),
            ("idempotency", read_idempotency(&fields)?),
            ("cancelOn", read_cancel(&fields)?),
            ("startWithinMs", time("start")?.map(Value::from)),
            ("timeoutMs", time("finish")?.map(Value::from)),
        ];
        for (name, control) in controls {
            if let Some(control) = control {
                definition[name] = control;
            }
        }
        Ok(Self { id: id.to_owned(), definition, pools })
    }
}

/// Reads the URL of a function's only step, and the number of retries.
fn read_step(fields: &Fields<'_>) -> Read<(String, u64)> {
    let steps = fields.get("steps").and_then(Value::as_object);
    let step = steps.and_then(|steps| steps.values().next());
    let step = Fields::open(step.unwrap_or(&Value::Null), "steps.step")?;
    let runtime = step.part("runtime")?.ok_or("steps.step.runtime is required")?;
    let kind = runtime.text("type")?.unwrap_or("http");
    if kind != "http" {
        let fix = "serve the function over HTTP, `connect` is not supported";
        return Err(format!("steps.step.runtime.type must be `http`, got `{kind}`: {fix}"));
    }
    let url = runtime.required("url")?.to_owned();
    // The SDK for Go has them on the function.
    let own = match step.get("retries") {
        Some(Value::Object(_)) | None => {
            step.part("retries")?.map_or(Ok(None), |it| it.count("attempts", 0, MAX_RETRIES))?
        }
        Some(_) => step.count("retries", 0, MAX_RETRIES)?,
    };
    let of_function = match fields.get("retries") {
        Some(Value::Object(_)) | None => {
            fields.part("retries")?.map_or(Ok(None), |it| it.count("attempts", 0, MAX_RETRIES))?
        }
        Some(_) => fields.count("retries", 0, MAX_RETRIES)?,
    };
    Ok((url, own.or(of_function).unwrap_or(RETRIES)))
}

/// Reads the triggers. A function without triggers is only called by other functions: its trigger is
/// an event that no program can send.
fn read_triggers(fields: &Fields<'_>, id: &str) -> Read<Vec<Value>> {
    let mut triggers = Vec::new();
    for (n, value) in fields.list("triggers").iter().enumerate() {
        let trigger = Fields::open(value, &fields.place(&format!("triggers[{n}]")))?;
        triggers.push(match (trigger.text("event")?, trigger.text("cron")?) {
            (Some(event), None) => read_event(&trigger, event)?,
            (None, Some(cron)) => read_cron(cron),
            _ => return Err(format!("triggers[{n}] must have either `event` or `cron`")),
        });
    }
    if triggers.is_empty() {
        triggers.push(json!(format!("{RESERVED}invoke:{id}")));
    }
    Ok(triggers)
}

fn read_event(trigger: &Fields<'_>, event: &str) -> Read<Value> {
    let place = trigger.place("event");
    let before = event.strip_suffix('*').unwrap_or(event);
    if before.contains('*') {
        let rule = "may have a star only at its end";
        return Err(format!("{place} {rule}, got `{event}`: write one trigger for each beginning"));
    }
    Ok(match trigger.text("expression")? {
        Some(text) => {
            json!({ "event": event, "if": lenient(trigger, "expression", text, &EVENT)? })
        }
        None => json!(event),
    })
}

/// Converts `TZ=Europe/Paris 0 12 * * 1-5`. As in the SDKs' own server, every occurrence starts a
/// run, whether or not the last one has ended.
fn read_cron(text: &str) -> Value {
    let zoned = ["TZ=", "CRON_TZ="].iter().find_map(|prefix| text.strip_prefix(prefix));
    match zoned.and_then(|rest| rest.split_once(' ')) {
        Some((zone, cron)) => {
            json!({ "cron": cron.trim(), "timeZone": zone, "onOverlap": "allow" })
        }
        None => json!({ "cron": text, "onOverlap": "allow" }),
    }
}

/// Reads `concurrency`: a number, a limit, a list of limits, or the lists of the SDK for Go, where
/// `fn` limits whole runs and `step` limits requests.
fn read_concurrency(fields: &Fields<'_>, pools: &mut Vec<Value>) -> Read<Option<Value>> {
    const NAME: &str = "concurrency";
    let mut limits = Vec::new();
    for (n, value) in fields.list(NAME).iter().enumerate() {
        let at = if fields.get(NAME).is_some_and(Value::is_array) {
            format!("{NAME}[{n}]")
        } else {
            NAME.to_owned()
        };
        if value.is_number() {
            let whole = json!({ NAME: value });
            let limit = Fields::open(&whole, "")?.count(NAME, 1, u64::MAX)?;
            limits.push(json!({ "limit": limit }));
            continue;
        }
        let entry = Fields::open(value, &at)?;
        if entry.get("limit").is_some() {
            limits.push(read_limit(&entry, "executing", pools)?);
            continue;
        }
        for (part, span) in [("step", "executing"), ("fn", "run")] {
            for value in entry.list(part) {
                let entry = Fields::open(value, &entry.place(part))?;
                limits.push(read_limit(&entry, span, pools)?);
            }
        }
        if entry.get("step").or(entry.get("fn")).is_none() {
            return Err(format!("{at}.limit is required"));
        }
    }
    Ok((!limits.is_empty()).then_some(Value::Array(limits)))
}

fn read_limit(entry: &Fields<'_>, span: &str, pools: &mut Vec<Value>) -> Read<Value> {
    let limit = entry.count("limit", 1, u64::MAX)?;
    let limit = limit.ok_or_else(|| format!("{} is required", entry.place("limit")))?;
    let mut value = with_key(json!({ "limit": limit }), entry)?;
    if span != "executing" {
        value["span"] = json!(span);
    }
    // The SDK for Go writes `Env`.
    let scope = entry.text("scope")?.unwrap_or("fn").to_lowercase();
    match scope.as_str() {
        "fn" => return Ok(value),
        "env" | "account" => {}
        other => {
            let place = entry.place("scope");
            return Err(format!("{place} must be fn, env or account, got `{other}`"));
        }
    }
    // Functions share the limit if they have the same key, letter by letter.
    let key = entry.text("key")?.unwrap_or_default();
    let name = format!("{scope} {key}").trim_end().to_owned();
    let used = json!({ "pool": name, "key": value["key"] });
    let mut shared = json!({ "limit": limit });
    if span != "executing" {
        shared["span"] = json!(span);
    }
    pools.push(json!({ "name": name, "concurrency": shared }));
    Ok(if used["key"].is_null() { json!({ "pool": name }) } else { used })
}

fn read_throttle(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(throttle) = fields.part("throttle")? else { return Ok(None) };
    let mut value = read_rate(&throttle)?;
    if let Some(burst) = throttle.count("burst", 0, u64::from(u32::MAX) - 1)? {
        // Theirs is what may start beside the regular one.
        value["burst"] = json!(burst + 1);
    }
    Ok(Some(value))
}

/// Reads `rateLimit`, which `idempotency` replaces.
fn read_rate_limit(fields: &Fields<'_>) -> Read<Option<Value>> {
    let replaced = fields.text("idempotency")?.is_some();
    let limit = fields.part("rateLimit")?.filter(|_| !replaced);
    limit.map(|limit| read_rate(&limit)).transpose()
}

fn read_rate(rate: &Fields<'_>) -> Read<Value> {
    let limit = rate.count("limit", 1, u64::MAX)?;
    let limit = limit.ok_or_else(|| format!("{} is required", rate.place("limit")))?;
    let period = rate.required_duration("period")?;
    with_key(json!({ "limit": limit, "perMs": period }), rate)
}

fn read_debounce(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(debounce) = fields.part("debounce")? else { return Ok(None) };
    let period = debounce.required_duration("period")?;
    let mut value = with_key(json!({ "periodMs": period }), &debounce)?;
    if let Some(most) = debounce.duration("timeout")? {
        value["maxWaitMs"] = json!(most.max(period));
    }
    Ok(Some(value))
}

fn read_batch(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(batch) = fields.part("batchEvents")? else { return Ok(None) };
    let size = batch.count("maxSize", 1, u64::MAX)?;
    let size = size.ok_or_else(|| format!("{} is required", batch.place("maxSize")))?;
    let timeout = batch.required_duration("timeout")?;
    let mut value = with_key(json!({ "maxSize": size, "timeoutMs": timeout }), &batch)?;
    if let Some(text) = batch.text("if")? {
        value["if"] = lenient(&batch, "if", text, &EVENT)?;
    }
    Ok(Some(value))
}

/// Reads `priority.run`: an expression whose result is a number of seconds.
fn read_priority(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(priority) = fields.part("priority")? else { return Ok(None) };
    let Some(text) = priority.text("run")? else { return Ok(None) };
    lenient(&priority, "run", text, &EVENT)?;
    let expr = json!({ "lenient": format!("({text}) * 1000") });
    let most = MAX_SHIFT_S * 1000;
    Ok(Some(json!({ "shiftMs": { "from": { "expr": expr }, "min": -most, "max": most } })))
}

fn read_singleton(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(singleton) = fields.part("singleton")? else { return Ok(None) };
    let mode = singleton.text("mode")?.unwrap_or("skip");
    if !["skip", "cancel"].contains(&mode) {
        return Err(format!("singleton.mode must be skip or cancel, got `{mode}`"));
    }
    with_key(json!({ "mode": mode }), &singleton).map(Some)
}

fn read_idempotency(fields: &Fields<'_>) -> Read<Option<Value>> {
    let Some(text) = fields.text("idempotency")? else { return Ok(None) };
    let key = key(fields, "idempotency", text)?;
    Ok(Some(json!({ "key": key, "periodMs": IDEMPOTENT_MS })))
}

/// Reads `cancel`: events that end a run. In `if`, `event` is the run's event and `async` the new
/// one. Compared paths become `match`, by which only the runs with the same values are read.
fn read_cancel(fields: &Fields<'_>) -> Read<Option<Value>> {
    let mut entries = Vec::new();
    for (n, value) in fields.list("cancel").iter().enumerate() {
        let cancel = Fields::open(value, &format!("cancel[{n}]"))?;
        let mut entry = json!({ "event": cancel.required("event")? });
        let condition = cancel.text("if")?.unwrap_or("true");
        let lenient = lenient(&cancel, "if", condition, &["event", "async"])?;
        let expr = Expr::parse(condition).map_err(|error| bad(&cancel, "if", condition, error))?;
        let pairs = expr.equal_paths("async", "event").filter(|pairs| pairs.len() <= MAX_PAIRS);
        match pairs {
            Some(pairs) => {
                let pairs = pairs.into_iter().map(|(theirs, own)| (theirs.to_string(), json!(own)));
                entry["match"] = Value::Object(pairs.collect());
            }
            None => entry["if"] = lenient,
        }
        if let Some(within) = cancel.duration("timeout")? {
            entry["withinMs"] = json!(within);
        }
        entries.push(entry);
    }
    Ok((!entries.is_empty()).then_some(Value::Array(entries)))
}

/// Adds the optional key of a control.
fn with_key(mut control: Value, fields: &Fields<'_>) -> Read<Value> {
    if let Some(text) = fields.text("key")? {
        control["key"] = key(fields, "key", text)?;
    }
    Ok(control)
}

/// Converts the expression of a key: a path if it is one, else the expression itself.
fn key(fields: &Fields<'_>, name: &str, text: &str) -> Read<Value> {
    let expr = Expr::parse(text).map_err(|error| bad(fields, name, text, error))?;
    match expr.as_path() {
        Some(path) => Ok(json!(path)),
        None => Ok(json!({ "expr": lenient(fields, name, text, &EVENT)? })),
    }
}

/// Returns an expression for a definition, after checking it.
fn lenient(fields: &Fields<'_>, name: &str, text: &str, known: &[&str]) -> Read<Value> {
    let expr = Expr::parse(text).map_err(|error| bad(fields, name, text, error))?;
    if let Some(unknown) = expr.variables().into_iter().find(|it| !known.contains(it)) {
        let (place, known) = (fields.place(name), known.join("` or `"));
        return Err(format!("{place} has no variable `{unknown}`: it is `{known}`, got `{text}`"));
    }
    Ok(json!({ "lenient": text }))
}

fn bad(fields: &Fields<'_>, name: &str, text: &str, error: impl std::fmt::Display) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("{} has an error in `{shown}`: {error}", fields.place(name))
}

#[cfg(test)]
mod tests;
