//! Catalog: a workspace's definitions, indexed by name, event and lane.
//!
//! A catalog is immutable. The catalog of the next epoch is made from it by adding the new rows,
//! and shares all other data with it. So the cost of registering a definition does not grow with
//! the number of definitions.

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
    definition::{Definition, EndEvents, Trigger},
    flow::{Control, adaptive::Adaptive, control, fair::Fair, meter::Rate, policy::PolicyKind},
    id::Seq,
    key::Key,
    list::RunFilter,
    overrides::{OVERRIDES, Overrides},
    pool::{Pool, StoredPool},
    reaction::{Follower, Reaction},
    row::{Def, Numbers, RowNumbers, Scope},
};

/// An ordered map whose copies share their nodes.
type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// Full name of a workflow: its app and its name.
type FullName = (String, String);

/// Definitions of one workspace as of one epoch.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The epoch that the catalog was read at.
    pub epoch: i64,
    workflows: Map<String, Map<String, Entry>>,
    /// Workflows by the epoch of their last change. If the catalog was built from all rows, this is
    /// the same epoch for all workflows.
    changes: Map<(i64, FullName), ()>,
    /// Workflows by the events that trigger them.
    subscribers: Subscribers,
    /// Workflows by the events of streams that trigger them.
    stream_subscribers: Subscribers,
    lanes: Map<Seq, Version>,
    reactions: Map<String, (Reaction, Arc<Def>)>,
    pools: Pools,
    followers: Arc<Vec<Follower>>,
    overrides: Overrides,
    /// Names of the events that runs post at their end.
    end_events: Map<String, ()>,
    /// Those of these names that runs have waited for.
    awaited: Map<String, ()>,
    last_release: i64,
}

/// Pools of a workspace, by name.
#[derive(Clone, Debug, Default)]
pub struct Pools(Map<String, (Arc<StoredPool>, Seq)>);

impl Pools {
    /// Returns a pool that exists.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.stored(name)?.pool.as_ref()
    }

    /// Returns all pools that exist, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.0.values().filter_map(|(stored, _)| stored.pool.as_ref())
    }

    /// Returns the stored form of a pool, also of one that was removed.
    pub fn stored(&self, name: &str) -> Option<&StoredPool> {
        self.0.get(name).map(|(stored, _)| &**stored)
    }

    /// Returns the number of a pool's row, also of one that was removed.
    pub fn lane(&self, name: &str) -> Option<Seq> {
        self.0.get(name).map(|(_, lane)| *lane)
    }

    /// Returns the limit of a gate of a pool.
    pub fn limit(&self, scope: &Scope, numbers: Numbers<'_>) -> Limit {
        self.get(&scope.name).map_or(Limit::Open, |pool| pool.limit(scope.class, numbers))
    }

    /// Returns these pools and one more, for the check of definitions that are registered with it.
    #[must_use]
    pub fn with(&self, pool: &Pool) -> Pools {
        let stored = StoredPool { pool: Some(pool.clone()), declared: None, highest: 0 };
        let mut pools = self.clone();
        pools.0.insert_mut(pool.name.clone(), (stored.into(), Seq(0)));
        pools
    }
}

/// Workflow with all its versions.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The version that gets new runs, if one was released.
    pub current: Option<Current>,
    /// All registered versions, by number.
    pub versions: BTreeMap<u32, Version>,
    /// The row that marks the workflow as retired. It stays when a later release ends the
    /// retirement.
    pub retired: Option<Version>,
    /// The epoch of the workflow's last change.
    changed: i64,
}

impl Entry {
    /// Whether the workflow is retired and gets no new runs. Its limits still apply to its
    /// existing runs.
    pub fn is_retired(&self) -> bool {
        let current = self.current.as_ref().and_then(|current| current.version.release);
        self.retired.as_ref().is_some_and(|mark| mark.release > current)
    }

    /// Returns the highest registered version number; 0 if there is none.
    pub fn highest(&self) -> u32 {
        self.versions.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether a manual release keeps the workflow on an older version: the current version is not
    /// the highest, and was not released by its registration.
    pub fn holds_release(&self) -> bool {
        let current = self.open().map(|current| &current.version);
        current.is_some_and(|version| version.number < self.highest() && !version.def.deployed)
    }

    /// Returns the version that new runs get; none if the workflow is retired or has no release.
    pub fn open(&self) -> Option<&Current> {
        self.current.as_ref().filter(|_| !self.is_retired())
    }

    /// Adds a version, or the row that marks the workflow as retired.
    fn add(&mut self, version: Version) {
        if version.number == RETIRED {
            self.retired = Some(version);
        } else {
            self.versions.insert(version.number, version);
        }
    }

    /// Computes the current version, and the field `turn` of all versions.
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
                Some(Current::new(version, workflow))
            }
            None => None,
        };
        Ok(())
    }
}

/// The released version of a workflow.
#[derive(Clone, Debug)]
pub struct Current {
    /// The version.
    pub version: Version,
    /// The definition of that version.
    pub workflow: Arc<Definition>,
    /// The controls that the definition uses.
    pub(crate) controls: Arc<[&'static Control]>,
}

impl Current {
    pub(crate) fn new(version: Version, workflow: Arc<Definition>) -> Self {
        let controls = control::in_use(&workflow).into();
        Self { version, workflow, controls }
    }
}

/// A registered version of a workflow.
#[derive(Clone, Debug)]
pub struct Version {
    /// The version number.
    pub number: u32,
    /// The lane from which engines take the version's runs.
    pub lane: Seq,
    /// The lowest lane of the workflow's versions. All versions have the same, so that together
    /// they get the turns of one workflow.
    pub turn: Seq,
    /// The number of this version's last release. Releases are numbered over the workspace.
    pub release: Option<i64>,
    /// The row that the version was read from.
    pub def: Arc<Def>,
    /// The definition, parsed on first use.
    said: Arc<OnceLock<Option<Arc<Definition>>>>,
}

impl Version {
    /// Creates a version from its definition row.
    pub fn new(def: Arc<Def>) -> Self {
        let (number, lane, release) = (def.version, def.lane, def.released);
        Self { number, lane, turn: lane, release, def, said: Arc::default() }
    }

    /// Whether the engine assigned the version number, because the code gives none. True also for
    /// old rows without this flag, until code that gives this number registers the version again:
    /// otherwise no code would serve the runs of such a row after an upgrade.
    pub fn is_assigned(&self) -> bool {
        self.def.assigned != Some(false)
    }

    /// Returns the definition; none if this build cannot read it. It is parsed at the first call,
    /// because most older versions have no runs any more.
    pub fn workflow(&self) -> Option<&Arc<Definition>> {
        self.said.get_or_init(|| read(&self.def).ok().map(Arc::new)).as_ref()
    }
}

/// Limit of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The maximum total cost of the runs inside at the same time.
    Slots(u32),
    /// Rates. Each limits the total cost of the arrivals in its period. All of them apply.
    Rates(Vec<Rate>),
    /// No limit: the current release no longer has the control.
    Open,
    /// Nobody enters: an override pauses or closes the gate.
    Closed,
}

/// A stored definition cannot be read by this build.
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

    /// Returns the catalog of a later epoch: this catalog with the rows written since.
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
            if def.app == OVERRIDES {
                catalog.overrides.add(&def)?;
                continue;
            }
            if def.app == REACTIONS {
                let reaction: Reaction = read(&def)?;
                catalog.reactions.insert_mut(reaction.name.clone(), (reaction, def));
                continue;
            }
            if def.app == AWAITED {
                catalog.awaited.insert_mut(def.name.clone(), ());
                continue;
            }
            if def.app == POOLS {
                let stored: StoredPool = read(&def)?;
                catalog.pools.0.insert_mut(def.name.clone(), (stored.into(), def.lane));
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

    /// Replaces the entry of a workflow.
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
            for event in current.workflow.end_events.iter().flat_map(EndEvents::names) {
                self.end_events.insert_mut(event.clone(), ());
            }
        }
        self.changes.insert_mut((self.epoch, name.clone()), ());
        let (app, name) = name;
        let mut names = self.workflows.get(&app).cloned().unwrap_or_default();
        names.insert_mut(name, entry);
        self.workflows.insert_mut(app, names);
        Ok(())
    }

    /// Applies `act` to the subscription of each trigger. Actions have no subscriptions.
    fn subscribe(&mut self, workflow: &Definition, act: impl Fn(&mut Subscribers, &Trigger)) {
        if workflow.flow.is_some() {
            return;
        }
        if workflow.triggers.is_empty() {
            let (name, prefix) = (workflow.name.clone(), false);
            act(&mut self.subscribers, &Trigger::Event { name, prefix, condition: None });
        }
        for trigger in &workflow.triggers {
            let of_stream = trigger.of_stream();
            act(&mut self.subscribers, of_stream.as_ref().unwrap_or(trigger));
            if let Some(trigger) = &of_stream {
                act(&mut self.stream_subscribers, trigger);
            }
        }
    }

    /// Returns the workflows that have changed after an epoch, and possibly some that have not.
    pub fn changed_after(&self, epoch: i64) -> impl Iterator<Item = &Entry> {
        let from = (epoch.saturating_add(1), FullName::default());
        let names = self.changes.range((Bound::Included(from), Bound::Unbounded));
        names.filter_map(|((_, (app, name)), ())| self.entry(app, name))
    }

    /// Returns a reaction by name.
    pub fn reaction(&self, name: &str) -> Option<&Reaction> {
        self.reactions.get(name).map(|(reaction, _)| reaction)
    }

    /// Returns all reactions, by name.
    pub fn reactions(&self) -> impl Iterator<Item = &Reaction> {
        self.reactions.values().map(|(reaction, _)| reaction)
    }

    /// Returns the definition row of a reaction, if it was defined before.
    pub fn reaction_def(&self, name: &str) -> Option<&Def> {
        self.reactions.get(name).map(|(_, def)| &**def)
    }

    /// Returns the pools.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Returns the followers: each reaction with the streams that it follows.
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// Returns a workflow by app and name.
    pub fn entry(&self, app: &str, name: &str) -> Option<&Entry> {
        self.workflows.get(app)?.get(name)
    }

    /// Returns all workflows, by app and name.
    pub fn entries(&self) -> impl Iterator<Item = ((&str, &str), &Entry)> {
        self.workflows.iter().flat_map(|(app, names)| {
            names.iter().map(move |(name, entry)| ((app.as_str(), name.as_str()), entry))
        })
    }

    /// Returns the definition rows that the catalog was built from, by lane.
    pub fn defs(&self) -> Vec<&Def> {
        self.lanes.values().map(|version| &*version.def).collect()
    }

    /// Returns the definition of a lane's version; none if this build cannot read it.
    pub fn definition(&self, lane: Seq) -> Option<&Arc<Definition>> {
        self.lanes.get(&lane)?.workflow()
    }

    /// Returns the version that a lane belongs to.
    pub fn lane(&self, lane: Seq) -> Option<&Version> {
        self.lanes.get(&lane)
    }

    /// Whether the policy of a lane's version is `restart`. The runs of such a version stage their
    /// changes of sessions.
    pub fn restarts(&self, lane: Seq) -> bool {
        let Some(version) = self.lane(lane) else { return false };
        let entry = self.entry(&version.def.app, &version.def.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        let restarts = |workflow: &Definition| {
            workflow.policy.as_ref().is_some_and(|policy| policy.kind == PolicyKind::Restart)
        };
        match current.filter(|current| current.version.lane == lane) {
            Some(current) => restarts(&current.workflow),
            // Another version is current: the run is older than the last release.
            None => read(&version.def).is_ok_and(|workflow| restarts(&workflow)),
        }
    }

    /// Returns the workflows that an event of this name triggers, each once, by app and name.
    pub fn triggered(&self, event: &str) -> Vec<&Current> {
        let names = self.subscribers.of(event).into_iter();
        names.filter_map(|(app, name)| self.entry(app, name)?.open()).collect()
    }

    /// Whether runs of a workflow may post an event of this name at their end.
    pub(crate) fn is_end_event(&self, name: &str) -> bool {
        self.end_events.contains_key(name)
    }

    /// Whether runs have waited for this event, which other runs post at their end.
    pub(crate) fn is_awaited(&self, name: &str) -> bool {
        self.awaited.contains_key(name)
    }

    /// Whether any workflow is triggered by this stream event. The name begins with `stream:`.
    pub fn has_stream_trigger(&self, event: &str) -> bool {
        !self.stream_subscribers.of(event).is_empty()
    }

    /// Returns the lanes that a run filter selects.
    pub fn lanes(&self, which: &RunFilter) -> Vec<Seq> {
        let is =
            |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|it| it == name);
        let lanes = self.lanes.values().filter(|version| {
            let def = &version.def;
            !def.app.starts_with('$')
                && def.version != RETIRED
                && is(&which.app, &def.app)
                && is(&which.workflow, &def.name)
                && which.version.is_none_or(|it| it == def.version)
                && which.text.as_ref().is_none_or(|text| def.name.contains(text))
        });
        lanes.map(|version| version.lane).collect()
    }

    /// Returns the highest release number so far.
    pub fn last_release(&self) -> i64 {
        self.last_release
    }

    /// Returns the overrides of the workspace.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Returns the limit of a gate under the current release and the overrides in force. `own` are
    /// the numbers of its row.
    pub fn limit(&self, scope: &Scope, own: RowNumbers<'_>) -> Limit {
        self.limit_under(&self.overrides, scope, own)
    }

    /// As [`Catalog::limit`], under other overrides.
    pub fn limit_under(&self, overrides: &Overrides, scope: &Scope, own: RowNumbers<'_>) -> Limit {
        let defined = self.defined_limit(scope, Numbers::Of(own));
        let limit = overrides.apply(scope, defined.clone());
        self.cap(scope, &defined, limit)
    }

    /// Returns the limit with which the costs of new runs are compared: the highest that it may
    /// have while they wait, if it is adaptive (spec L28).
    pub fn limit_of_costs(&self, scope: &Scope, own: RowNumbers<'_>) -> Limit {
        if self.adaptive(scope).is_none() {
            return self.open_limit(scope, own);
        }
        let highest = self.defined_limit(scope, Numbers::Highest);
        let limit = self.overrides.open(scope, highest.clone());
        self.cap(scope, &highest, limit)
    }

    /// Returns the limit of a gate, given the one of its definition and the one under an override,
    /// which caps an adaptive limit and replaces any other.
    fn cap(&self, scope: &Scope, defined: &Limit, limit: Limit) -> Limit {
        match (defined, limit) {
            (Limit::Slots(own), Limit::Slots(over))
                if over > *own && self.adaptive(scope).is_some() =>
            {
                Limit::Slots(*own)
            }
            (_, limit) => limit,
        }
    }

    /// Returns the settings of a gate's limit if it is adaptive under the current release.
    pub fn adaptive(&self, scope: &Scope) -> Option<Adaptive> {
        if scope.class.is_pooled() {
            return self.pools.get(&scope.name)?.adaptive(scope.class);
        }
        let current = self.entry(&scope.app, &scope.name)?.current.as_ref()?;
        (control::owner(scope.class).adaptive)(&current.workflow, scope)
    }

    /// Whether the current release reads the limit of a gate from data.
    pub fn reads_limit(&self, scope: &Scope) -> bool {
        let limit = |numbers| self.defined_limit(scope, numbers);
        limit(Numbers::Lowest) != limit(Numbers::Highest)
    }

    /// Returns the limit that a gate has when no pause closes it, for what is inside.
    pub fn open_limit(&self, scope: &Scope, own: RowNumbers<'_>) -> Limit {
        let defined = self.defined_limit(scope, Numbers::Of(own));
        let limit = self.overrides.open(scope, defined.clone());
        self.cap(scope, &defined, limit)
    }

    /// Returns how the values at a gate take turns under the current release; none if its queue is
    /// served by rank.
    pub fn fair(&self, scope: &Scope) -> Option<&Fair> {
        if scope.class.is_pooled() {
            return self.pools.get(&scope.name)?.fair(scope.class);
        }
        let current = self.entry(&scope.app, &scope.name)?.current.as_ref()?;
        (control::owner(scope.class).fair)(&current.workflow, scope)
    }

    /// Returns the weight of a value at a gate, under the current release and the overrides in force;
    /// none if the queue is served by rank.
    pub fn weight(&self, scope: &Scope, value: &Key) -> Option<u32> {
        let fair = self.fair(scope)?;
        let over = self.overrides.weight(scope, value).and_then(|over| over.fields.weight);
        Some(over.unwrap_or_else(|| fair.weight(value)))
    }

    /// Returns the limit of a gate under the current release, without overrides.
    pub fn defined_limit(&self, scope: &Scope, numbers: Numbers<'_>) -> Limit {
        if scope.class.is_pooled() {
            return self.pools.limit(scope, numbers);
        }
        let entry = self.entry(&scope.app, &scope.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        let current = current.map(|current| &*current.workflow);
        (control::owner(scope.class).limit)(current, scope, numbers)
    }
}

/// App of the definition rows of reactions. No user's app begins with `$`.
pub const REACTIONS: &str = "$reactions";

/// App of the definition rows of pools.
pub const POOLS: &str = "$pools";

/// App of the definition rows that mark end events for which runs have waited.
pub(crate) const AWAITED: &str = "$awaited";

/// Version number of the row that marks a workflow as retired; no user's version has it. The row
/// has a release number, which says whether the retirement or a release is later.
pub const RETIRED: u32 = 0;

pub(crate) fn read<T: serde::de::DeserializeOwned>(def: &Def) -> Result<T, CatalogError> {
    serde_json::from_str(def.body.as_str()).map_err(|error| CatalogError {
        name: def.name.clone(),
        version: def.version,
        reason: error.to_string(),
    })
}
