//! The final content of the streams, compared with the journal.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::events;
use tidegate_core::row::Row;

use crate::{journal::Line, writers::Work};

/// The events of every stream, by version.
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

/// The results of the attempted commits.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) done: usize,
    pub(crate) conflicts: usize,
    /// Committed but never reported, because the process was killed.
    pub(crate) unreported: usize,
}

impl Ledger {
    /// spec B183, B193: versions are exactly 0 to n-1 on every stream, positions increase with them
    /// and are exactly 1 to N overall.
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
            assert!(entries.is_sorted_by(|a, b| a.position < b.position), "`{name}`: {entries:?}");
            positions.extend(entries.iter().map(|entry| entry.position));
        }
        let all: i64 = streams.values().map(|entries| i64::try_from(entries.len()).unwrap()).sum();
        assert!(positions.into_iter().eq(1..=all), "positions have a gap or a duplicate");
        Self { streams }
    }

    /// Returns the streams of a family.
    pub(crate) fn family(&self, prefix: &str) -> impl Iterator<Item = (&String, &Vec<Entry>)> {
        self.streams.iter().filter(move |(name, _)| name.starts_with(prefix))
    }

    /// spec B184, B186, B188, B191: every reported event is stored once, where it was reported;
    /// every event decided on a version follows it; and no event is stored that was never
    /// attempted.
    pub(crate) fn judge(&self, lines: &[Line]) -> Tried {
        let (mut tried, mut done) = (BTreeSet::new(), BTreeMap::new());
        let conflicts = lines.iter().filter(|line| line.after("conflict").is_some()).count();
        for line in lines {
            if let Some(words) = line.after("try") {
                assert!(tried.insert(words[0]), "{words:?} was tried twice");
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
                assert!(follows, "{key} was decided on {after:?} and is at {at}");
                assert!(tried.contains(key.as_str()), "{key}, at {at}, was never attempted");
                let before = there.insert(key.clone(), at);
                assert!(before.is_none(), "{key} is at {before:?} and at {:?}", there[&key]);
            }
        }
        for (key, at) in &done {
            assert_eq!(there.get(*key), Some(at), "{key} is not where it was reported to be");
        }
        let unreported = there.len() - done.len();
        Tried { done: done.len(), conflicts, unreported }
    }
}
