//! The workflows, their controls, and the tables of the application.

use std::{path::Path, time::Duration};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate::{EngineBuilder, prelude::*};

use crate::outside::Outside;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time after which a new customer who has not used the product again gets a reminder.
pub const REMINDER: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// Maximum number of model calls for one answer.
const TURNS: usize = 5;

/// Workflow for a new customer. Returns whether a reminder was sent.
pub const ONBOARD: WorkflowRef<Signup, bool> = WorkflowRef::new("onboard");
/// Workflow for a report. Returns the address of the report.
pub const REPORT: WorkflowRef<Report, String> = WorkflowRef::new("report");
/// Workflow for a trip: makes both bookings or neither.
pub const TRIP: WorkflowRef<Trip, Vec<String>> = WorkflowRef::new("trip");
/// Workflow for a question. Emits the answer word by word.
pub const ANSWER: WorkflowRef<Question, String> = WorkflowRef::new("answer");

/// Event of a customer who has used the product.
pub const SEEN: &str = "customer.seen";

/// A new customer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Signup {
    /// Name of the customer.
    pub tenant: String,
    /// Mail address of the customer.
    pub mail: String,
}

/// A report for a customer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the customer.
    pub tenant: String,
    /// Month of the report.
    pub month: u32,
}

/// A trip to book.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trip {
    /// Destination.
    pub to: String,
}

/// A question to the assistant.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    /// Name of the customer.
    pub tenant: String,
    /// Text of the question.
    pub text: String,
}

/// Creates the tables of the application in the engine's file. The engine must have opened the file
/// before.
pub fn create_tables(path: impl AsRef<Path>) -> rusqlite::Result<()> {
    let tables = "create table if not exists app_account (
        tenant text primary key
    )";
    Connection::open(path)?.execute_batch(tables)
}

/// Adds all workflows to an engine.
pub fn serve(engine: EngineBuilder, outside: Outside) -> EngineBuilder {
    let retry = Retry::attempts(3).fixed(Duration::from_secs(10));
    engine
        .state(outside)
        // A customer who clicks twice is welcomed once.
        .workflow(
            Workflow::new(ONBOARD.name(), onboard)
                .idempotency(Idempotency::within(DAY).key("tenant"))
                // A customer who comes back during the two days is seen by the wait after them.
                .waits_for(WaitsFor::event(SEEN).matching("tenant", "tenant")),
        )
        // At most two reports per customer at a time, however many customers there are.
        .workflow(
            Workflow::new(REPORT.name(), report)
                .concurrency(Concurrency::limit(2).key("tenant").for_the_whole_run()),
        )
        .workflow(Workflow::new(TRIP.name(), trip).retry(retry))
        .workflow(
            Workflow::new(ANSWER.name(), answer)
                .rate_limit(Rate::per_minute(10).burst(10).key("tenant")),
        )
}

async fn onboard(ctx: Ctx, signup: Signup) -> Result<bool> {
    let outside = ctx.state::<Outside>()?;
    // The row and the step's record are written in one transaction, so the account is created
    // exactly once.
    let tenant = signup.tenant.clone();
    let create = ctx.sqlite_step("create account", move |tx| {
        Ok(tx.execute("insert into app_account (tenant) values (?1)", [&tenant])?)
    });
    create.await?;
    let (key, text) = (ctx.idempotency_key("welcome"), format!("welcome {}", signup.mail));
    ctx.step("welcome", || outside.call(&text, &key)).await?;

    ctx.sleep("two days", REMINDER).await?;
    let seen = ctx.wait_for_event::<Value>("seen?", SEEN).matching("tenant", &signup.tenant);
    if seen.timeout(Duration::ZERO).await?.is_some() {
        return Ok(false);
    }
    let (key, text) = (ctx.idempotency_key("remind"), format!("remind {}", signup.mail));
    ctx.step("remind", || outside.call(&text, &key)).await?;
    Ok(true)
}

async fn report(ctx: Ctx, report: Report) -> Result<String> {
    let outside = ctx.state::<Outside>()?;
    let (key, text) = (ctx.idempotency_key("export"), format!("export {}", report.tenant));
    ctx.step("export", || outside.call(&text, &key)).await?;
    // The data warehouse takes some time. Meanwhile the run needs no worker, but keeps its slot.
    ctx.sleep("warehouse", Duration::from_secs(60)).await?;
    Ok(format!("/files/{}-{}.pdf", report.tenant, report.month))
}

async fn trip(ctx: Ctx, trip: Trip) -> Result<Vec<String>> {
    let outside = ctx.state::<Outside>()?;
    let mut booked = Vec::new();
    for what in ["flight", "hotel"] {
        // Registered before the booking, so that the booking is cancelled even if a crash leaves
        // open whether it happened.
        let (undo, text) = (outside.clone(), format!("cancel {what} in {}", trip.to));
        let key = ctx.idempotency_key(&format!("cancel {what}"));
        ctx.compensate(format!("{what} booked"), move || async move {
            undo.call(&text, &key).await.map(drop)
        })
        .await?;
        let (key, text) = (ctx.idempotency_key(what), format!("book {what} in {}", trip.to));
        booked.push(ctx.step(format!("book {what}"), || outside.call(&text, &key)).await?);
    }
    Ok(booked)
}

async fn answer(ctx: Ctx, question: Question) -> Result<String> {
    let outside = ctx.state::<Outside>()?;
    let mut messages = vec![question.text];
    for turn in 0..TURNS {
        let ask = ctx.step(format!("model {turn}"), || async {
            let reply = outside.complete(&messages).await?;
            reply.words.iter().try_for_each(|word| ctx.emit(word))?;
            Ok(reply)
        });
        let reply = ask.await?;
        let Some(tool) = reply.tool else { return Ok(reply.words.join(" ")) };
        let (step, key) = (format!("tool {turn}"), ctx.idempotency_key(&format!("tool {turn}")));
        messages.push(ctx.step(step, || outside.call(&tool, &key)).await?);
    }
    Err(StepError::coded("TooManyTurns", format!("no answer after {TURNS} turns")).fatal())
}
