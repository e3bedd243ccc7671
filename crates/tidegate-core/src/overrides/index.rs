//! Index of overrides: which overrides apply to a gate.
//!
//! A workspace without overrides pays one look at an empty map for a limit, a workflow without
//! overrides one look-up of its name.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{Fields, Override, OverrideRow, Target};
use crate::{
    catalog::{CatalogError, Limit},
    flow::meter::Rate,
    id::Seq,
    key::{Key, Scalar},
    row::{Class, Def, GateKey, Purpose, Run, Scope},
};

type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// All overrides of a workspace, by the gates that they apply to.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The row of each target that has or had an override.
    rows: Map<Target, Arc<OverrideRow>>,
    targets: Map<Seq, Target>,
    /// Overrides in force, by app and workflow; those of pools under the empty app.
    workflows: Map<String, Map<String, Workflow>>,
    in_force: usize,
}

/// Overrides of one workflow or pool, by class and slot of its gates.
type Workflow = Map<(Class, String), Slot>;

/// Overrides of the gates of one slot.
#[derive(Clone, Debug, Default)]
struct Slot {
    keys: Map<Scalar, Positions>,
    prefixes: Map<String, Positions>,
    all: Positions,
    /// Overrides of the weights of values of `fair`.
    values: Map<String, Arc<Override>>,
}

/// Overrides of one target, by the position of the limit.
type Positions = Map<u32, Arc<Override>>;

/// The overrides of one slot that match a key, the most specific first.
struct Matching<'a>(Vec<&'a Positions>);

impl Matching<'_> {
    /// Whether the gates of the key are closed: the most specific override that says so decides, of
    /// whatever position (spec L25).
    fn closes(&self) -> bool {
        let closing = |it: &Positions| {
            it.values().filter_map(|over| over.fields.closing()).reduce(|one, other| one || other)
        };
        self.0.iter().find_map(|it| closing(it)).unwrap_or(false)
    }

    /// Returns the fields in force for the limit at a position, each from the most specific
    /// override that has it (spec L24).
    fn fields(&self, position: u32) -> Fields {
        let found = self.0.iter().filter_map(|it| it.get(&position));
        found.fold(Fields::default(), |fields, it| fields.or(&it.fields))
    }

    /// Returns the limit of a gate that nothing closes, given the limit of its definition.
    fn open(&self, scope: &Scope, limit: Limit) -> Limit {
        match limit {
            Limit::Slots(most) => Limit::Slots(self.fields(0).limit.unwrap_or(most)),
            Limit::Rates(rates) => Limit::Rates(self.rates(scope, rates)),
            Limit::Open | Limit::Closed => limit,
        }
    }

    /// Returns the rates of a meter row, given those of its definition.
    fn rates(&self, scope: &Scope, rates: Vec<Rate>) -> Vec<Rate> {
        let follows = matches!(scope.class, Class::RateLimit | Class::PoolRateLimit);
        let rate = |(n, rate)| self.fields(n).rate(rate, follows);
        (0..).zip(rates).map(rate).collect()
    }
}

impl Slot {
    /// Returns the overrides that match a key. With many overrides, the search is most of the cost
    /// of a limit.
    fn matching(&self, key: &Key) -> Matching<'_> {
        let mut found = Vec::new();
        if let Key::Value(scalar) = key {
            found.extend(self.keys.get(scalar));
            if let Scalar::Text(text) = scalar
                && !self.prefixes.is_empty()
            {
                let ends = (0..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
                found.extend(ends.filter_map(|end| self.prefixes.get(&text[..end])));
            }
        }
        found.push(&self.all);
        Matching(found)
    }

    fn is_empty(&self) -> bool {
        let Self { keys, prefixes, all, values } = self;
        keys.is_empty() && prefixes.is_empty() && all.is_empty() && values.is_empty()
    }

    fn put(&mut self, over: &Arc<Override>, keep: bool) {
        let Target { key, key_prefix, position, value, .. } = &over.target;
        if let Some(value) = value {
            if keep {
                self.values.insert_mut(value.clone(), over.clone());
            } else {
                self.values.remove_mut(value);
            }
            return;
        }
        let change = |positions: Option<&Positions>| {
            let positions = positions.cloned().unwrap_or_default();
            if keep {
                positions.insert(*position, over.clone())
            } else {
                positions.remove(position)
            }
        };
        match (key, key_prefix) {
            (Some(value), _) => {
                let positions = change(self.keys.get(&value.0));
                self.keys = if positions.is_empty() {
                    self.keys.remove(&value.0)
                } else {
                    self.keys.insert(value.0.clone(), positions)
                };
            }
            (None, Some(prefix)) => {
                let positions = change(self.prefixes.get(prefix));
                self.prefixes = if positions.is_empty() {
                    self.prefixes.remove(prefix)
                } else {
                    self.prefixes.insert(prefix.clone(), positions)
                };
            }
            (None, None) => self.all = change(Some(&self.all)),
        }
    }
}

impl Overrides {
    /// Adds the row of a target, in place of the row's last one.
    pub(crate) fn add(&mut self, def: &Def) -> Result<(), CatalogError> {
        let row: OverrideRow = crate::catalog::read(def)?;
        if let Some(before) = self.targets.get(&def.lane).cloned() {
            let row = self.rows.get(&before).and_then(|row| row.over.clone());
            if let Some(over) = row {
                self.index(&over, false);
            }
            self.rows.remove_mut(&before);
        }
        if let Some(over) = &row.over {
            self.index(over, true);
        }
        let row = OverrideRow { lane: def.lane, ..row };
        self.targets.insert_mut(def.lane, row.target.clone());
        self.rows.insert_mut(row.target.clone(), Arc::new(row));
        Ok(())
    }

    fn index(&mut self, over: &Arc<Override>, keep: bool) {
        let (app, workflow) = over.target.owner();
        let mut names = self.workflows.get(app).cloned().unwrap_or_default();
        let mut slots = names.get(workflow).cloned().unwrap_or_default();
        let at = (over.target.class(), over.target.slot().to_owned());
        let mut slot = slots.get(&at).cloned().unwrap_or_default();
        slot.put(over, keep);
        if slot.is_empty() {
            slots.remove_mut(&at);
        } else {
            slots.insert_mut(at, slot);
        }
        if slots.is_empty() {
            names.remove_mut(workflow);
        } else {
            names.insert_mut(workflow.to_owned(), slots);
        }
        if names.is_empty() {
            self.workflows.remove_mut(app);
        } else {
            self.workflows.insert_mut(app.to_owned(), names);
        }
        if keep { self.in_force += 1 } else { self.in_force -= 1 }
    }

    /// Returns these overrides with another one for a target, or with none, for a preview.
    #[must_use]
    pub fn with(&self, target: &Target, after: Option<&Override>) -> Self {
        let mut changed = self.clone();
        if let Some(over) = self.row(target).and_then(|row| row.over.clone()) {
            changed.index(&over, false);
        }
        if let Some(over) = after {
            changed.index(&Arc::new(over.clone()), true);
        }
        changed
    }

    /// Returns the number of overrides in force.
    pub fn len(&self) -> usize {
        self.in_force
    }

    /// Whether no override is in force.
    pub fn is_empty(&self) -> bool {
        self.in_force == 0
    }

    /// Returns the overrides in force, by target.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Override>> {
        self.rows.values().filter_map(|row| row.over.as_ref())
    }

    /// Returns the row of a target that has or had an override.
    pub(super) fn row(&self, target: &Target) -> Option<&OverrideRow> {
        self.rows.get(target).map(|row| &**row)
    }

    /// Returns the row with this number.
    pub(super) fn row_at(&self, lane: Seq) -> Option<&OverrideRow> {
        self.row(self.targets.get(&lane)?)
    }

    /// Returns a row that another target can use.
    pub(super) fn unused(&self, most: usize) -> Option<Seq> {
        if self.rows.size() < most {
            return None;
        }
        self.rows.values().find(|row| row.over.is_none()).map(|row| row.lane)
    }

    /// Whether the target of a row, in force or not, has this gate.
    pub fn has_overridden(&self, scope: &Scope) -> bool {
        self.rows.keys().any(|target| {
            target.owner() == (scope.app.as_str(), scope.name.as_str())
                && (target.class(), target.slot()) == (indexed(scope), scope.slot.as_str())
                && target.value.is_none()
                && target.matches(&scope.key)
        })
    }

    fn slots(&self, app: &str, name: &str) -> Option<&Workflow> {
        if self.in_force == 0 {
            return None;
        }
        self.workflows.get(app)?.get(name)
    }

    fn slot(&self, scope: &Scope) -> Option<&Slot> {
        let slots = self.slots(&scope.app, &scope.name)?;
        slots.get(&(indexed(scope), scope.slot.clone()))
    }

    /// Returns the overrides that apply to a gate, the most specific first.
    pub fn of(&self, scope: &Scope) -> Vec<Override> {
        let slot = self.slot(scope).into_iter().flat_map(|slot| slot.matching(&scope.key).0);
        let mut found: Vec<Override> =
            slot.flat_map(Map::values).map(|over| Override::clone(over)).collect();
        if let Some(slots) = self.slots(&scope.app, &scope.name) {
            let pauses = pausing(scope).into_iter().filter_map(|(slot, key)| {
                let slot = slots.get(&(Class::Pause, slot.to_owned()))?;
                Some(slot.matching(key).0)
            });
            let pauses = pauses.flatten().flat_map(Map::values);
            let pauses = pauses.filter(|over| over.fields.closing() == Some(true));
            found.extend(pauses.map(|over| Override::clone(over)));
        }
        found
    }

    /// Returns the override of the weight that a value has at a gate.
    pub(crate) fn weight(&self, scope: &Scope, value: &Key) -> Option<&Arc<Override>> {
        let values = &self.slot(scope)?.values;
        if values.is_empty() { None } else { values.get(&value.to_string()) }
    }

    /// Returns the limit of a gate, given the limit of its definition.
    pub(crate) fn apply(&self, scope: &Scope, limit: Limit) -> Limit {
        let Some(slots) = self.slots(&scope.app, &scope.name) else { return limit };
        let closed = |class: Class, slot: &str, key: &Key| {
            let slot = slots.get(&(class, slot.to_owned()));
            slot.is_some_and(|slot| slot.matching(key).closes())
        };
        let own = slots.get(&(indexed(scope), scope.slot.clone()));
        let own = own.map(|slot| slot.matching(&scope.key));
        let is_closed = own.as_ref().is_some_and(Matching::closes);
        if scope.class == Class::Pause {
            return if is_closed { Limit::Closed } else { Limit::Open };
        }
        if is_closed || pausing(scope).iter().any(|(at, key)| closed(Class::Pause, at, key)) {
            return Limit::Closed;
        }
        match own {
            Some(own) => own.open(scope, limit),
            None => limit,
        }
    }

    /// Returns the limit that a gate has when nothing closes it, given the limit of its definition.
    pub(crate) fn open(&self, scope: &Scope, limit: Limit) -> Limit {
        match self.slot(scope) {
            Some(slot) => slot.matching(&scope.key).open(scope, limit),
            None => limit,
        }
    }

    /// Returns the rates of a meter row, given those of its definition.
    pub(crate) fn rates(&self, scope: &Scope, rates: Vec<Rate>) -> Vec<Rate> {
        match self.slot(scope) {
            Some(slot) => slot.matching(&scope.key).rates(scope, rates),
            None => rates,
        }
    }

    /// Returns the gate at which a run waits because its first start is paused.
    pub fn pause_of(&self, run: &Run) -> Option<Scope> {
        let slots = self.slots(&run.app, &run.workflow)?;
        if run.started || run.purpose != Purpose::Ordinary {
            return None;
        }
        let pauses = slots.iter().filter(|((class, _), _)| *class == Class::Pause);
        pauses.into_iter().find_map(|((class, path), slot)| {
            let key = if path.is_empty() { Key::Whole } else { key_of(run, path)? };
            slot.matching(&key).closes().then(|| Scope {
                ws: run.ws.clone(),
                class: *class,
                app: run.app.clone(),
                name: run.workflow.clone(),
                slot: path.clone(),
                key,
            })
        })
    }
}

/// Returns the slots and keys of pauses that close a gate: those of a throttle, because all runs in
/// its queue would wait, and those of a pool.
fn pausing(scope: &Scope) -> Vec<(&str, &Key)> {
    if matches!(scope.class, Class::PoolThrottle | Class::PoolLimit | Class::PoolRunLimit) {
        return vec![("", &scope.key)];
    }
    if scope.class != Class::Throttle {
        return Vec::new();
    }
    let mut pauses = vec![("", &Key::Whole)];
    if !scope.slot.is_empty() {
        pauses.push((&scope.slot, &scope.key));
    }
    pauses
}

/// Returns the class under which the overrides of a gate are indexed: a pool has one limit on runs,
/// whatever its span.
fn indexed(scope: &Scope) -> Class {
    if scope.class == Class::PoolRunLimit { Class::PoolLimit } else { scope.class }
}

/// Returns the run's value of a key, from the gates of its plan.
pub(super) fn key_of(run: &Run, path: &str) -> Option<Key> {
    let scopes = run.plan.iter().map(|need| &need.gate).filter_map(GateKey::scope);
    // A gate of one version has the version after the path.
    let of_path = |slot: &str| slot.split('@').next() == Some(path);
    scopes.into_iter().find(|scope| of_path(&scope.slot)).map(|scope| scope.key)
}

impl Fields {
    /// Returns these fields, with the other's where they are absent.
    fn or(&self, other: &Self) -> Self {
        Self {
            limit: self.limit.or(other.limit),
            per_ms: self.per_ms.or(other.per_ms),
            burst: self.burst.or(other.burst),
            weight: self.weight.or(other.weight),
            paused: self.paused.or(other.paused),
            closed_until: self.closed_until.or(other.closed_until),
        }
    }

    /// Whether the override closes the gates of its target, or keeps them open; none if it does
    /// neither.
    pub(crate) fn closing(&self) -> Option<bool> {
        self.closed_until.map(|_| true).or(self.paused)
    }

    /// Whether no field is given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a rate with these fields. If `follows`, a burst that equals the limit follows it:
    /// that is the default of `rateLimit`.
    pub(super) fn rate(&self, rate: Rate, follows: bool) -> Rate {
        let limit = self.limit.unwrap_or(rate.limit);
        let burst = if follows && rate.burst == rate.limit { limit } else { rate.burst };
        Rate {
            limit,
            per_ms: self.per_ms.unwrap_or(rate.per_ms),
            burst: self.burst.unwrap_or(burst),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{overrides::KeyValue, time::Timestamp};

    /// Returns the overrides of the throttle of `w` with the key `id`.
    fn overrides(all: &[(Value, Value)]) -> Overrides {
        all.iter().fold(Overrides::default(), |known, (keys, fields)| {
            let mut target = json!({ "app": "a", "workflow": "w", "path": "id" });
            let paused = fields.get("paused").is_some();
            if !paused {
                target["control"] = json!("throttle");
            }
            let keys = keys.as_object().expect("an object");
            target.as_object_mut().expect("an object").extend(keys.clone());
            let target: Target = serde_json::from_value(target).expect("a target");
            let over = Override {
                target: target.clone(),
                fields: serde_json::from_value(fields.clone()).expect("fields"),
                reason: None,
                author: None,
                at: Timestamp::default(),
                expires_at: None,
            };
            known.with(&target, Some(&over))
        })
    }

    fn gate(class: Class, key: &Value) -> Scope {
        let value = |key: &Value| serde_json::from_value::<KeyValue>(key.clone()).expect("a key").0;
        let key = if key.is_null() { Key::Missing } else { Key::Value(value(key)) };
        let (app, name, slot) = ("a".to_owned(), "w".to_owned(), "id".to_owned());
        Scope { ws: "ws".into(), class, app, name, slot, key }
    }

    // spec L24
    #[test]
    fn each_field_is_that_of_the_exact_key_else_of_the_longest_prefix_else_of_all_keys() {
        let exact = (json!({ "key": "eu-1" }), json!({ "limit": 2 }));
        let long = (json!({ "keyPrefix": "eu-" }), json!({ "limit": 3, "burst": 4 }));
        let short = (json!({ "keyPrefix": "e" }), json!({ "limit": 5, "burst": 6 }));
        let all = (json!({}), json!({ "limit": 7, "burst": 8, "perMs": 9 }));
        let number = (json!({ "key": 1 }), json!({ "burst": 10 }));
        let definition = (20, 21, 22);
        for (in_force, key, expected) in [
            (vec![&exact, &long, &short, &all], json!("eu-1"), (2, 9, 4)),
            (vec![&all, &short, &long, &exact], json!("eu-1"), (2, 9, 4)),
            (vec![&exact, &short, &all], json!("eu-1"), (2, 9, 6)),
            (vec![&exact], json!("eu-1"), (2, 21, 22)),
            (vec![&exact, &long, &short, &all], json!("eu-12"), (3, 9, 4)),
            (vec![&long, &short], json!("eu-2"), (3, 21, 4)),
            (vec![&short, &long], json!("us"), definition),
            (vec![&short, &long], json!("e"), (5, 21, 6)),
            (vec![&exact, &long, &short, &all], json!("us"), (7, 9, 8)),
            (vec![&number, &all], json!(1), (7, 9, 10)),
            (vec![&number, &all], json!("1"), (7, 9, 8)),
            (vec![&long, &all], json!(null), (7, 9, 8)),
            (vec![&exact, &long], json!(null), definition),
        ] {
            let in_force: Vec<_> = in_force.into_iter().cloned().collect();
            let (limit, per_ms, burst) = definition;
            let scope = gate(Class::Throttle, &key);
            let rates = overrides(&in_force).rates(&scope, vec![Rate { limit, per_ms, burst }]);
            let got = (rates[0].limit, rates[0].per_ms, rates[0].burst);
            assert_eq!(got, expected, "key {key} with {in_force:?}");
        }
    }

    // spec L24, L25
    #[test]
    fn a_pause_is_that_of_the_exact_key_else_of_the_longest_prefix_else_of_all_keys() {
        let pause = |paused: bool| json!({ "paused": paused });
        let exact = |paused| (json!({ "key": "eu-1" }), pause(paused));
        let long = |paused| (json!({ "keyPrefix": "eu-" }), pause(paused));
        let short = |paused| (json!({ "keyPrefix": "e" }), pause(paused));
        let all = |paused| (json!({}), pause(paused));
        for (in_force, key, expected) in [
            (vec![exact(false), all(true)], "eu-1", false),
            (vec![exact(false), all(true)], "eu-2", true),
            (vec![exact(true), long(false)], "eu-1", true),
            (vec![short(true), long(false)], "eu-1", false),
            (vec![short(true), long(false)], "ea", true),
            (vec![short(false), all(true)], "eu-1", false),
            (vec![short(false), all(true)], "us", true),
            (vec![long(true)], "us", false),
        ] {
            let closed = overrides(&in_force).apply(&gate(Class::Pause, &json!(key)), Limit::Open);
            assert_eq!(closed == Limit::Closed, expected, "key {key} with {in_force:?}");
        }
    }
}
