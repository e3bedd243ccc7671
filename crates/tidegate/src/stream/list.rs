//! Listing of streams.

use tidegate_core::{
    reads::{ReadSet, Scan},
    row::Row,
    time::Timestamp,
};

use super::Streams;
use crate::error::Error;

/// A stream, as [`Streams::list`](crate::Streams::list) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name of the stream.
    pub name: String,
    /// Version of the last event.
    pub version: i64,
    /// Whether the stream is closed: it takes no more commits.
    pub closed: bool,
    /// Position of the last event among all events of the workspace.
    pub position: Option<i64>,
    /// Time at which the last event was committed.
    pub at: Option<Timestamp>,
}

impl Streams {
    /// Returns at most `limit` streams of the workspace, ordered by name, after the given name.
    pub async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<Listed>, Error> {
        let store = self.engine.store();
        let scan = Scan::Streams(self.engine.ws(), after.unwrap_or_default().to_owned());
        let snapshot = store.read(ReadSet::default().scan(scan.clone(), limit)).await?;
        let rows = snapshot.found(&scan).into_iter();
        let streams: Vec<_> = rows
            .filter_map(|row| if let Row::Stream(it) = row { Some(it.clone()) } else { None })
            .collect();
        // The row of a stream has no position, so the last event of each stream is read.
        let last = |stream: &tidegate_core::row::Stream| Scan::Log(stream.id, stream.head);
        let reads =
            streams.iter().fold(ReadSet::default(), |reads, stream| reads.scan(last(stream), 1));
        let snapshot = store.read(reads).await?;
        let listed = streams.into_iter().map(|stream| {
            let event = match snapshot.found(&last(&stream))[..] {
                [Row::StreamEventRow(event)] => Some((event.pos, event.at)),
                _ => None,
            };
            Listed {
                name: stream.name,
                version: stream.head,
                closed: stream.closed,
                position: event.map(|(position, _)| position),
                at: event.map(|(_, at)| at),
            }
        });
        Ok(listed.collect())
    }
}
