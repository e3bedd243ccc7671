//! Streams and reactions: a stream of orders per city, and two reactions to them.
//!
//! Look at the reaction `invoices`: now and then an order is damaged, and its stream is blocked
//! with the error, while the streams of other cities and the reaction `stock` continue. Unblock it:
//! the order is repaired then, and the stream continues.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tidegate::{EngineBuilder, EventId, Reaction, ReactionCtx, Result, StepError, events};
use tidegate_core::reaction::{Backoff, BackoffKind, Filter, StreamSelection};

use super::{Check, Ledger, Seen, Town, work};

const INVOICES: &str = "invoices";
const CITIES: [&str; 4] = ["berlin", "lisbon", "oslo", "quito"];

/// Number of retries of a damaged order before its stream is blocked.
const RETRIES: u32 = 1;

#[derive(Serialize, Deserialize)]
enum Order {
    Placed { order: u64, cents: u64, damaged: bool },
    Shipped { order: u64 },
}

/// Number of attempts per damaged order. An order counts as repaired once its stream was blocked.
type Tries = Arc<Mutex<BTreeMap<EventId, u32>>>;

async fn invoice(ctx: ReactionCtx, order: Order, tries: Tries) -> Result<()> {
    let Order::Placed { order, cents, damaged } = order else { return Ok(()) };
    work(20).await?;
    if damaged {
        let mut tries = tries.lock().unwrap_or_else(PoisonError::into_inner);
        let count = tries.entry(ctx.event().id).or_default();
        *count += 1;
        if *count <= RETRIES + 1 {
            return Err(StepError::coded("Damaged", format!("order {order} has no address")));
        }
        tries.remove(&ctx.event().id);
    }
    ctx.commit_named(INVOICES, "Written", serde_json::json!({ "order": order, "cents": cents }))
}

async fn take_from_stock(order: Order, ledger: Arc<Ledger>) -> Result<()> {
    if let Order::Placed { .. } = order {
        ledger.count("orders in stock", 1);
    }
    Ok(())
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let (tries, ledger) = (Tries::default(), ledger.clone());
    let backoff = Backoff { kind: BackoffKind::Fixed, ms: 300, max_ms: 300, jitter: false };
    let invoices = Reaction::new(INVOICES)
        .source("orders-*")
        .max_retries(RETRIES)
        .backoff(&backoff)
        .on(move |ctx, order| invoice(ctx, order, tries.clone()));
    let stock = Reaction::new("stock")
        .source("orders-*")
        .on(move |_, order| take_from_stock(order, ledger.clone()));
    builder.reaction(invoices).reaction(stock)
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(INVOICES);
    for order in 0.. {
        let stream = format!("orders-{}", chance.pick(&CITIES));
        // One damaged order per minute, the first after a few seconds. A user has most of a minute
        // to unblock its stream.
        let damaged = order % 60 == 2;
        let cents = chance.of(900..=40_000);
        commit(&town, &stream, &Order::Placed { order, cents, damaged }).await?;
        town.ledger.count("orders", 1);
        if !town.pause(chance.of(500..=1000)).await {
            break;
        }
        commit(&town, &stream, &Order::Shipped { order }).await?;
        if order % 60 == 50 {
            mend(&town).await?;
        }
    }
    Ok(())
}

async fn commit(town: &Town, stream: &str, order: &Order) -> anyhow::Result<()> {
    town.engine.streams().commit(stream, vec![events::of(order)?], None).await?;
    Ok(())
}

/// Unblocks the streams that are still blocked.
pub(in crate::demo) async fn mend(town: &Town) -> anyhow::Result<()> {
    let unblocked =
        town.engine.unblock(INVOICES, StreamSelection::Where(Filter::default())).await?;
    town.ledger.count("streams unblocked", unblocked.len());
    Ok(())
}

pub(super) fn invoiced(seen: &Seen) -> Check {
    let (orders, stock) = (seen.ledger.counted("orders"), seen.ledger.counted("orders in stock"));
    let (invoices, unblocked) =
        (seen.events_in(INVOICES), seen.ledger.counted("streams unblocked"));
    let what = format!(
        "{orders} orders, {invoices} invoices, {stock} taken from stock; \
         {unblocked} blocked streams unblocked"
    );
    Check::new(unblocked > 0 && invoices == orders && stock >= orders, what)
}
