//! Registry of served versions: definitions with their code. The runs of a version are found by its
//! lane.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use tidegate_core::{
    definition::Definition,
    explain::Workers,
    id::Seq,
    row::{EngineId, Run, Workspace},
    turn::{Claim, Turn},
};

use crate::{
    cron::Cron,
    handler::{Handler, KeyFunction},
    schedule::{self, ScheduleKey},
    turns::{Lease, PerKind, Turns, WorkerKind},
};

/// One version of a workflow that this engine can drive.
pub(crate) struct ServedVersion {
    pub(crate) definition: Arc<Definition>,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) on_failure: Option<Arc<dyn Handler>>,
    /// Kind of worker that drives its runs.
    pub(crate) kind: WorkerKind,
    /// Whether the handler has given its `Ctx` to spawned tasks: then replays wait for such tasks.
    pub(crate) spawns: Arc<AtomicBool>,
}

impl ServedVersion {
    pub(crate) fn new(
        definition: Arc<Definition>,
        handler: Arc<dyn Handler>,
        on_failure: Option<Arc<dyn Handler>>,
        kind: WorkerKind,
    ) -> Self {
        Self { definition, handler, on_failure, kind, spawns: Arc::default() }
    }
}

/// All versions that this engine can drive.
#[derive(Default)]
pub(crate) struct Registry {
    versions: BTreeMap<Seq, Arc<ServedVersion>>,
    schedules: BTreeMap<ScheduleKey, Cron>,
    key_functions: BTreeMap<(String, String), KeyFunction>,
    /// Turns of workspaces and workflows, by kind of worker.
    turns: [Turns; 2],
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("turns", &self.turns).finish_non_exhaustive()
    }
}

impl Registry {
    /// Creates an empty registry, with the numbers of workers for handlers and for calls.
    pub(crate) fn new(handlers: usize, calls: usize) -> Self {
        Self { turns: [handlers, calls].map(Turns::new), ..Self::default() }
    }

    /// Starts to serve a version: its runs can be driven here from now on.
    pub(crate) fn serve(&mut self, ws: &Workspace, turn: Turn, version: ServedVersion) {
        let Definition { app, name, triggers, .. } = &*version.definition;
        for (id, cron) in schedule::of(triggers) {
            self.schedules.insert((ws.clone(), app.clone(), name.clone(), id), cron);
        }
        for kind in WorkerKind::ALL {
            self.turns[kind as usize].set(ws, turn, kind == version.kind);
        }
        self.versions.insert(turn.lane, Arc::new(version));
    }

    /// Stops serving a version: from now on only other engines drive its runs.
    pub(crate) fn withdraw(&mut self, ws: &Workspace, turn: Turn) {
        self.versions.remove(&turn.lane);
        for turns in &mut self.turns {
            turns.set(ws, turn, false);
        }
    }

    /// Returns the version that drives the runs of a lane.
    pub(crate) fn version(&self, lane: Seq) -> Option<Arc<ServedVersion>> {
        self.versions.get(&lane).cloned()
    }

    /// Returns the code of this version of a workflow, or else of the newest version that is
    /// served.
    pub(crate) fn code(&self, app: &str, name: &str, version: u32) -> Option<Arc<ServedVersion>> {
        let versions = self.versions.values().filter(|it| {
            let definition = &it.definition;
            definition.app == app && definition.name == name
        });
        let newest = |it: &&Arc<ServedVersion>| {
            let number = it.definition.version;
            (number == Some(version), number)
        };
        versions.max_by_key(newest).cloned()
    }

    /// Sets the key function of an action.
    pub(crate) fn set_key_function(&mut self, app: &str, action: &str, function: KeyFunction) {
        self.key_functions.insert((app.to_owned(), action.to_owned()), function);
    }

    pub(crate) fn key_function(&self, app: &str, action: &str) -> Option<KeyFunction> {
        self.key_functions.get(&(app.to_owned(), action.to_owned())).cloned()
    }

    /// Returns the schedules of the served versions.
    pub(crate) fn schedules(&self) -> BTreeMap<ScheduleKey, Cron> {
        self.schedules.clone()
    }

    /// Returns the lanes of all workspaces.
    pub(crate) fn lanes(&self) -> Vec<Seq> {
        self.versions.keys().copied().collect()
    }

    /// Returns the number of workers of one kind, without details of other workspaces.
    pub(crate) fn workers(&self, kind: WorkerKind, ws: &Workspace) -> Workers {
        self.turns[kind as usize].workers(kind, ws)
    }

    /// Returns whether all workers are busy for a run of this lane that the last lease skipped, if
    /// these workers are free; `false` if this engine does not serve the lane.
    pub(crate) fn is_out(&self, lane: Seq, mut free: PerKind) -> bool {
        let kind = self.versions.get(&lane).map(|version| version.kind);
        kind.is_some_and(|kind| self.turns[kind as usize].is_out(*free.get(kind)))
    }

    /// Returns whether a run of this workflow and lane that became ready now would find all workers
    /// busy.
    pub(crate) fn is_out_for(&self, ws: &Workspace, turn: Turn) -> bool {
        let kind = self.versions.get(&turn.lane).map(|version| version.kind);
        let of = (ws.clone(), turn.workflow);
        kind.is_some_and(|kind| self.turns[kind as usize].is_out_for(&of))
    }

    /// Records that these workspaces have ready runs.
    pub(crate) fn have_work<'a>(&mut self, workspaces: impl IntoIterator<Item = &'a Workspace>) {
        for ws in workspaces {
            self.turns.iter_mut().for_each(|turns| turns.has_work(ws));
        }
    }

    /// Returns the claims with which this engine leases runs, by workspace and kind of worker.
    pub(crate) fn claims(&mut self) -> Vec<Claim> {
        self.turns.iter_mut().flat_map(Turns::claims).collect()
    }

    /// Returns the leases to request in the next transaction, if these workers are free.
    pub(crate) fn leases(&mut self, engine: EngineId, mut free: PerKind) -> Vec<Lease> {
        let lease = |kind| self.turns[kind as usize].lease(kind, engine, *free.get(kind));
        WorkerKind::ALL.into_iter().filter_map(lease).collect()
    }

    /// Records that this engine no longer drives a run of a workflow.
    pub(crate) fn left(&mut self, kind: WorkerKind, of: (Workspace, Seq)) {
        self.turns[kind as usize].left(kind, of);
    }

    /// Records the result of a lease. Returns whether there may be more runs for the workers that
    /// are still free.
    pub(crate) fn leased(&mut self, lease: &Lease, runs: &[Run]) -> bool {
        self.turns[lease.kind as usize].leased(lease, runs)
    }
}
