//! Completed operations of a run that have not been reported to the store.

use std::collections::VecDeque;

use tidegate_core::{
    flow::{adaptive::NewOverload, close::NewClose},
    row::Progress,
    run::{
        output::NewChunk,
        record::{NewAsk, NewCommit, NewSend, NewStep, NewWait},
    },
    session::NewSessionOp,
    stream,
};

/// Operations of one report, by kind. A report records the kinds in the order of these fields.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    pub(crate) steps: Vec<NewStep>,
    pub(crate) session: Vec<NewSessionOp>,
    pub(crate) sends: Vec<NewSend>,
    pub(crate) commits: Vec<NewCommit>,
    pub(crate) chunks: Vec<NewChunk>,
    pub(crate) progress: Option<Progress>,
    pub(crate) closes: Vec<NewClose>,
    /// Overloads of services that steps have met.
    pub(crate) overloads: Vec<NewOverload>,
    /// Steps whose attempts ended without a record.
    pub(crate) over: Vec<String>,
    /// Steps that ask for their pools.
    pub(crate) asks: Vec<NewAsk>,
    /// Waits that begin while the handler goes on.
    pub(crate) waits: Vec<NewWait>,
}

/// One completed operation. The variants are in the order in which a report records them.
#[derive(Debug)]
pub(crate) enum Op {
    Step(NewStep),
    Session(NewSessionOp),
    Send(NewSend),
    Commit(NewCommit),
}

/// Maximum number of operations in one report: a transaction holds 4,000 rows, and each operation
/// may change several.
pub(crate) const MAX_OPS: usize = 500;

/// Maximum number of steps that ask for their pools in one report: each may change several gates.
const MAX_ASKS: usize = 100;

/// Maximum number of bytes in one report; the last value may exceed it.
const MAX_OPS_BYTES: usize = 8 * 1024 * 1024;

impl Op {
    /// Returns the position of the operation's kind in a report.
    fn rank(&self) -> u8 {
        match self {
            Self::Step(_) => 0,
            Self::Session(_) => 1,
            Self::Send(_) => 2,
            Self::Commit(_) => 3,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Step(step) => step.result.as_ref().map_or(0, |value| value.as_str().len()),
            Self::Session(_) => 0,
            Self::Send(send) => send.what.data().map_or(0, |data| data.as_str().len()),
            // Each event of a commit is a row of its own.
            Self::Commit(NewCommit { commit, .. }) => {
                let events = &commit.events;
                let rows = events.len() * (MAX_OPS_BYTES / MAX_OPS);
                events.iter().map(stream::size).sum::<usize>() + rows
            }
        }
    }
}

/// Operations that wait for a report, in the order in which the handler completed them.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    ops: VecDeque<Op>,
    chunks: Vec<NewChunk>,
    progress: Option<Progress>,
    closes: Vec<NewClose>,
    overloads: Vec<NewOverload>,
    over: Vec<String>,
    asks: VecDeque<NewAsk>,
}

impl Unreported {
    pub(super) fn is_empty(&self) -> bool {
        let Self { ops, chunks, progress, closes, overloads, over, asks } = self;
        let places = over.is_empty() && asks.is_empty();
        let signals = closes.is_empty() && overloads.is_empty();
        let quiet = chunks.is_empty() && progress.is_none() && signals;
        ops.is_empty() && quiet && places
    }

    pub(super) fn close(&mut self, close: NewClose) {
        self.closes.push(close);
    }

    pub(super) fn overload(&mut self, overload: NewOverload) {
        self.overloads.push(overload);
    }

    /// Adds a step that asks for its pools.
    pub(super) fn ask(&mut self, ask: NewAsk) {
        self.asks.push_back(ask);
    }

    /// Removes a step that has asked, if its ask is not reported yet.
    pub(super) fn unask(&mut self, step: &str) {
        self.asks.retain(|ask| ask.step != step);
    }

    /// Removes all steps that have asked.
    pub(super) fn drop_asks(&mut self) {
        self.asks.clear();
    }

    /// Adds a step whose attempt ended without a record: its place ends.
    pub(super) fn leave(&mut self, step: String) {
        self.over.push(step);
    }

    pub(super) fn push(&mut self, op: Op) {
        self.ops.push_back(op);
    }

    pub(super) fn emit(&mut self, chunk: NewChunk) {
        self.chunks.push(chunk);
    }

    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    /// Takes the operations of the next report: as many as fit into one transaction. A report
    /// records its operations by kind, so it ends before an operation whose kind comes earlier than
    /// that of its predecessor. Thus operations are always recorded in the order in which the code
    /// completed them.
    pub(super) fn split(&mut self) -> Ops {
        let mut room = MAX_OPS_BYTES;
        let mut fits = |size: usize| {
            let fits = room > 0;
            room = room.saturating_sub(size + MAX_OPS_BYTES / MAX_OPS);
            fits
        };
        let (mut report, mut rank) = (Ops::default(), 0);
        while let Some(op) = self.ops.front()
            && op.rank() >= rank
            && fits(op.size())
        {
            rank = op.rank();
            match self.ops.pop_front() {
                Some(Op::Step(step)) => report.steps.push(step),
                Some(Op::Session(op)) => report.session.push(op),
                Some(Op::Send(send)) => report.sends.push(send),
                Some(Op::Commit(commit)) => report.commits.push(commit),
                None => {}
            }
        }
        let chunks = self.chunks.iter().take_while(|it| fits(it.data.as_str().len())).count();
        let rest = self.chunks.split_off(chunks);
        report.chunks = std::mem::replace(&mut self.chunks, rest);
        report.progress = self.progress.take();
        report.closes = std::mem::take(&mut self.closes);
        report.overloads = std::mem::take(&mut self.overloads);
        report.over = std::mem::take(&mut self.over);
        report.asks = self.asks.drain(..self.asks.len().min(MAX_ASKS)).collect();
        report
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{event::NewEvent, json::Payload, row::StepKind};

    use super::*;

    fn step(id: impl Into<String>) -> Op {
        let result = Ok(Payload::null());
        Op::Step(NewStep { id: id.into(), kind: StepKind::Run, result })
    }

    fn send(id: &str) -> Op {
        let (name, data) = ("told".to_owned(), Payload::null());
        Op::Send(NewSend::event(id, NewEvent::new(name, data)))
    }

    fn reports(ops: Vec<Op>) -> Vec<Vec<String>> {
        let mut unreported = Unreported { ops: ops.into(), ..Unreported::default() };
        let mut reports = Vec::new();
        while !unreported.is_empty() {
            let Ops { steps, sends, .. } = unreported.split();
            let steps = steps.into_iter().map(|step| step.id);
            reports.push(steps.chain(sends.into_iter().map(|send| send.step)).collect());
        }
        reports
    }

    #[test]
    fn operations_are_recorded_in_the_order_in_which_they_were_finished() {
        let ops = vec![step("a"), send("b"), send("c"), step("d"), send("e")];
        assert_eq!(reports(ops), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }

    #[test]
    fn a_send_is_not_overtaken_by_more_steps_than_fit_into_a_report() {
        let steps = (0..=MAX_OPS).map(|n| step(n.to_string()));
        let all = reports(std::iter::once(send("first")).chain(steps).collect());
        assert_eq!(all[0], ["first"]);
        assert_eq!((all[1].len(), all[2].len()), (MAX_OPS, 1));
    }
}
