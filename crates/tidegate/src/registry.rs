//! What an engine serves: definitions with their code, by the lane that their runs come from.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use tidegate_core::{
    command::Command,
    id::Seq,
    row::{EngineId, Workspace},
    workflow::Workflow,
};

use crate::{
    cron::Cron,
    handler::{Handler, KeyFunction},
    schedule::{self, ScheduleKey},
};

/// One version of a workflow that this engine can drive.
pub(crate) struct Version {
    pub(crate) definition: Arc<Workflow>,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) on_failure: Option<Arc<dyn Handler>>,
    /// The code has given its `Ctx` to tasks of their own, so that replays wait for them.
    pub(crate) spawns: Arc<AtomicBool>,
}

impl Version {
    pub(crate) fn new(
        definition: Arc<Workflow>,
        handler: Arc<dyn Handler>,
        on_failure: Option<Arc<dyn Handler>>,
    ) -> Self {
        Self { definition, handler, on_failure, spawns: Arc::default() }
    }
}

/// All that this engine can drive.
#[derive(Default)]
pub(crate) struct Registry {
    versions: BTreeMap<Seq, Arc<Version>>,
    schedules: BTreeMap<ScheduleKey, Cron>,
    lanes: Vec<(Workspace, Vec<Seq>)>,
    key_functions: BTreeMap<(String, String), KeyFunction>,
    /// Whose turn it is among the workspaces.
    turn: usize,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

/// The most workspaces that one transaction leases for.
const MAX_TURNS: usize = 8;

impl Registry {
    /// Runs of this lane can be driven from now on.
    pub(crate) fn serve(&mut self, ws: &Workspace, lane: Seq, version: Version) {
        let Workflow { app, name, triggers, .. } = &*version.definition;
        for (id, cron) in schedule::of(triggers) {
            self.schedules.insert((ws.clone(), app.clone(), name.clone(), id), cron);
        }
        self.versions.insert(lane, Arc::new(version));
        match self.lanes.iter_mut().find(|(known, _)| known == ws) {
            Some((_, lanes)) if lanes.contains(&lane) => {}
            Some((_, lanes)) => lanes.push(lane),
            None => self.lanes.push((ws.clone(), vec![lane])),
        }
    }

    /// Runs of this lane are left to others from now on.
    pub(crate) fn withdraw(&mut self, lane: Seq) {
        self.versions.remove(&lane);
        for (_, lanes) in &mut self.lanes {
            lanes.retain(|served| *served != lane);
        }
        self.lanes.retain(|(_, lanes)| !lanes.is_empty());
    }

    /// What drives the runs of a lane.
    pub(crate) fn version(&self, lane: Seq) -> Option<Arc<Version>> {
        self.versions.get(&lane).cloned()
    }

    /// The code of a workflow: of this version if it is served, or else of the newest one.
    pub(crate) fn code(&self, app: &str, name: &str, version: u32) -> Option<Arc<Version>> {
        let versions = self.versions.values().filter(|it| {
            let definition = &it.definition;
            definition.app == app && definition.name == name
        });
        let newest = |it: &&Arc<Version>| {
            let number = it.definition.version;
            (number == Some(version), number)
        };
        versions.max_by_key(newest).cloned()
    }

    /// A program's function for the key of an action.
    pub(crate) fn set_key_function(&mut self, app: &str, action: &str, function: KeyFunction) {
        self.key_functions.insert((app.to_owned(), action.to_owned()), function);
    }

    pub(crate) fn key_function(&self, app: &str, action: &str) -> Option<KeyFunction> {
        self.key_functions.get(&(app.to_owned(), action.to_owned())).cloned()
    }

    /// The schedules of what it serves.
    pub(crate) fn schedules(&self) -> BTreeMap<ScheduleKey, Cron> {
        self.schedules.clone()
    }

    /// All lanes, of all workspaces.
    pub(crate) fn lanes(&self) -> Vec<Seq> {
        self.lanes.iter().flat_map(|(_, lanes)| lanes.iter().copied()).collect()
    }

    /// Shares free workers out over the workspaces, in turn, so that none has to wait for a flood
    /// in another.
    pub(crate) fn leases(&mut self, engine: EngineId, workers: i64) -> Vec<(Command, u32)> {
        let (count, mut left) =
            (self.lanes.len(), u32::try_from(workers.max(0)).unwrap_or(u32::MAX));
        let turns = count.min(MAX_TURNS).min(left as usize);
        let mut leases = Vec::with_capacity(turns);
        for n in 0..turns {
            let (ws, lanes) = &self.lanes[(self.turn + n) % count];
            let limit = left.div_ceil(u32::try_from(turns - n).unwrap_or(1));
            left -= limit;
            let (ws, lanes) = (ws.clone(), lanes.clone());
            leases.push((Command::Lease { ws, engine, lanes, limit }, limit));
        }
        if turns > 0 {
            self.turn = (self.turn + 1) % count;
        }
        leases
    }
}
