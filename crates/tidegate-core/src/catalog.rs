//! A workspace's definitions, indexed by name, event and lane.
//!
//! A catalog is immutable. The next one is made from it by adding rows and shares all the rest, so
//! that registering a definition costs the same beside ten others and beside ten thousand.

mod subscribers;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use rpds::RedBlackTreeMapSync;

use self::subscribers::Subscribers;
use crate::{
    definition::{Definition, Trigger},
    flow::{control, meter::Rate, policy::PolicyKind},
    id::Seq,
    list::RunFilter,
    reaction::{Follower, Reaction},
    row::{Def, Scope},
};

/// An ordered map whose copies share their nodes.
type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// The app and the name of a workflow.
type FullName = (String, String);

/// The definitions of one workspace as of one epoch.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The epoch that it was read at.
    pub epoch: i64,
    workflows: Map<String, Map<String, Entry>>,
    /// Workflows by the epoch of their last change; a catalog that was built anew has one for all.
    changes: Map<(i64, FullName), ()>,
    /// Workflows by the events that trigger them.
    subscribers: Subscribers,
    /// Workflows by the events of streams that trigger them.
    stream_subscribers: Subscribers,
    lanes: Map<Seq, Version>,
    reactions: Map<String, (Reaction, Arc<Def>)>,
    followers: Arc<Vec<Follower>>,
    last_release: i64,
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
    /// The epoch of its last change.
    changed: i64,
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

    /// Adds a version, or the mark that the workflow was retired.
    fn add(&mut self, version: Version) {
        if version.number == RETIRED {
            self.retired = Some(version);
        } else {
            self.versions.insert(version.number, version);
        }
    }

    /// Works out which version is current and the turn that all versions share.
    fn settle(&mut self) -> Result<(), CatalogError> {
        let turn = self.versions.values().map(|version| version.lane).min();
        for version in self.versions.values_mut() {
            version.turn = turn.unwrap_or(version.lane);
        }
        let released = self.versions.values().filter(|version| version.release.is_some());
        let newest = released.max_by_key(|version| version.release);
        self.current = match newest.cloned() {
            Some(version) => {
                let workflow = Arc::new(read(&version.def)?);
                Some(Current { version, workflow })
            }
            None => None,
        };
        Ok(())
    }
}

/// The released definition.
#[derive(Clone, Debug)]
pub struct Current {
    /// Its version.
    pub version: Version,
    /// What it says.
    pub workflow: Arc<Definition>,
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
    said: Arc<OnceLock<Option<Arc<Definition>>>>,
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
    pub fn workflow(&self) -> Option<&Arc<Definition>> {
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
        Self::default().advance(epoch, defs)
    }

    /// The catalog of a later epoch: this one with the rows that were written since.
    pub fn advance(
        &self,
        epoch: i64,
        defs: impl IntoIterator<Item = Def>,
    ) -> Result<Self, CatalogError> {
        let mut catalog = Self { epoch, ..self.clone() };
        let mut entries: BTreeMap<FullName, Entry> = BTreeMap::new();
        for def in defs {
            let version = Version::new(Arc::new(def));
            let def = version.def.clone();
            catalog.last_release = catalog.last_release.max(def.released.unwrap_or(0));
            catalog.lanes.insert_mut(def.lane, version.clone());
            if def.app == REACTIONS {
                let reaction: Reaction = read(&def)?;
                catalog.reactions.insert_mut(reaction.name.clone(), (reaction, def));
                continue;
            }
            let before = || self.entry(&def.app, &def.name).cloned().unwrap_or_default();
            let entry = entries.entry((def.app.clone(), def.name.clone()));
            entry.or_insert_with(before).add(version);
        }
        if catalog.reactions.size() > 0 {
            let followers = catalog.reactions().map(Follower::from);
            catalog.followers = Arc::new(followers.collect());
        }
        for (name, entry) in entries {
            catalog.replace(name, entry)?;
        }
        Ok(catalog)
    }

    /// Puts a workflow in the place of what was known of it.
    fn replace(&mut self, name: FullName, mut entry: Entry) -> Result<(), CatalogError> {
        if let Some(before) = self.entry(&name.0, &name.1).cloned() {
            self.changes.remove_mut(&(before.changed, name.clone()));
            if let Some(current) = before.open() {
                self.subscribe(&current.workflow, |it, trigger| it.remove(trigger, &name));
            }
        }
        entry.changed = self.epoch;
        entry.settle()?;
        for version in entry.versions.values() {
            self.lanes.insert_mut(version.lane, version.clone());
        }
        if let Some(current) = entry.open() {
            self.subscribe(&current.workflow, |it, trigger| it.add(trigger, &name));
        }
        self.changes.insert_mut((self.epoch, name.clone()), ());
        let (app, name) = name;
        let mut names = self.workflows.get(&app).cloned().unwrap_or_default();
        names.insert_mut(name, entry);
        self.workflows.insert_mut(app, names);
        Ok(())
    }

    /// Does something to the subscription of each trigger. Actions have none.
    fn subscribe(&mut self, workflow: &Definition, act: impl Fn(&mut Subscribers, &Trigger)) {
        if workflow.flow.is_some() {
            return;
        }
        if workflow.triggers.is_empty() {
            let own = Trigger::Event { name: workflow.name.clone(), prefix: false };
            act(&mut self.subscribers, &own);
        }
        for trigger in &workflow.triggers {
            let of_stream = trigger.of_stream();
            act(&mut self.subscribers, of_stream.as_ref().unwrap_or(trigger));
            if let Some(trigger) = &of_stream {
                act(&mut self.stream_subscribers, trigger);
            }
        }
    }

    /// The workflows that have changed after an epoch, or may have.
    pub fn changed_after(&self, epoch: i64) -> impl Iterator<Item = &Entry> {
        let from = (epoch.saturating_add(1), FullName::default());
        let names = self.changes.range((Bound::Included(from), Bound::Unbounded));
        names.filter_map(|((_, (app, name)), ())| self.entry(app, name))
    }

    /// A reaction by name.
    pub fn reaction(&self, name: &str) -> Option<&Reaction> {
        self.reactions.get(name).map(|(reaction, _)| reaction)
    }

    /// All reactions, by name.
    pub fn reactions(&self) -> impl Iterator<Item = &Reaction> {
        self.reactions.values().map(|(reaction, _)| reaction)
    }

    /// The definition row of a reaction, if it was defined before.
    pub fn reaction_def(&self, name: &str) -> Option<&Def> {
        self.reactions.get(name).map(|(_, def)| &**def)
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
    pub fn definition(&self, lane: Seq) -> Option<&Arc<Definition>> {
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
        let restarts = |workflow: &Definition| {
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
        let names = self.subscribers.of(event).into_iter();
        names.filter_map(|(app, name)| self.entry(app, name)?.open()).collect()
    }

    /// Whether a workflow asks for events out of streams that have this name, `stream:` included.
    pub fn has_stream_trigger(&self, event: &str) -> bool {
        !self.stream_subscribers.of(event).is_empty()
    }

    /// The lanes whose runs a list shows.
    pub fn lanes(&self, which: &RunFilter) -> Vec<Seq> {
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
        self.last_release
    }

    /// How much a gate lets in by the current release.
    pub fn limit(&self, scope: &Scope) -> Limit {
        let entry = self.entry(&scope.app, &scope.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        (control::owner(scope.class).limit)(current.map(|current| &*current.workflow), scope)
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
