//! Idempotency: a payment provider sends each webhook twice.
//!
//! Look at the receipts of `billing/settle`: each delivery has one run, and the repeated delivery
//! is `deduped` with the id of the first run.

use std::{sync::Arc, time::Duration};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tidegate::{Action, Ctx, EngineBuilder, Flow, Idempotency, Policy, Result};
use tidegate_store::{Clock as _, SystemClock};

use super::{Check, Ledger, Seen, Town, work};
use crate::sign::{self, Secret};

const FLOW: &str = "billing";
const ACTION: &str = "billing/settle";

/// Secret that provider and server share. A real one would be read from the environment.
pub(super) const SECRET: &str = "whsec_dGlkZWdhdGUtZGVtbw==";

async fn settle(ctx: Ctx, delivery: Value, ledger: Arc<Ledger>) -> Result<Value> {
    ctx.step("look up the invoice", || work(150)).await?;
    let booked = ctx.step("book", || async {
        ledger.count("payments booked", 1);
        Ok(delivery["cents"].clone())
    });
    booked.await
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let (ledger, delivery) = (ledger.clone(), "metadata.webhook.deliveryId");
    let settle = Action::new("settle", move |ctx, input| settle(ctx, input, ledger.clone()))
        .policy(Policy::reject().key(delivery))
        .idempotency(Idempotency::within(Duration::from_mins(10)).key(delivery));
    builder.flow(Flow::new(FLOW).action(settle))
}

/// Returns the HTTP ingress of the flow.
pub(super) fn way() -> Value {
    json!({
        "name": FLOW,
        "actions": { "settle": {} },
        "webhooks": {
            "provider": { "action": "settle", "scheme": "standard", "secretEnv": "any" },
        },
    })
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(FLOW);
    for n in 1.. {
        let body = json!({ "type": "invoice.paid", "cents": chance.of(500..=90_000) }).to_string();
        let id = format!("delivery-{n}");
        let (once, twice) = tokio::try_join!(fire(&town, &id, &body), fire(&town, &id, &body))?;
        town.ledger.count("deliveries", 1);
        if [once, twice].iter().filter(|it| **it == StatusCode::ACCEPTED).count() != 1 {
            town.ledger.broken(
                ACTION,
                &format!(
                    "{id}, sent twice: expected exactly one status 202, got {once} and {twice}"
                ),
            );
        }
        if !town.pause(chance.of(1500..=4000)).await {
            break;
        }
    }
    Ok(())
}

/// Sends one delivery, signed as in Standard Webhooks.
async fn fire(town: &Town, id: &str, body: &str) -> anyhow::Result<StatusCode> {
    let seconds = SystemClock.now().micros() / 1_000_000;
    let signature = sign::standard(&Secret::read_all(SECRET)?, id, seconds, body);
    let url = format!("{}/webhooks/{FLOW}/provider", town.server);
    let request = town.http.post(url).header("content-type", "application/json");
    let request = request.header("webhook-id", id).header("webhook-signature", signature);
    let request = request.header("webhook-timestamp", seconds).body(body.to_owned());
    let answer = request.send().await?.error_for_status()?;
    Ok(answer.status())
}

pub(super) fn once(seen: &Seen) -> Check {
    let (deliveries, booked) =
        (seen.ledger.counted("deliveries"), seen.ledger.counted("payments booked"));
    let (runs, broken) = (seen.of(ACTION).runs, seen.ledger.all_broken(ACTION));
    let holds = deliveries > 0 && runs == deliveries && booked == runs && broken.is_empty();
    let what = format!("{deliveries} deliveries, each sent twice: {runs} runs, {booked} booked");
    Check::new(holds, format!("{what} {}", broken.join("; ")).trim_end())
}
