//! The themes of the demo: their workflows, traffic and checks.
//!
//! Each theme is one file. Its first comment says what to look at in the console.

mod accounts;
mod assistants;
mod billing;
mod digest;
mod editor;
mod expenses;
mod exports;
mod imports;
mod mail;
mod models;
pub(super) mod orders;
pub(super) mod printer;
mod reports;
mod search;
mod signups;
mod support;
mod texts;
mod trips;

use std::{sync::Arc, time::Duration};

use tidegate::EngineBuilder;
use tidegate_core::definition::DEFAULT_APP;
use tokio::task::JoinSet;

use super::{
    judge::{Check, Seen},
    ledger::Ledger,
    town::Town,
};
use crate::ingress::Ingress;

/// Adds all workflows and reactions, except that of the printer, which is a separate engine.
pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let builder = reports::serve(builder, ledger);
    let builder = support::serve(builder, ledger);
    let builder = billing::serve(builder, ledger);
    let builder = mail::serve(builder, ledger);
    let builder = editor::serve(builder, ledger);
    let builder = search::serve(builder, ledger);
    let builder = accounts::serve(builder, ledger);
    let builder = signups::serve(builder);
    let builder = assistants::serve(builder, ledger);
    let builder = orders::serve(builder, ledger);
    let builder = models::serve(builder, ledger);
    let builder = exports::serve(builder);
    let builder = texts::serve(builder, ledger);
    let builder = trips::serve(builder);
    let builder = imports::serve(builder);
    let builder = expenses::serve(builder);
    digest::serve(builder)
}

/// Returns the HTTP ingress of the flows.
pub(super) fn ways() -> anyhow::Result<Ingress> {
    let mut flows = [support::way(), billing::way()];
    Ingress::take(DEFAULT_APP, &mut flows, |_| Some(billing::SECRET.to_owned()))
}

/// Starts the traffic generators of all themes. They run until the traffic must stop.
pub(super) fn traffic(town: &Town) -> JoinSet<()> {
    let mut everybody = JoinSet::new();
    everybody.spawn(keep(town.clone(), reports::traffic));
    everybody.spawn(keep(town.clone(), support::traffic));
    everybody.spawn(keep(town.clone(), billing::traffic));
    everybody.spawn(keep(town.clone(), mail::traffic));
    everybody.spawn(keep(town.clone(), printer::traffic));
    everybody.spawn(keep(town.clone(), editor::traffic));
    everybody.spawn(keep(town.clone(), search::traffic));
    everybody.spawn(keep(town.clone(), accounts::traffic));
    everybody.spawn(keep(town.clone(), signups::traffic));
    everybody.spawn(keep(town.clone(), assistants::traffic));
    everybody.spawn(keep(town.clone(), orders::traffic));
    everybody.spawn(keep(town.clone(), models::traffic));
    everybody.spawn(keep(town.clone(), exports::traffic));
    everybody.spawn(keep(town.clone(), texts::traffic));
    everybody.spawn(keep(town.clone(), trips::traffic));
    everybody.spawn(keep(town.clone(), imports::traffic));
    everybody.spawn(keep(town.clone(), expenses::traffic));
    everybody
}

/// Pause of a traffic generator after an error.
const OFFENDED_MS: u64 = 5000;

/// Runs a traffic generator, and restarts it after an error. A user may cause one, for example by
/// deleting a workflow.
async fn keep<F>(town: Town, traffic: impl Fn(Town) -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    while let Err(error) = traffic(town.clone()).await {
        town.ledger.broken("traffic", &format!("{error:#}"));
        if !town.pause(OFFENDED_MS).await {
            return;
        }
    }
}

/// Runs the checks of all themes.
pub(super) fn checks(seen: &Seen) -> Vec<Check> {
    vec![
        reports::limits(seen),
        reports::waits(seen),
        support::order(seen),
        billing::once(seen),
        mail::spread(seen),
        printer::priority(seen),
        editor::last(seen),
        search::all(seen),
        accounts::newest(seen),
        signups::refused(seen),
        assistants::drained(seen),
        orders::invoiced(seen),
        trips::undone(seen),
        models::shared(seen),
        models::turns(seen),
        exports::held(seen),
        texts::closed(seen),
    ]
}

/// Simulates work that takes this many milliseconds.
async fn work(ms: u64) -> tidegate::Result<()> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(())
}
