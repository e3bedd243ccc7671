//! Rate limit: a robot that signs up again and again.
//!
//! Look at the receipts of `signup`: events beyond the rate of an address are dropped, with the
//! time from which the next one would be admitted. People at other addresses are not affected.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Rate, Result, Workflow};

use super::{Check, Seen, Town, work};

const NAME: &str = "signup";
const ROBOT: &str = "203.0.113.9";

/// Maximum number of sign-ups per ten seconds from one address; it is also the burst.
const LIMIT: u32 = 3;
const PERIOD: Duration = Duration::from_secs(10);

async fn sign_up(ctx: Ctx, form: Value) -> Result<String> {
    ctx.step("create the account", || work(90)).await?;
    ctx.step("welcome", || work(40)).await?;
    Ok(format!("{} is in", form["name"]))
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    let rate = Rate::of(LIMIT, PERIOD).key("address");
    builder.workflow(Workflow::new(NAME, sign_up).rate_limit(rate))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    tokio::try_join!(robot(&town), people(&town)).map(drop)
}

async fn robot(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(ROBOT);
    while town.pause(chance.of(300..=900)).await {
        let form = json!({ "name": format!("x{}", chance.of(1..=9999)), "address": ROBOT });
        let posted = town.send(NAME, form).await?;
        let let_in = usize::from(posted.run().is_some());
        town.ledger.count("robots let in", let_in);
    }
    Ok(())
}

async fn people(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    while town.pause(chance.of(1500..=4000)).await {
        let name = chance.pick(&["Alan", "Barbara", "Edsger", "Frances", "Tony"]);
        let address = format!("198.51.100.{}", chance.of(1..=254));
        town.send(NAME, json!({ "name": name, "address": address })).await?;
    }
    Ok(())
}

pub(super) fn refused(seen: &Seen) -> Check {
    let (robots, refused) = (seen.ledger.counted("robots let in"), seen.of(NAME).refused);
    let time = seen.ledger.until_last("robots let in");
    let turns = time.as_millis() * u128::from(LIMIT) / PERIOD.as_millis();
    let most = u128::from(LIMIT) + turns;
    let what = format!(
        "{robots} signups of the robot admitted, at most {most} allowed; {refused} dropped"
    );
    Check::new(refused > 0 && u128::from(robots) <= most, what)
}
