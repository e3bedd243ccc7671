//! Commands on streams and reactions.

use super::Refusal;
use crate::{
    catalog::Catalog,
    draft::{Decided, Draft, Stop},
    reaction::{
        self, Ack, Claimed, Effect, Failed, Failure, Follower, Lease, Outcome, React, Reacted,
        Reaction, Repair,
    },
    reads::{Latch, Mode, ReadSet},
    row::{EngineId, Workspace},
    stream::{self, Close, Closed, Commit, Committed, NewSnapshot, Restart, Truncated},
    time::Timestamp,
    version,
};

/// Command on streams or reactions.
#[derive(Clone, Debug)]
pub enum StreamCommand {
    /// Appends events.
    Commit(Commit),
    /// Stores a snapshot of a stream's state.
    Snapshot(NewSnapshot),
    /// Closes a stream with a guard event.
    Close(Close),
    /// Deletes the oldest events of a closed stream that all reactions have passed.
    Truncate {
        /// The stream's name.
        stream: String,
        /// The maximum number of events to delete.
        limit: u32,
    },
    /// Restarts a truncated stream.
    Restart(Restart),
    /// Defines a reaction, or changes it.
    Define(Reaction),
    /// Subscribes a reaction to a stream that is older than the reaction.
    Follow {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
    },
    /// Leases streams that have events to process.
    Claim {
        /// The reaction.
        reaction: String,
        /// The leasing engine.
        engine: EngineId,
        /// The maximum number of streams to lease.
        limit: u32,
    },
    /// Renews leases on streams.
    Renew {
        /// The reaction that the leases belong to.
        reaction: String,
        /// The leases.
        leases: Vec<Lease>,
    },
    /// Advances cursors and releases their leases.
    Ack(Vec<Ack>),
    /// Advances a cursor and writes the effects of the reaction's handler.
    React(React),
    /// Reports that a reaction's handler failed.
    Fail {
        /// The lease.
        lease: Lease,
        /// The failure.
        failure: Failure,
    },
    /// Blocks a stream for a reaction, at the request of the lease holder.
    Block {
        /// The lease.
        lease: Lease,
        /// The last version that was processed.
        done_upto: i64,
        /// The reason.
        reason: String,
    },
    /// Defers the processing of a stream.
    Defer {
        /// The lease.
        lease: Lease,
        /// The last version that was processed.
        done_upto: i64,
        /// The end of the deferral.
        until: Timestamp,
    },
    /// Unblocks, resets, defers or expedites the listed streams, if they still match the filter.
    Repair {
        /// The repair and its filter.
        repair: Repair,
        /// The streams that a scan with this filter has found.
        streams: Vec<String>,
    },
}

/// Answer to a command on streams.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamAnswer {
    /// Answer to `Commit` and `Restart`.
    Committed(Committed),
    /// Answer to `Close`.
    Closed(Closed),
    /// Answer to `Truncate`.
    Truncated(Truncated),
    /// Answer to `Claim`.
    Claimed(Claimed),
    /// Answer to `Renew`: the new end of each lease.
    Renewed(Vec<Outcome<Timestamp>>),
    /// Answer to `Ack`, `Block` and `Defer`: the position of each cursor.
    At(Vec<Outcome<i64>>),
    /// Answer to `React`.
    Reacted(Reacted),
    /// Answer to `Fail`.
    Failed(Outcome<Failed>),
    /// Answer to `Repair`: the streams that were repaired.
    Repaired(Vec<String>),
    /// Answer to `Define`, `Follow` and `Snapshot`.
    Done,
}

impl StreamCommand {
    /// Returns the reads of the command other than rows: definitions and latches.
    pub(super) fn reads(&self, ws: &Workspace) -> ReadSet {
        let reads = ReadSet::default().catalog(ws);
        match self {
            Self::Define(_) => reads.latch(Latch::Definitions(ws.clone()), Mode::Exclusive),
            Self::React(react) => react.effects.iter().fold(reads, |reads, effect| match effect {
                Effect::Send(event) | Effect::Trigger(event) => {
                    reads.latch(Latch::Topic(ws.clone(), event.name.clone()), Mode::Shared)
                }
                Effect::Commit { .. } | Effect::Call(_) => reads,
            }),
            Self::Commit(_)
            | Self::Snapshot(_)
            | Self::Close(_)
            | Self::Truncate { .. }
            | Self::Restart(_)
            | Self::Follow { .. }
            | Self::Claim { .. }
            | Self::Renew { .. }
            | Self::Ack(_)
            | Self::Fail { .. }
            | Self::Block { .. }
            | Self::Defer { .. }
            | Self::Repair { .. } => reads,
        }
    }

    /// Decides the command on a draft.
    pub(super) fn decide(&self, draft: &mut Draft, ws: &Workspace) -> Decided<StreamAnswer> {
        let catalog = draft.catalog(ws)?;
        let all = catalog.followers();
        match self {
            Self::Commit(commit) => {
                no(stream::commit(draft, commit, all)).map(StreamAnswer::Committed)
            }
            Self::Snapshot(new) => {
                no(stream::keep_snapshot(draft, ws, new))?;
                Ok(StreamAnswer::Done)
            }
            Self::Close(close) => no(stream::close(draft, close, all)).map(StreamAnswer::Closed),
            Self::Truncate { stream, limit } => {
                no(stream::truncate(draft, ws, stream, all, *limit)).map(StreamAnswer::Truncated)
            }
            Self::Restart(restart) => {
                no(stream::restart(draft, restart, all)).map(StreamAnswer::Committed)
            }
            Self::Define(reaction) => {
                version::define_reaction(draft, ws, reaction)?;
                Ok(StreamAnswer::Done)
            }
            Self::Follow { reaction, stream } => {
                let follower = [Follower::from(known(&catalog, reaction)?)];
                stream::follow(draft, ws, stream, &follower)?;
                Ok(StreamAnswer::Done)
            }
            Self::Claim { reaction, engine, limit } => {
                let reaction = known(&catalog, reaction)?;
                let claimed = reaction::claim(draft, ws, reaction, *engine, *limit)?;
                Ok(StreamAnswer::Claimed(claimed))
            }
            Self::Renew { reaction, leases } => {
                let reaction = known(&catalog, reaction)?;
                reaction::renew(draft, reaction, leases).map(StreamAnswer::Renewed)
            }
            Self::Ack(acks) => no(reaction::ack(draft, acks)).map(StreamAnswer::At),
            Self::React(react) => {
                let reaction = known(&catalog, &react.lease.reaction)?;
                reaction::react(draft, reaction, react).map(StreamAnswer::Reacted)
            }
            Self::Fail { lease, failure } => {
                let reaction = known(&catalog, &lease.reaction)?;
                no(reaction::fail(draft, reaction, lease, failure)).map(StreamAnswer::Failed)
            }
            Self::Block { lease, done_upto, reason } => {
                let at = no(reaction::block(draft, lease, *done_upto, reason))?;
                Ok(StreamAnswer::At(vec![at]))
            }
            Self::Defer { lease, done_upto, until } => {
                let at = no(reaction::defer(draft, lease, *done_upto, *until))?;
                Ok(StreamAnswer::At(vec![at]))
            }
            Self::Repair { repair, streams } => {
                no(repair.apply(draft, streams)).map(StreamAnswer::Repaired)
            }
        }
    }
}

fn known<'a>(catalog: &'a Catalog, name: &str) -> Decided<&'a Reaction> {
    let unknown = || Stop::Refused(Refusal::NoReaction(name.to_owned()));
    catalog.reaction(name).ok_or_else(unknown)
}

/// Converts the refusal type of a module into [`Refusal`].
fn no<T, E: Into<Refusal>>(decided: Decided<T, E>) -> Decided<T> {
    decided.map_err(|stop| match stop {
        Stop::Need(reads) => Stop::Need(reads),
        Stop::Full => Stop::Full,
        Stop::Refused(refusal) => Stop::Refused(refusal.into()),
    })
}
