//! Compares the final content of the streams with the journal.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::events;
use tidegate_core::row::Row;

use crate::{journal::Line, writers::Work};

/// Events of every stream, by version.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) streams: BTreeMap<String, Vec<Entry>>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) version: i64,
    pub(crate) position: i64,
    pub(crate) name: String,
    pub(crate) data: tidegate_core::json::Payload,
}

/// Number of attempted commits, by result.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) done: usize,
    pub(crate) conflicts: usize,
    /// Number of events that are committed but were never reported, because their process was
    /// killed.
    pub(crate) unreported: usize,
}

impl Ledger {
    /// spec B183, B193: the versions of every stream are exactly 0 to n-1. Positions increase with
    /// the versions, and over all streams they are exactly 1 to N.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let (mut names, mut heads) = (BTreeMap::new(), BTreeMap::new());
        for row in rows {
            if let Row::Stream(stream) = row {
                names.insert(stream.id, stream.name.clone());
                heads.insert(stream.name.clone(), stream.head);
            }
        }
        let mut streams: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for row in rows {
            if let Row::StreamEventRow(it) = row {
                let (name, data) = (it.name.clone(), it.data.clone());
                let entry = Entry { version: it.version, position: it.pos, name, data };
                streams.entry(names[&it.stream].clone()).or_default().push(entry);
            }
        }
        let mut positions = BTreeSet::new();
        for (name, entries) in &mut streams {
            entries.sort_by_key(|entry| entry.version);
            let versions = entries.iter().map(|entry| entry.version);
            assert!(versions.eq(0..=heads[name]), "`{name}` has a gap or a wrong head");
            assert!(
                entries.is_sorted_by(|a, b| a.position < b.position),
                "positions of `{name}` do not increase: {entries:?}"
            );
            positions.extend(entries.iter().map(|entry| entry.position));
        }
        let all: i64 = streams.values().map(|entries| i64::try_from(entries.len()).unwrap()).sum();
        assert!(positions.into_iter().eq(1..=all), "positions have a gap or a duplicate");
        Self { streams }
    }

    /// Returns the streams whose names start with the prefix.
    pub(crate) fn family(&self, prefix: &str) -> impl Iterator<Item = (&String, &Vec<Entry>)> {
        self.streams.iter().filter(move |(name, _)| name.starts_with(prefix))
    }

    /// spec B184, B186, B188, B191: every reported event is stored once, at the reported position.
    /// Every event that was decided on a version directly follows that version. No event is stored
    /// that was never attempted.
    pub(crate) fn judge(&self, lines: &[Line]) -> Tried {
        let (mut tried, mut done) = (BTreeSet::new(), BTreeMap::new());
        let conflicts = lines.iter().filter(|line| line.after("conflict").is_some()).count();
        for line in lines {
            if let Some(words) = line.after("try") {
                assert!(tried.insert(words[0]), "the same event was attempted twice: {words:?}");
            } else if let Some(words) = line.after("done") {
                assert!(done.insert(words[0], words[1..].join(" ")).is_none(), "{words:?}");
            }
        }
        let mut there = BTreeMap::new();
        for (stream, entries) in &self.streams {
            for entry in entries.iter().filter(|entry| entry.name == "Counted") {
                let Work::Counted { key, after } = events::read(&entry.name, &entry.data).unwrap();
                let at = format!("{stream} {} {}", entry.version, entry.position);
                let follows = after.is_none_or(|after| after + 1 == entry.version);
                assert!(
                    follows,
                    "event {key} was decided on version {after:?} but is stored at {at}"
                );
                assert!(
                    tried.contains(key.as_str()),
                    "event {key}, stored at {at}, was never attempted"
                );
                let before = there.insert(key.clone(), at);
                assert!(
                    before.is_none(),
                    "event {key} is stored twice: at {before:?} and at {:?}",
                    there[&key]
                );
            }
        }
        for (key, at) in &done {
            assert_eq!(there.get(*key), Some(at), "event {key} is not at its reported position");
        }
        let unreported = there.len() - done.len();
        Tried { done: done.len(), conflicts, unreported }
    }
}
