//! Leases on subscriptions: how they are claimed, renewed and checked.

use super::Reaction;
use crate::{
    draft::{Decided, Draft},
    id::Seq,
    reads::Scan,
    row::{EngineId, Row, Subscription, Workspace},
    stream::{ask, sub_key, to_back},
    time::Timestamp,
};

/// Identity of a lease. The holder sends it with every command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub reaction: String,
    /// The stream.
    pub stream: String,
    /// The engine that holds the lease.
    pub engine: EngineId,
    /// The fence: distinguishes this lease from all other leases on the same subscription.
    pub fence: i64,
}

/// New lease, and the events to process: versions `at + 1` to `want`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The lease.
    pub lease: Lease,
    /// The number of the stream, by which its events are found.
    pub log: Seq,
    /// The version of the last event that the reaction has processed.
    pub at: i64,
    /// The version of the last committed event.
    pub want: i64,
    /// When the lease expires, unless it is renewed.
    pub until: Timestamp,
}

/// Result of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Subscriptions leased to the caller, the longest waiting first.
    pub leased: Vec<Leased>,
    /// Subscriptions that were blocked and not leased, because their leases were lost too often.
    pub blocked: Vec<Blocked>,
    /// For each subscription whose times were capped because the clock has stepped back: the
    /// milliseconds until it can be claimed.
    pub capped_ms: Vec<u64>,
}

/// Subscription that a claim has blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The stream.
    pub stream: String,
    /// The reason.
    pub reason: String,
}

/// Result of a command that only the holder of a lease may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The command took effect.
    Done(T),
    /// The caller no longer has the lease: the command had no effect.
    Lost,
}

/// Leases up to `limit` subscriptions that have events, the longest waiting first, for `leaseMs`.
///
/// Subscriptions that other transactions have locked are skipped, so that claims never wait. A
/// subscription that was claimed `maxLostLeases` times without progress is blocked and not leased,
/// even without `blockOnError`: its handler never returns, and no other check would find this.
pub fn claim<E>(
    draft: &mut Draft,
    ws: &Workspace,
    reaction: &Reaction,
    engine: EngineId,
    limit: u32,
) -> Decided<Claimed, E> {
    let now = draft.now();
    let mut claimed = Claimed::default();
    for mut sub in waiting(draft, ws, &reaction.name, limit)? {
        if sub.is_ahead(now) {
            cap(&mut sub, reaction, now);
            if !sub.is_claimable(now) {
                claimed.capped_ms.push(free_in_ms(&sub, now));
                draft.put(sub);
                continue;
            }
        }
        sub.due = None;
        if sub.claims >= reaction.max_lost_leases {
            let reason = lost_too_often(&sub, reaction);
            (sub.owner, sub.until) = (None, None);
            sub.blocked = Some(reason.clone());
            claimed.blocked.push(Blocked { stream: sub.stream.clone(), reason });
        } else {
            let until = now.plus_ms(reaction.lease_ms);
            (sub.owner, sub.until) = (Some(engine), Some(until));
            sub.fence += 1;
            sub.claims += 1;
            to_back(&mut sub, now);
            claimed.leased.push(leased(&sub, engine, until));
        }
        draft.put(sub);
    }
    Ok(claimed)
}

/// Caps the times of a subscription that were written before the clock stepped back. A lease then
/// ends at most `leaseMs` from now, and a retry waits at most for its backoff. A time of `defer`
/// stays, unless the subscription also has failures.
fn cap(sub: &mut Subscription, reaction: &Reaction, now: Timestamp) {
    let ahead = sub.since.micros().saturating_sub(now.micros());
    sub.until = sub.until.map(|until| until.capped(now, reaction.lease_ms));
    if sub.failures > 0 {
        let due = |due: Timestamp| Timestamp::from_micros(due.micros().saturating_sub(ahead));
        sub.due = sub.due.map(due);
    }
    sub.since = now;
}

/// Returns the milliseconds until a subscription can be claimed.
fn free_in_ms(sub: &Subscription, now: Timestamp) -> u64 {
    let until = sub.until.filter(|_| sub.owner.is_some());
    let free = until.into_iter().chain(sub.due).max().unwrap_or(now);
    free.micros().saturating_sub(now.micros()).max(0).unsigned_abs().div_ceil(1000)
}

/// Renews leases for another `leaseMs` from now. All of them must belong to one reaction.
///
/// An expired lease cannot be renewed, even if no other worker has taken it.
pub fn renew<E>(
    draft: &mut Draft,
    reaction: &Reaction,
    leases: &[Lease],
) -> Decided<Vec<Outcome<Timestamp>>, E> {
    lock(draft, leases)?;
    let mut outcomes = Vec::with_capacity(leases.len());
    for lease in leases {
        let Some(mut sub) = held(draft, lease)? else {
            outcomes.push(Outcome::Lost);
            continue;
        };
        let until = draft.now().plus_ms(reaction.lease_ms);
        let until = sub.until.map_or(until, |before| before.max(until));
        sub.until = Some(until);
        draft.put(sub);
        outcomes.push(Outcome::Done(until));
    }
    Ok(outcomes)
}

/// Reads and locks the subscriptions of all these leases together.
pub(super) fn lock<'a, E>(
    draft: &Draft,
    leases: impl IntoIterator<Item = &'a Lease>,
) -> Decided<(), E> {
    ask(draft, leases.into_iter().map(|lease| sub_key(&lease.ws, &lease.reaction, &lease.stream)))
}

/// Returns the subscription of a lease, if the lease is still valid.
pub(super) fn held<E>(draft: &Draft, lease: &Lease) -> Decided<Option<Subscription>, E> {
    let key = sub_key(&lease.ws, &lease.reaction, &lease.stream);
    Ok(match draft.row(&key)? {
        Some(Row::Subscription(sub)) => {
            let mine = sub.holder(draft.now()) == Some(lease.engine) && sub.fence == lease.fence;
            mine.then(|| sub.clone())
        }
        _ => None,
    })
}

/// Returns the first `limit` subscriptions that can be claimed or whose times must be capped, with
/// the changes of this draft.
fn waiting<E>(
    draft: &Draft,
    ws: &Workspace,
    reaction: &str,
    limit: u32,
) -> Decided<Vec<Subscription>, E> {
    let scan = Scan::Work(ws.clone(), reaction.to_owned());
    // The range of the keys of all subscriptions of this reaction.
    let from = sub_key(ws, reaction, "");
    let to = sub_key(ws, &format!("{reaction}\0"), "");
    let mut wanted = limit;
    loop {
        let found = draft.found(&scan, wanted)?;
        let complete = found.len() < wanted as usize;
        // An earlier command of this transaction may have claimed some of them, or committed events
        // to other streams.
        let subs = found.into_iter().chain(draft.written(from.clone(), to.clone()));
        let subs = subs.filter_map(|row| {
            let Row::Subscription(sub) = row else { return None };
            sub.is_work(draft.now()).then(|| sub.clone())
        });
        let mut subs: Vec<Subscription> = subs.collect();
        subs.sort_by(|a, b| (a.since, &a.stream).cmp(&(b.since, &b.stream)));
        subs.dedup_by(|a, b| a.stream == b.stream);
        if subs.len() >= limit as usize || complete {
            subs.truncate(limit as usize);
            return Ok(subs);
        }
        wanted = wanted.saturating_mul(2);
    }
}

fn leased(sub: &Subscription, engine: EngineId, until: Timestamp) -> Leased {
    let lease = Lease {
        ws: sub.ws.clone(),
        reaction: sub.reaction.clone(),
        stream: sub.stream.clone(),
        engine,
        fence: sub.fence,
    };
    Leased { lease, log: sub.log, at: sub.at, want: sub.want, until }
}

fn lost_too_often(sub: &Subscription, reaction: &Reaction) -> String {
    let (claims, lease_ms, next) = (sub.claims, reaction.lease_ms, sub.at + 1);
    format!(
        "claimed {claims} times in a row without progress at version {next}: the lease of \
         {lease_ms} ms runs out before the handler is done, or its engine dies"
    )
}
