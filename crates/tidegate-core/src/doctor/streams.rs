//! Checks of streams: versions, positions, and the subscriptions of reactions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Report, Rule};
use crate::{
    id::Seq,
    row::{LogHead, Stream, StreamEventRow, StreamSnapshot, Subscription, Workspace},
    stream::GUARD,
};

/// State of the stream checks: the heads of all streams, and the last event read.
#[derive(Debug, Default)]
pub(super) struct Streams {
    heads: BTreeMap<Seq, Stream>,
    names: BTreeMap<(Workspace, String), Seq>,
    positions: BTreeMap<Workspace, i64>,
    /// Stream, version and position of the last event read.
    last: Option<(Seq, i64, i64)>,
    /// Streams with at least one event.
    logged: BTreeSet<Seq>,
}

impl Streams {
    pub(super) fn knows(&self, stream: Seq) -> bool {
        self.heads.contains_key(&stream)
    }

    pub(super) fn stream(&mut self, stream: &Stream) {
        self.names.insert((stream.ws.clone(), stream.name.clone()), stream.id);
        self.heads.insert(stream.id, stream.clone());
    }

    pub(super) fn log_head(&mut self, head: &LogHead) {
        self.positions.insert(head.ws.clone(), head.pos);
    }

    /// Checks that the cursor of a subscription is not beyond the head of the stream. A cursor from
    /// before a restart of the stream is not checked.
    pub(super) fn sub(&mut self, report: &mut Report, sub: &Subscription) {
        let id = self.names.get(&(sub.ws.clone(), sub.stream.clone()));
        let head = id.filter(|id| **id == sub.log).and_then(|id| self.heads.get(id));
        let Some(head) = head.map(|stream| stream.head) else { return };
        report.check(Rule::Places, sub.at <= head && sub.want <= head, || {
            let Subscription { reaction, stream, at, want, .. } = sub;
            format!(
                "reaction `{reaction}` is at version {at} of stream `{stream}` and wants {want}, \
                 but the stream's head is {head}"
            )
        });
    }

    pub(super) fn logged(&mut self, report: &mut Report, event: &StreamEventRow) {
        let StreamEventRow { stream: id, version, pos, .. } = event;
        let last = self.last.filter(|last| last.0 == *id);
        if last.is_none() {
            self.end_of_last(report);
        }
        self.last = Some((*id, *version, *pos));
        self.logged.insert(*id);
        let stream = self.heads.get(id);
        // The first versions of a closed stream may have been truncated.
        let follows = match last {
            Some((_, before, _)) => *version == before + 1,
            None => *version == 0 || stream.is_some_and(|stream| stream.closed),
        };
        report.check(Rule::Log, follows && stream.is_some(), || match stream {
            Some(stream) => format!("stream `{}` has a gap before version {version}", stream.name),
            None => format!("the stream of event {} does not exist", event.id),
        });
        if let Some(stream) = stream {
            let guards = event.name == GUARD;
            let last = stream.closed && *version == stream.head;
            report.check(Rule::Guards, guards == last, || {
                let (name, closed, head) = (&stream.name, stream.closed, stream.head);
                format!(
                    "stream `{name}` (head: {head}, closed: {closed}) has a wrong event at version \
                     {version} (guard: {guards})"
                )
            });
        }
        let head = self.positions.get(&event.ws).copied().unwrap_or(0);
        let grows = last.is_none_or(|(_, _, before)| *pos > before);
        report.check(Rule::Positions, grows && *pos <= head, || {
            format!(
                "event {} has position {pos}, which is out of order or beyond the head {head} of \
                 workspace `{}`",
                event.id, event.ws
            )
        });
    }

    pub(super) fn snapshot(&mut self, report: &mut Report, snapshot: &StreamSnapshot) {
        let StreamSnapshot { stream: id, kind, version, .. } = snapshot;
        let head = self.heads.get(id).map(|stream| stream.head);
        report.check(Rule::Log, head.is_some_and(|head| *version <= head), || {
            format!("snapshot `{kind}` has version {version}, but stream {id} has head {head:?}")
        });
    }

    fn end_of_last(&mut self, report: &mut Report) {
        let Some((id, version, _)) = self.last else { return };
        let Some(stream) = self.heads.get(&id) else { return };
        report.check(Rule::Log, stream.head == version, || {
            format!(
                "the last event of stream `{}` is version {version}, but its head is {}",
                stream.name, stream.head
            )
        });
    }

    pub(super) fn conclude(mut self, report: &mut Report) {
        self.end_of_last(report);
        for stream in self.heads.values().filter(|stream| !self.logged.contains(&stream.id)) {
            report.check(Rule::Log, stream.head == -1, || {
                format!("stream `{}` has no events, but its head is {}", stream.name, stream.head)
            });
        }
    }
}
