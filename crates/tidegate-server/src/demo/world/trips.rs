//! Compensation: a trip is booked in parts; if it fails, the booked parts are undone.
//!
//! Look at a failed run of `book-trip`: the flight and the hotel are child runs, the card was tried
//! three times, and the bookings were undone by a run that `compensates` it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Result, Retry, StepError, Workflow};

use super::{Check, Seen, Town, work};

const NAME: &str = "book-trip";

#[derive(Serialize, Deserialize)]
struct Trip {
    to: String,
    /// Number of attempts in which the card is refused.
    refusals: u32,
}

async fn book_trip(ctx: Ctx, trip: Trip) -> Result<Value> {
    let to = json!({ "to": trip.to });
    // The compensation is registered before the booking, so that a booking can always be undone.
    ctx.compensate("the flight", || work(200)).await?;
    ctx.compensate("the hotel", || work(200)).await?;
    let flight = ctx.invoke::<_, String>("flight", "book-flight", &to);
    let hotel = ctx.invoke::<_, String>("hotel", "book-hotel", &to);
    let (flight, hotel) = tokio::try_join!(flight, hotel)?;
    ctx.step("charge", || async {
        work(150).await?;
        if ctx.attempt("charge") <= trip.refusals {
            return Err(StepError::coded("CardRefused", "the bank says no"));
        }
        Ok(())
    })
    .retry(Retry::attempts(3).fixed(Duration::from_millis(800)))
    .await?;
    Ok(json!({ "flight": flight, "hotel": hotel }))
}

async fn book_flight(ctx: Ctx, trip: Value) -> Result<String> {
    ctx.step("hold a seat", || work(300)).await?;
    ctx.sleep("wait for the airline", Duration::from_millis(900)).await?;
    Ok(format!("seat 12A to {}", trip["to"]))
}

async fn book_hotel(ctx: Ctx, trip: Value) -> Result<String> {
    ctx.step("hold a room", || work(500)).await?;
    Ok(format!("room 7 in {}", trip["to"]))
}

/// Failure handler, called once after a trip has failed permanently.
async fn apologise(ctx: Ctx, _: Trip) -> Result<()> {
    ctx.step("apologise", || work(80)).await
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    builder
        .workflow(Workflow::new(NAME, book_trip).on_failure(apologise))
        .workflow(Workflow::new("book-flight", book_flight))
        .workflow(Workflow::new("book-hotel", book_hotel))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    // In turn: a card that works at once, a card that never works, and a card that works at the
    // second attempt.
    for refusals in [0, 3, 1].into_iter().cycle() {
        let to = chance.pick(&["Lima", "Kyoto", "Tromsø", "Turin"]).to_owned();
        town.send(NAME, Trip { to, refusals }).await?;
        if !town.pause(chance.of(2500..=5000)).await {
            break;
        }
    }
    Ok(())
}

pub(super) fn undone(seen: &Seen) -> Check {
    let (trips, undone) = (seen.of(NAME), seen.of(NAME).undoing);
    let what = format!("{} trips, {} failed, {undone} compensated", trips.runs, trips.failed);
    Check::new(trips.failed > 0 && undone == trips.failed, what)
}
