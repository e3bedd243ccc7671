//! Turns for free workers: round-robin over workspaces, and over the workflows of each.
//!
//! Each kind of worker has turns of its own. They only decide where to look for ready runs next.
//! Which runs are ready is always read from the store, so no run is missed after a crash or because
//! of other engines.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ops::{AddAssign, Bound},
    sync::Arc,
};

use tidegate_core::{
    command::Command,
    explain::{Busy, Workers},
    id::Seq,
    row::{EngineId, Run, Workspace},
    turn::{Claim, Lanes, Range, Turn},
};

use crate::telemetry;

/// Maximum number of workspaces that one transaction leases for.
const MAX_WORKSPACES: usize = 16;

/// Kind of work that a worker does with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkerKind {
    /// Executes a handler in this process.
    Handler,
    /// Calls a URL and waits for the answer, which needs almost no resources of this process.
    Call,
}

impl WorkerKind {
    pub(crate) const ALL: [Self; 2] = [Self::Handler, Self::Call];

    /// Returns the name of this kind of worker.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Handler => "handlers",
            Self::Call => "calls",
        }
    }
}

/// A number for each kind of worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerKind([i64; 2]);

impl PerKind {
    pub(crate) fn new(handlers: usize, calls: usize) -> Self {
        Self([handlers, calls].map(|it| i64::try_from(it).unwrap_or(i64::MAX)))
    }

    pub(crate) fn get(&mut self, kind: WorkerKind) -> &mut i64 {
        &mut self.0[kind as usize]
    }
}

impl AddAssign for PerKind {
    fn add_assign(&mut self, other: Self) {
        for (here, more) in self.0.iter_mut().zip(other.0) {
            *here = here.saturating_add(more);
        }
    }
}

/// Leases for one kind of worker, requested with a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) kind: WorkerKind,
    pub(crate) command: Command,
    /// Maximum number of runs to lease.
    pub(crate) limit: u32,
}

/// Turns of workspaces and workflows, for one kind of worker.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    workspaces: BTreeMap<Workspace, ServedWorkspace>,
    /// Workspace that had its turn last.
    last: Option<Workspace>,
    /// Number of consecutive workspaces in which no run was ready.
    passed: usize,
    /// Number of all workers, free or not.
    workers: usize,
    /// Workflows whose runs this engine drives, with their names and the number of these runs.
    driven: BTreeMap<(Workspace, Seq), (String, usize)>,
    /// Total number of these runs. It is counted, because summing it up at every end of a run would
    /// be slow with many workflows.
    busy: usize,
    /// All served lanes.
    lanes: Lanes,
    /// Number of served workflows.
    workflows: usize,
    /// Whether the served versions have changed since the ranges were computed.
    stale: bool,
}

/// Served versions of one workspace.
#[derive(Debug, Default)]
struct ServedWorkspace {
    /// All known versions, and whether this engine serves them.
    versions: BTreeMap<Turn, bool>,
    ranges: Vec<Range>,
    /// Workflow that had its turn last.
    last: Option<Seq>,
    /// Whether no run was ready at the last check.
    idle: bool,
}

impl Turns {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, ..Self::default() }
    }

    /// Records a version of the catalog, and whether this engine drives its runs.
    pub(crate) fn set(&mut self, ws: &Workspace, turn: Turn, served: bool) {
        let of = self.workspaces.entry(ws.clone()).or_default();
        self.stale |= of.versions.insert(turn, served) != Some(served);
    }

    /// Returns the number of workers that are reserved for workflows with few driven runs: a tenth,
    /// unless there is only one workflow. Without this reserve, a workflow that calls a service
    /// without an answer would finally occupy all workers.
    fn reserve(&self) -> usize {
        if self.workflows > 1 { self.workers / 10 } else { 0 }
    }

    /// Returns the claims for the served versions of each workspace.
    pub(crate) fn claims(&mut self) -> Vec<Claim> {
        self.refresh();
        let served = self.workspaces.iter().filter(|(_, served)| !served.ranges.is_empty());
        let claim = |(ws, it): (&Workspace, &ServedWorkspace)| Claim {
            ws: ws.clone(),
            turns: it.ranges.clone(),
        };
        served.map(claim).collect()
    }

    /// Returns the lease to request in the next transaction, if this number of workers is free.
    pub(crate) fn lease(&mut self, kind: WorkerKind, engine: EngineId, free: i64) -> Option<Lease> {
        self.refresh();
        let (free, reserve) = (usize::try_from(free).unwrap_or_default(), self.reserve());
        // The last free workers are reserved for workflows with fewer driven runs than the reserve.
        let driven = self.driven.iter().filter(|_| free <= reserve);
        let many = driven.filter(|(_, (_, runs))| *runs >= reserve).map(|(of, _)| of);
        let many: Vec<_> = many.collect();
        let limit = if free > reserve { free - reserve } else { free };
        let limit = u32::try_from(limit).ok().filter(|limit| *limit > 0)?;
        let busy = self.next().filter(|(_, served)| !served.idle).count();
        let (calm, mut room) = (busy == 0, MAX_WORKSPACES.saturating_sub(busy));
        let mut fits = |served: &ServedWorkspace| {
            let fits = !served.idle || room > 0;
            room -= usize::from(served.idle && fits);
            fits
        };
        let of: Vec<_> = self.next().filter(|it| fits(it.1)).take(MAX_WORKSPACES).collect();
        let busy = of.iter().filter(|(_, served)| calm || !served.idle).count();
        if of.is_empty() {
            return None;
        }
        let share = limit.div_ceil(u32::try_from(busy).unwrap_or(u32::MAX));
        let claims = of.into_iter().map(|(ws, served)| {
            let claim = Claim { ws: ws.clone(), turns: served.ranges.clone() };
            let claim = served.last.map(|last| claim.after(last)).unwrap_or(claim);
            let over = many.iter().filter(|(of, _)| of == ws).map(|(_, workflow)| *workflow);
            let claim = over.fold(claim, |claim, workflow| claim.without(workflow));
            // A workspace without a ready run at the last check gets a limit of 1 while other
            // workspaces have some, only to check whether it has one now.
            (claim, if served.idle && !calm { 1 } else { share })
        });
        let (claims, serves) = (claims.collect(), self.lanes.clone());
        Some(Lease { kind, command: Command::Lease { engine, claims, serves, limit }, limit })
    }

    /// Records the result of a lease. Returns whether there may be more runs for the workers that
    /// are still free.
    pub(crate) fn leased(&mut self, lease: &Lease, runs: &[Run]) -> bool {
        let Command::Lease { claims, .. } = &lease.command else { return false };
        self.busy += runs.len();
        if !runs.is_empty() {
            telemetry::workers(lease.kind.as_str(), self.workers, self.busy);
        }
        for run in runs {
            if let Some(served) = self.workspaces.get_mut(&run.ws) {
                served.last = Some(run.turn());
            }
            let driven = self.driven.entry((run.ws.clone(), run.turn()));
            driven.or_insert_with(|| (run.workflow.clone(), 0)).1 += 1;
        }
        let mut more = runs.len() >= lease.limit as usize;
        if let Some(run) = runs.last() {
            (self.last, self.passed) = (Some(run.ws.clone()), 0);
        } else if let Some((claim, _)) = claims.last() {
            // There may be more workspaces than one lease can check. The remaining ones are checked
            // next, each once.
            (self.last, self.passed) = (Some(claim.ws.clone()), self.passed + claims.len());
            more = self.passed < self.next().count();
        }
        if !more {
            self.passed = 0;
        }
        for (claim, limit) in claims {
            let of: Vec<&Run> = runs.iter().filter(|run| run.ws == claim.ws).collect();
            if let Some(served) = self.workspaces.get_mut(&claim.ws) {
                served.idle = of.is_empty() && runs.len() < lease.limit as usize;
            }
            more |= Claim::may_have_more(&of, *limit);
        }
        more
    }

    /// Returns the workers and the workflows that occupy them, busiest first. Workflows of other
    /// workspaces are only counted, without names.
    pub(crate) fn workers(&self, kind: WorkerKind, ws: &Workspace) -> Workers {
        let own = self.driven.iter().filter(|((of, _), _)| of == ws);
        let own = own.map(|(_, (workflow, runs))| Busy { workflow: workflow.clone(), runs: *runs });
        let mut with: Vec<Busy> = own.collect();
        with.sort_by_key(|busy| Reverse(busy.runs));
        let (busy, own) = (self.busy, with.iter().map(|busy| busy.runs).sum::<usize>());
        let elsewhere = busy.saturating_sub(own);
        let (kept, kind) = (self.reserve(), kind.as_str());
        Workers { kind, busy, of: self.workers, with, elsewhere, kept, ahead: 0 }
    }

    /// Returns whether all workers are busy or reserved for a run that the last lease skipped, if
    /// this number of workers is free.
    pub(crate) fn is_out(&self, free: i64) -> bool {
        usize::try_from(free).unwrap_or_default() <= self.reserve()
    }

    /// Returns whether a run of this workflow that became ready now would find all workers busy or
    /// reserved.
    pub(crate) fn is_out_for(&self, of: &(Workspace, Seq)) -> bool {
        let free = self.workers.saturating_sub(self.busy);
        let has_few = self.driven.get(of).is_none_or(|(_, runs)| *runs < self.reserve());
        free == 0 || (free <= self.reserve() && !has_few)
    }

    /// Records that this engine no longer drives a run of a workflow.
    pub(crate) fn left(&mut self, kind: WorkerKind, of: (Workspace, Seq)) {
        if let Entry::Occupied(mut driven) = self.driven.entry(of) {
            self.busy -= 1;
            driven.get_mut().1 -= 1;
            if driven.get().1 == 0 {
                driven.remove();
            }
        }
        telemetry::workers(kind.as_str(), self.workers, self.busy);
    }

    /// Returns the workspaces with served versions, the next in turn first.
    fn next(&self) -> impl Iterator<Item = (&Workspace, &ServedWorkspace)> {
        let last = self.last.clone().unwrap_or_else(|| "".into());
        let later = self.workspaces.range((Bound::Excluded(last.clone()), Bound::Unbounded));
        let sooner = self.workspaces.range(..=last);
        later.chain(sooner).filter(|(_, served)| !served.ranges.is_empty())
    }

    /// Records that a workspace has ready runs.
    pub(crate) fn has_work(&mut self, ws: &Workspace) {
        if let Some(served) = self.workspaces.get_mut(ws) {
            served.idle = false;
        }
    }

    /// Recomputes ranges, lanes and the number of workflows if the served versions have changed.
    fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        for served in self.workspaces.values_mut() {
            served.ranges = ranges(&served.versions);
        }
        let all = self.workspaces.values().flat_map(|served| &served.versions);
        let lanes = all.filter(|(_, served)| **served).map(|(turn, _)| turn.lane);
        self.lanes = Arc::new(lanes.collect());
        let workflows = self.workspaces.iter().flat_map(|(ws, served)| {
            let served = served.versions.iter().filter(|(_, served)| **served);
            served.map(move |(turn, _)| (ws, turn.workflow))
        });
        self.workflows = workflows.collect::<BTreeSet<_>>().len();
    }
}

/// Groups consecutive served versions into ranges. An unserved version ends a range.
fn ranges(versions: &BTreeMap<Turn, bool>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut open = false;
    for (turn, served) in versions {
        match ranges.last_mut() {
            Some((_, to)) if *served && open => *to = *turn,
            _ if *served => ranges.push((*turn, *turn)),
            _ => {}
        }
        open = *served;
    }
    ranges
}
