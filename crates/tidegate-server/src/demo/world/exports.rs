//! Pauses: an operator stops the exports of one customer for a while.
//!
//! Look at the gate of `export-data` for umbrella: it names the pause with its author, reason and
//! end. Events of umbrella are queued and start after the pause; other customers are not delayed.

use serde_json::{Value, json};
use tidegate::{
    Author, Concurrency, Ctx, EngineBuilder, KeyValue, OverrideFields, OverrideTarget, Result,
    Timestamp, Workflow,
};
use tidegate_core::definition::DEFAULT_APP;
use tidegate_store::{Clock as _, SystemClock};

use super::{Check, Seen, Town, work};

const NAME: &str = "export-data";
const PATH: &str = "customer";
const OPERATOR: &str = "olga";

const PAUSED: &str = "umbrella";
const OTHERS: [&str; 2] = ["acme", "globex"];

/// Time before the first pause, length of a pause, and time until the next one.
const FIRST_PAUSE_MS: u64 = 500;
const PAUSE_MS: u64 = 20_000;
const BETWEEN_MS: u64 = 15_000;

/// Time after which a pause ends by itself, if the operator does not end it earlier.
const EXPIRY_MS: u64 = 60_000;

async fn export(ctx: Ctx, request: Value) -> Result<String> {
    ctx.step("read", || work(150)).await?;
    ctx.step("upload", || work(250)).await?;
    Ok(format!("the data of {}", request[PATH]))
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    builder.workflow(Workflow::new(NAME, export).concurrency(Concurrency::limit(2).key(PATH)))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let [acme, globex] = OTHERS;
    let all = tokio::try_join!(
        requests(&town, acme),
        requests(&town, globex),
        requests(&town, PAUSED),
        pauses(&town)
    );
    all.map(drop)
}

async fn requests(town: &Town, customer: &'static str) -> anyhow::Result<()> {
    let mut chance = town.chance(customer);
    while town.pause(chance.of(700..=1800)).await {
        let posted = town.send(NAME, json!({ PATH: customer })).await?;
        if let Some(run) = posted.run().filter(|_| customer == PAUSED) {
            town.ledger.watch(NAME, run);
        }
    }
    Ok(())
}

/// Pauses and resumes the customer, as an operator would in the console.
async fn pauses(town: &Town) -> anyhow::Result<()> {
    let operator =
        town.engine.acting_as(Author { name: Some(OPERATOR.to_owned()), ..Author::default() });
    let target = OverrideTarget {
        app: DEFAULT_APP.to_owned(),
        workflow: NAME.to_owned(),
        path: Some(PATH.to_owned()),
        key: Some(KeyValue::from(PAUSED)),
        ..OverrideTarget::default()
    };
    let mut goes_on = town.pause(FIRST_PAUSE_MS).await;
    while goes_on {
        let paused = OverrideFields { paused: Some(true), ..OverrideFields::default() };
        let reason = Some("umbrella moves its database");
        let end = SystemClock.now().plus_ms(EXPIRY_MS);
        let changed = operator.set_override(target.clone(), paused, reason, Some(end)).await?;
        goes_on = town.pause(PAUSE_MS).await;
        // The clock is read before the pause ends, so that no start after it counts as one in it.
        let to = SystemClock.now();
        operator.remove_override(target.clone()).await?;
        if let Some(over) = changed.after {
            town.ledger.span(NAME, over.at, to);
        }
        goes_on = goes_on && town.pause(BETWEEN_MS).await;
    }
    Ok(())
}

pub(super) fn held(seen: &Seen) -> Check {
    let (runs, pauses) = (seen.ledger.watched(NAME), seen.ledger.spans(NAME));
    let is_paused = |at: Timestamp| pauses.iter().any(|(from, to)| *from < at && at < *to);
    let times: Vec<_> = runs.iter().filter_map(|run| seen.times(*run)).collect();
    let queued = times.iter().filter(|times| is_paused(times.queued)).count();
    let started = times.iter().filter_map(|times| times.started);
    let (started, early) = (started.clone().count(), started.filter(|at| is_paused(*at)).count());
    let what = format!(
        "{queued} exports of {PAUSED} were queued in {} pauses, {early} started before the end; \
         {started} of all {} have started",
        pauses.len(),
        runs.len()
    );
    Check::new(queued > 0 && early == 0 && started == runs.len(), what)
}
