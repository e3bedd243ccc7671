//! Catch-up of a reaction on streams that existed before it.
//!
//! A commit adds its stream to the reactions that are defined at that time, so a new reaction would
//! never see a stream without new commits. Every start of an engine scans all streams; a stream
//! that is already followed costs only a read.

use std::sync::Arc;

use tidegate_core::{
    command::{Command, StreamCommand},
    reaction::Source,
    reads::{ReadSet, Scan},
    row::{Row, RowKey, Stream},
};

use super::{lease::pause, runner::Runner};
use crate::{engine::Shared, error::Error};

/// Number of streams checked at a time.
const PAGE: u32 = 500;

/// Number of streams after which the progress is logged.
const TELL: usize = 10_000;

/// Follows all existing streams of the reaction's source. Retries until all are followed.
pub(crate) async fn follow(shared: &Arc<Shared>, runner: &Arc<Runner>) {
    // A reaction that starts at the heads follows a stream from its next event on.
    if runner.served.definition.from_head {
        return;
    }
    let reaction = &runner.served.definition.name;
    while let Err(error) = bring_up(shared, runner).await {
        tracing::warn!(%error, reaction, "catching up on existing streams failed, retrying");
        pause(shared).await;
    }
}

async fn bring_up(shared: &Arc<Shared>, runner: &Runner) -> Result<(), Error> {
    let definition = &runner.served.definition;
    let mut after = first(&definition.source);
    let (mut seen, mut followed, mut failed) = (0, 0, None);
    loop {
        let page = page(shared, runner, &after).await?;
        let Some(last) = page.last().map(|stream| stream.name.clone()) else { break };
        let covered: Vec<&Stream> =
            page.iter().filter(|it| definition.source.covers(&it.name)).collect();
        let more = page.len() >= PAGE as usize && goes_on(&definition.source, &last);
        let (count, error) = follow_all(shared, runner, &covered).await?;
        followed += count;
        failed = error.or(failed);
        seen += covered.len();
        if seen / TELL != (seen - covered.len()) / TELL {
            let reaction = &definition.name;
            tracing::info!(reaction, seen, followed, "catching up on existing streams");
        }
        if !more {
            break;
        }
        after = last;
    }
    if followed > 0 {
        let reaction = &definition.name;
        tracing::info!(reaction, followed, "caught up on existing streams");
    }
    failed.map_or(Ok(()), Err)
}

/// Returns a name that sorts before all streams of a source.
fn first(source: &Source) -> String {
    let (Source::Stream(name) | Source::Family(name)) = source else { return String::new() };
    // The name without its last character sorts before the name. Streams in between are filtered
    // out later.
    let mut before = name.clone();
    before.pop();
    before
}

/// Returns whether streams of the source may sort after `last`.
fn goes_on(source: &Source, last: &str) -> bool {
    match source {
        Source::Stream(name) => last < name.as_str(),
        Source::Family(prefix) => last < prefix.as_str() || last.starts_with(prefix.as_str()),
        Source::All => true,
    }
}

async fn page(shared: &Shared, runner: &Runner, after: &str) -> Result<Vec<Stream>, Error> {
    let scan = Scan::Streams(runner.ws.clone(), after.to_owned());
    let snapshot = shared.store.read(ReadSet::default().scan(scan.clone(), PAGE)).await?;
    let streams = snapshot.found(&scan).into_iter().filter_map(|row| match row {
        Row::Stream(stream) => Some(stream.clone()),
        _ => None,
    });
    Ok(streams.collect())
}

/// Follows the streams that the reaction does not follow yet. Returns their number, and the last
/// error, if any: one stream that cannot be followed does not stop the loop.
async fn follow_all(
    shared: &Shared,
    runner: &Runner,
    streams: &[&Stream],
) -> Result<(usize, Option<Error>), Error> {
    let reaction = &runner.served.definition.name;
    let key = |stream: &Stream| {
        RowKey::Subscription(runner.ws.clone(), reaction.clone(), stream.name.clone())
    };
    let reads = streams.iter().map(|it| key(it)).fold(ReadSet::default(), ReadSet::row);
    let snapshot = shared.store.read(reads).await?;
    let missing = streams.iter().filter(|stream| match snapshot.rows.get(&key(stream)) {
        Some(Some(Row::Subscription(sub))) => sub.log != stream.id || sub.want < stream.head,
        _ => true,
    });
    let asked: Vec<_> = missing
        .map(|stream| {
            let (reaction, stream) = (reaction.clone(), stream.name.clone());
            let command = StreamCommand::Follow { reaction, stream };
            shared.ask(Command::Stream { ws: runner.ws.clone(), command })
        })
        .collect();
    let (mut followed, mut failed) = (0, None);
    for answer in asked {
        match answer.await {
            Ok(_) => followed += 1,
            Err(error) => failed = Some(error),
        }
    }
    Ok((followed, failed))
}
