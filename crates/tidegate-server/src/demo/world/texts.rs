//! Closing: a provider that refuses calls with 429 until its quota is renewed.
//!
//! Look at the gate of `send-text`: the run that was refused closes it until the time of
//! `Retry-After`. The other runs wait there, instead of being refused one after another.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, EngineBuilder, GateToClose, Result, Retry, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "send-text";
const REFUSED: &str = "texts refused";
const AT_ONCE: u32 = 3;

/// Number of texts in one burst: more than twice the quota.
const BURST: u64 = 24;

/// Maximum number of refusals before the gate is closed: the calls under way, and one more for
/// each, which may begin while the refusal is recorded.
const MOST_REFUSALS: u32 = 2 * AT_ONCE;

/// Calls that the provider accepts in one period, which begins with the first of them.
const QUOTA: u32 = 10;
const PERIOD: Duration = Duration::from_secs(4);

/// The provider, which other programs use, too: it knows nothing of the engine.
#[derive(Debug)]
struct Provider {
    began: Instant,
    calls: u32,
    refusals: u32,
}

impl Provider {
    /// Accepts a call, or returns the time after which to repeat it, as `Retry-After` does.
    fn call(&mut self, ledger: &Ledger) -> Option<Duration> {
        if self.began.elapsed() >= PERIOD {
            *self = Self { began: Instant::now(), calls: 0, refusals: 0 };
        }
        self.calls += 1;
        if self.calls <= QUOTA {
            return None;
        }
        self.refusals += 1;
        ledger.count(REFUSED, 1);
        if self.refusals > MOST_REFUSALS {
            ledger.broken(NAME, &format!("{} refusals in one period", self.refusals));
        }
        Some(PERIOD.saturating_sub(self.began.elapsed()) + Duration::from_millis(50))
    }
}

async fn send(
    ctx: Ctx,
    text: Value,
    provider: Arc<Mutex<Provider>>,
    ledger: Arc<Ledger>,
) -> Result<String> {
    let call = || async {
        work(200).await?;
        let refused = provider.lock().unwrap_or_else(PoisonError::into_inner).call(&ledger);
        match refused {
            Some(retry_after) => Err(ctx.close_gate(GateToClose::Concurrency, retry_after)),
            None => Ok(()),
        }
    };
    // A refusal is no failed attempt, so one attempt is enough.
    ctx.step("call the provider", call).retry(Retry::attempts(1)).await?;
    Ok(format!("sent to {}", text["to"]))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let provider = Provider { began: Instant::now(), calls: 0, refusals: 0 };
    let (provider, ledger) = (Arc::new(Mutex::new(provider)), ledger.clone());
    let workflow =
        Workflow::new(NAME, move |ctx, text| send(ctx, text, provider.clone(), ledger.clone()));
    builder.workflow(workflow.concurrency(Concurrency::limit(AT_ONCE)))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    loop {
        for n in 1..=BURST {
            town.send(NAME, json!({ "to": format!("+49 30 555 {n:02}") })).await?;
        }
        if !town.pause(chance.of(14_000..=16_000)).await {
            return Ok(());
        }
    }
}

pub(super) fn closed(seen: &Seen) -> Check {
    let (texts, refused) = (seen.of(NAME), seen.ledger.counted(REFUSED));
    let broken = seen.ledger.all_broken(NAME);
    let holds = refused > 0 && texts.failed == 0 && texts.alive == 0 && broken.is_empty();
    let what = format!(
        "{} texts, {refused} calls refused, at most {MOST_REFUSALS} until the gate is closed, \
         {} texts failed {}",
        texts.runs,
        texts.failed,
        broken.join("; ")
    );
    Check::new(holds, what.trim_end())
}
