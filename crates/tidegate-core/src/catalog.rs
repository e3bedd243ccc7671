//! A workspace's definitions, ready to be asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use crate::{
    flow::{meter::Rate, policy::PolicyKind},
    id::Seq,
    list::Which,
    reaction::{Follower, Reaction},
    row::{Class, Def, Scope},
    workflow::{Trigger, Workflow},
};

/// The definitions of one workspace as of one epoch.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The epoch that it was read at.
    pub epoch: i64,
    workflows: BTreeMap<String, BTreeMap<String, Entry>>,
    by_event: BTreeMap<String, Vec<(String, String)>>,
    by_prefix: Vec<(String, (String, String))>,
    lanes: BTreeMap<Seq, Version>,
    reactions: BTreeMap<String, Reaction>,
    followers: Vec<Follower>,
    /// What the workflows ask for of streams.
    of_streams: Vec<Trigger>,
}

/// One workflow with all its versions.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The version that gets new runs, if one was released.
    pub current: Option<Current>,
    /// All that were registered, by number.
    pub versions: BTreeMap<u32, Version>,
    /// The mark that it was retired, now or once.
    pub retired: Option<Version>,
}

impl Entry {
    /// Whether it gets no new runs. Its numbers still rule those that it has.
    pub fn is_retired(&self) -> bool {
        let current = self.current.as_ref().and_then(|current| current.version.release);
        self.retired.as_ref().is_some_and(|mark| mark.release > current)
    }

    /// The highest number that was registered; 0 if none was.
    pub fn highest(&self) -> u32 {
        self.versions.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether a release by hand is in force: the current version is not the highest, and no
    /// registration released it. A release of the highest by hand ends it.
    pub fn holds_release(&self) -> bool {
        let current = self.open().map(|current| &current.version);
        current.is_some_and(|version| version.number < self.highest() && !version.def.deployed)
    }

    /// The version that new runs begin with, if they may.
    pub fn open(&self) -> Option<&Current> {
        self.current.as_ref().filter(|_| !self.is_retired())
    }
}

/// The released definition.
#[derive(Clone, Debug)]
pub struct Current {
    /// Its version.
    pub version: Version,
    /// What it says.
    pub workflow: Arc<Workflow>,
}

/// One registered version.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// The lane that its runs are claimed from.
    pub lane: Seq,
    /// The lowest lane of the workflow, which its versions share: they take turns as one.
    pub turn: Seq,
    /// When it was last released, counted in releases of the workspace.
    pub release: Option<i64>,
    /// The row that it was read from.
    pub def: Arc<Def>,
    /// What it says, once somebody has asked.
    said: Arc<OnceLock<Option<Arc<Workflow>>>>,
}

impl Version {
    /// The version that a row says.
    pub fn new(def: Arc<Def>) -> Self {
        let (number, lane, release) = (def.version, def.lane, def.released);
        Self { number, lane, turn: lane, release, def, said: Arc::default() }
    }

    /// Whether code without a version number serves it. A row that does not say counts, until code
    /// with its number registers it again: otherwise an upgrade would strand its runs.
    pub fn is_assigned(&self) -> bool {
        self.def.assigned != Some(false)
    }

    /// What it says; none where this program cannot read it. Older versions are read only when
    /// one of their runs needs it.
    pub fn workflow(&self) -> Option<&Arc<Workflow>> {
        self.said.get_or_init(|| read(&self.def).ok().map(Arc::new)).as_ref()
    }
}

/// How much a gate lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many at once.
    Slots(u32),
    /// So many in a time.
    Rate(Rate),
    /// The current release has no such control any more: everyone.
    Open,
}

/// A definition that a store kept and that cannot be read any more.
#[derive(Debug, thiserror::Error)]
#[error("the definition of `{name}` version {version} cannot be read: {reason}")]
pub struct CatalogError {
    name: String,
    version: u32,
    reason: String,
}

impl Catalog {
    /// Builds the catalog from all definition rows of a workspace.
    pub fn build(epoch: i64, defs: Vec<Def>) -> Result<Self, CatalogError> {
        let mut catalog = Self { epoch, ..Self::default() };
        for def in defs {
            let def = Arc::new(def);
            let version = Version::new(def.clone());
            catalog.lanes.insert(def.lane, version.clone());
            let app = catalog.workflows.entry(def.app.clone()).or_default();
            let entry = app.entry(def.name.clone()).or_default();
            if def.version == RETIRED {
                entry.retired = Some(version);
            } else {
                entry.versions.insert(def.version, version);
            }
        }
        catalog.read_reactions()?;
        for entry in catalog.workflows.values_mut().flat_map(BTreeMap::values_mut) {
            let Some(turn) = entry.versions.values().map(|version| version.lane).min() else {
                continue;
            };
            for version in entry.versions.values_mut().filter(|version| version.lane != turn) {
                version.turn = turn;
                catalog.lanes.insert(version.lane, version.clone());
            }
        }
        let apps = catalog.workflows.iter_mut();
        let all = apps.flat_map(|(app, names)| names.iter_mut().map(move |entry| (app, entry)));
        for (app, (name, entry)) in all {
            let newest = entry.versions.values().filter(|version| version.release.is_some());
            let Some(version) = newest.max_by_key(|version| version.release).cloned() else {
                continue;
            };
            let workflow: Arc<Workflow> = Arc::new(read(&version.def)?);
            entry.current = Some(Current { version, workflow: workflow.clone() });
            if entry.is_retired() {
                continue;
            }
            let name = (app.clone(), name.clone());
            index(&mut catalog.by_event, &mut catalog.by_prefix, &name, &workflow);
            if workflow.flow.is_none() {
                let of_streams = workflow.triggers.iter().filter_map(Trigger::of_stream);
                catalog.of_streams.extend(of_streams);
            }
        }
        Ok(catalog)
    }

    /// Takes the reactions out of what was read as workflows.
    fn read_reactions(&mut self) -> Result<(), CatalogError> {
        let entries = self.workflows.remove(REACTIONS).unwrap_or_default();
        for version in entries.into_values().flat_map(|entry| entry.versions.into_values()) {
            let reaction: Reaction = read(&version.def)?;
            self.followers.push(Follower::from(&reaction));
            self.reactions.insert(reaction.name.clone(), reaction);
        }
        Ok(())
    }

    /// A reaction by name.
    pub fn reaction(&self, name: &str) -> Option<&Reaction> {
        self.reactions.get(name)
    }

    /// All reactions, by name.
    pub fn reactions(&self) -> impl Iterator<Item = &Reaction> {
        self.reactions.values()
    }

    /// The definition row of a reaction, if it was defined before.
    pub fn reaction_def(&self, name: &str) -> Option<&Def> {
        let rows = self.lanes.values().map(|version| &*version.def);
        rows.into_iter().find(|def| def.app == REACTIONS && def.name == name)
    }

    /// What each reaction follows.
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// A workflow by app and name.
    pub fn entry(&self, app: &str, name: &str) -> Option<&Entry> {
        self.workflows.get(app)?.get(name)
    }

    /// All workflows, by app and name.
    pub fn entries(&self) -> impl Iterator<Item = ((&str, &str), &Entry)> {
        self.workflows.iter().flat_map(|(app, names)| {
            names.iter().map(move |(name, entry)| ((app.as_str(), name.as_str()), entry))
        })
    }

    /// The rows that it was built from, by lane.
    pub fn defs(&self) -> Vec<&Def> {
        self.lanes.values().map(|version| &*version.def).collect()
    }

    /// What the version of a lane says; none where this program cannot read it.
    pub fn definition(&self, lane: Seq) -> Option<&Arc<Workflow>> {
        self.lanes.get(&lane)?.workflow()
    }

    /// The version that a lane belongs to.
    pub fn lane(&self, lane: Seq) -> Option<&Version> {
        self.lanes.get(&lane)
    }

    /// Whether a version's policy is `restart`: what its runs do to sessions is staged.
    pub fn restarts(&self, lane: Seq) -> bool {
        let Some(version) = self.lane(lane) else { return false };
        let entry = self.entry(&version.def.app, &version.def.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        let restarts = |workflow: &Workflow| {
            workflow.policy.as_ref().is_some_and(|policy| policy.kind == PolicyKind::Restart)
        };
        match current.filter(|current| current.version.lane == lane) {
            Some(current) => restarts(&current.workflow),
            // Only runs from before a release get here.
            None => read(&version.def).is_ok_and(|workflow| restarts(&workflow)),
        }
    }

    /// The workflows that an event of this name triggers, each once, by app and name.
    pub fn triggered(&self, event: &str) -> Vec<&Current> {
        let exact = self.by_event.get(event).into_iter().flatten();
        let prefixed = self.by_prefix.iter().filter(|(prefix, _)| event.starts_with(prefix));
        let mut names: Vec<_> = exact.chain(prefixed.map(|(_, name)| name)).collect();
        names.sort();
        names.dedup();
        names.into_iter().filter_map(|(app, name)| self.entry(app, name)?.open()).collect()
    }

    /// Whether a workflow asks for events out of streams that have this name, `stream:` included.
    pub fn has_stream_trigger(&self, event: &str) -> bool {
        self.of_streams.iter().any(|trigger| trigger.matches(event))
    }

    /// The lanes whose runs a list shows.
    pub fn lanes(&self, which: &Which) -> Vec<Seq> {
        let is =
            |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|it| it == name);
        let lanes = self.lanes.values().filter(|version| {
            let def = &version.def;
            def.app != REACTIONS
                && def.version != RETIRED
                && is(&which.app, &def.app)
                && is(&which.workflow, &def.name)
                && which.version.is_none_or(|it| it == def.version)
                && which.text.as_ref().is_none_or(|text| def.name.contains(text))
        });
        lanes.map(|version| version.lane).collect()
    }

    /// The greatest release so far.
    pub fn last_release(&self) -> i64 {
        self.lanes.values().filter_map(|version| version.release).max().unwrap_or(0)
    }

    /// How much a gate lets in by the current release.
    pub fn limit(&self, scope: &Scope) -> Limit {
        let current = || self.entry(&scope.app, &scope.name)?.current.as_ref();
        match scope.class {
            Class::Singleton | Class::Schedule | Class::Handoff | Class::Policy => Limit::Slots(1),
            Class::RunLimit | Class::Keyed | Class::Whole => current()
                .and_then(|current| current.workflow.slots(scope.class, &scope.slot))
                .map_or(Limit::Open, Limit::Slots),
            Class::Throttle => current()
                .and_then(|current| current.workflow.throttle.as_ref())
                .map_or(Limit::Open, |throttle| Limit::Rate(throttle.rate())),
            Class::Dedupe
            | Class::Idempotency
            | Class::RateLimit
            | Class::Debounce
            | Class::Batch
            | Class::Quiet => Limit::Open,
        }
    }
}

/// The app that reactions are filed under; no user's app begins with `$`.
pub const REACTIONS: &str = "$reactions";

/// The version that says that a workflow was retired; no user's version has this number. It is
/// a row like others, so that what came later, it or a release, is told by the same count.
pub const RETIRED: u32 = 0;

fn read<T: serde::de::DeserializeOwned>(def: &Def) -> Result<T, CatalogError> {
    serde_json::from_str(def.body.as_str()).map_err(|error| CatalogError {
        name: def.name.clone(),
        version: def.version,
        reason: error.to_string(),
    })
}

fn index(
    by_event: &mut BTreeMap<String, Vec<(String, String)>>,
    by_prefix: &mut Vec<(String, (String, String))>,
    name: &(String, String),
    workflow: &Workflow,
) {
    if workflow.flow.is_some() {
        return;
    }
    if workflow.triggers.is_empty() {
        by_event.entry(name.1.clone()).or_default().push(name.clone());
    }
    for trigger in &workflow.triggers {
        match trigger.of_stream().as_ref().unwrap_or(trigger) {
            Trigger::Event { name: event, prefix: true } => {
                by_prefix.push((event.clone(), name.clone()));
            }
            Trigger::Event { name: event, prefix: false } => {
                by_event.entry(event.clone()).or_default().push(name.clone());
            }
            Trigger::Cron { .. } | Trigger::Stream { .. } => {}
        }
    }
}
