//! The `send` command.

use anyhow::Context;
use serde_json::{Value, json};

use super::{Server, text};
use crate::progress::Progress;

/// Maximum number of events in a request.
const AT_ONCE: u32 = 1000;

/// A field whose value changes from event to event.
#[derive(Clone, Debug)]
pub(crate) struct Vary {
    field: String,
    values: u32,
}

pub(super) fn read_vary(text: &str) -> Result<Vary, String> {
    let (field, values) = text.split_once('=').ok_or("must be FIELD=N, such as account=20")?;
    match values.parse() {
        Ok(values) if values > 0 => Ok(Vary { field: field.to_owned(), values }),
        _ => Err(format!("N must be a number above 0, got `{values}`")),
    }
}

/// Parses a time span like `90s`, `10m`, `36h` or `3d`. Returns it in milliseconds.
pub(super) fn read_delay(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let read = units.iter().find_map(|(unit, ms)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*ms)
    });
    read.ok_or_else(|| format!("must be a number with ms, s, m, h or d, such as 10m, got `{text}`"))
}

/// Parses the data of an event. A text without quotes is an error: mostly it is JSON with a
/// mistake.
pub(super) fn read_data(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).with_context(|| {
        let quoted = Value::from(text);
        format!("the data must be JSON, got `{text}`; for a text write '{quoted}'")
    })
}

/// Sends an event `count` times, with as many events per request as allowed.
pub(super) async fn send(
    server: &Server<'_>,
    event: &Value,
    (count, vary): (u32, Option<&Vary>),
    dry_run: bool,
) -> anyhow::Result<Value> {
    let path = if dry_run { "/events?dryRun=true" } else { "/events" };
    let (count, mut sent, mut all) = (count.max(1), 0, Vec::new());
    let progress = Progress::of(if count > AT_ONCE { count.into() } else { 0 });
    while sent < count {
        let until = count.min(sent + AT_ONCE);
        let events = (sent..until).map(|n| varied(event, vary, n));
        let events = events.collect::<anyhow::Result<Vec<_>>>()?;
        let mut answer = server.post(path, events.into()).await?;
        all.extend(answer["events"].as_array_mut().map(std::mem::take).unwrap_or_default());
        sent = until;
        progress.at(sent.into());
    }
    Ok(json!({ "events": all }))
}

/// Returns the n-th event: the event, with the varied field set.
fn varied(event: &Value, vary: Option<&Vary>, n: u32) -> anyhow::Result<Value> {
    let mut event = event.clone();
    if let Some(Vary { field, values }) = vary {
        if event["data"].is_null() {
            event["data"] = json!({});
        }
        let data = event["data"].as_object_mut();
        let data = data.context("--vary needs an object as data")?;
        data.insert(field.clone(), (n % values).into());
    }
    Ok(event)
}

/// Formats the number of each verdict by workflow, with the control that decided it.
pub(super) fn verdicts(answer: &Value) -> String {
    let mut counts: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
    let events = answer["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    for event in events {
        let runs = event["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
        for run in runs {
            let by = run["control"].as_str().map(|control| format!(" by {control}"));
            let reason = run["error"].as_str().map(|error| format!(" ({error})"));
            let (by, reason) = (by.unwrap_or_default(), reason.unwrap_or_default());
            let word = format!("{}{by}{reason}", text(&run["outcome"]));
            *counts.entry((text(&run["workflow"]), word)).or_default() += 1;
        }
        if let Some(cancelled) = event["cancelled"].as_u64() {
            let noun = if cancelled == 1 { "run" } else { "runs" };
            let word = format!("recorded: it cancelled {cancelled} {noun} by cancelOn");
            *counts.entry((String::new(), word)).or_default() += 1;
        } else if runs.is_empty() {
            let word = match (&event["deduped"], event["woke"].as_u64()) {
                (Value::Bool(true), _) => "deduped",
                _ if event["deliverAt"].is_string() => "deferred: delivered later",
                (_, Some(1..)) => "recorded: it resumed waiting runs",
                _ => "recorded: triggers no workflow",
            };
            *counts.entry((String::new(), word.to_owned())).or_default() += 1;
        }
    }
    let lines = counts.into_iter().map(|((workflow, word), count)| {
        if workflow.is_empty() {
            format!("{count} {word}\n")
        } else {
            format!("{count} {word}: {workflow}\n")
        }
    });
    lines.collect()
}
