//! Overrides in the comparison of the core with the reference.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    overrides::OverrideChange,
    time::Timestamp,
};
use tidegate_testkit::reference::{Keys, Override, Target};

use super::{
    Case, Change, Field,
    compare::{Same, Twin, micros, same},
};

/// A target, in the forms of both sides.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    world: Value,
    reference: Target,
    /// Whether it has keys.
    keyed: bool,
    /// Whether a change of all keys is noticed by several gates: also those of a throttle with a
    /// key, if the starts of the workflow are paused.
    wide: bool,
}

impl Goal {
    /// Whether the target has one gate at most, with these keys.
    fn is_of_one_gate(&self, keys: &Keys) -> bool {
        !self.wide || matches!(keys, Keys::One(_))
    }
}

/// The targets of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Goals {
    all: Vec<Goal>,
    /// Whether no run has several gates. Otherwise a change is for one gate only: the order in
    /// which several gates notice it is not specified, and visible at a later gate that their keys
    /// share.
    single: bool,
}

impl Goals {
    pub(super) fn of(case: &Case) -> Self {
        let mut all = Vec::new();
        for pool in ["px", "pr"] {
            let world = json!({ "pool": pool, "control": "concurrency" });
            all.push(Goal {
                world,
                reference: Target::Pool(pool.to_owned()),
                keyed: true,
                wide: true,
            });
            let reference = Target::Entries(pool.to_owned());
            all.push(Goal { world: json!({ "pool": pool }), reference, keyed: true, wide: true });
        }
        case.definitions.iter().for_each(|def| add(&mut all, def));
        Self { all, single: case.definitions.iter().all(|def| stops(def) <= 1) }
    }
}

/// Returns the entries of a control, which is one entry or a list.
fn entries(def: &Value, control: &str) -> Vec<Value> {
    match def.get(control) {
        None => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    }
}

/// Counts the gates at which a run can wait before it executes.
fn stops(def: &Value) -> usize {
    let limits = entries(def, "concurrency");
    let own = limits.iter().filter(|it| it.get("limit").is_some()).count();
    let pools = limits.iter().any(|it| it.get("pool").is_some());
    let throttles = entries(def, "throttle").into_iter().map(|it| it.get("key").cloned());
    let throttles: BTreeSet<String> = throttles.map(|key| format!("{key:?}")).collect();
    own + usize::from(pools) + throttles.len()
}

fn add(all: &mut Vec<Goal>, def: &Value) {
    let name = def["name"].as_str().expect("a name");
    let name = def["flow"].as_str().map_or(name.to_owned(), |flow| format!("{flow}/{name}"));
    let mut paths = vec![String::new()];
    for (control, entry) in ["concurrency", "throttle"]
        .into_iter()
        .flat_map(|control| entries(def, control).into_iter().map(move |it| (control, it)))
        .filter(|(_, entry)| entry.get("limit").is_some())
    {
        // Other sources than paths have no name that a target can give in these tests.
        let path = match entry.get("key") {
            None => String::new(),
            Some(Value::String(path)) => path.clone(),
            Some(_) => continue,
        };
        let mut world = json!({ "app": "default", "workflow": name, "control": control });
        let mut place = format!("{control} {path}");
        if control == "concurrency" {
            let span = entry["span"].as_str().unwrap_or("executing");
            world["span"] = json!(span);
            place = format!("{span} {path}");
        }
        if !path.is_empty() {
            world["path"] = json!(path);
        }
        let (reference, keyed) = (Target::Gates(name.clone(), place), !path.is_empty());
        if !paths.contains(&path) {
            paths.push(path);
        }
        if all.iter().all(|goal| goal.reference != reference) {
            all.push(Goal { world, reference, keyed, wide: keyed });
        }
    }
    let throttled = entries(def, "throttle").iter().any(|it| it.get("key").is_some());
    for path in paths {
        let mut world = json!({ "app": "default", "workflow": name });
        if !path.is_empty() {
            world["path"] = json!(path);
        }
        let (keyed, reference) = (!path.is_empty(), Target::Starts(name.clone(), path));
        all.push(Goal { world, reference, keyed, wide: keyed || throttled });
    }
}

impl Twin {
    /// Changes an override on both sides, if the target takes the change.
    pub(super) async fn change_override(
        &mut self,
        (goal, key): (usize, Option<Field>),
        change: Change,
        ends: Option<u64>,
    ) -> Same {
        let Some(goal) = self.goals.all.get(goal % self.goals.all.len().max(1)).cloned() else {
            return Ok(());
        };
        let (mut world, keys) = (goal.world.clone(), keys(key.filter(|_| goal.keyed)));
        match &keys {
            Keys::All => {}
            Keys::One(text) => world["key"] = serde_json::from_str(text).expect("a value"),
            Keys::Prefix(prefix) => world["keyPrefix"] = json!(prefix),
        }
        if !self.goals.single && !goal.is_of_one_gate(&keys) {
            return Ok(());
        }
        let of_control = |control: &str| goal.world["control"] == control;
        let (limits, bursts) = (of_control("concurrency"), of_control("throttle"));
        if matches!(change, Change::Limit(_)) && !limits
            || matches!(change, Change::Burst(_)) && !bursts
        {
            return Ok(());
        }
        let now = self.reference.now();
        let after = |ms: u64| self.world.now().plus_ms(ms);
        let (limit, burst, paused, closed) = match change {
            Change::Limit(limit) => (Some(limit), None, None, None),
            Change::Burst(burst) => (None, Some(burst), None, None),
            Change::Pause(paused) => (None, None, Some(paused), None),
            Change::Close(ms) => (None, None, None, Some(ms)),
            Change::Remove => {
                let target = serde_json::from_value(world).expect("a target");
                let removed = self.command(OverrideChange::Remove(target)).await;
                let expected = self.reference.remove_override(&goal.reference, &keys);
                return same("whether an override was removed", &removed, &expected);
            }
        };
        let mut fields = json!({});
        for (name, value) in [
            ("limit", limit.map(|it| json!(it))),
            ("burst", burst.map(|it| json!(it))),
            ("paused", paused.map(|it| json!(it))),
            ("closedUntil", closed.map(|ms| json!(after(ms).rfc3339()))),
        ] {
            if let Some(value) = value {
                fields[name] = value;
            }
        }
        let expires_at: Option<Timestamp> = ends.map(after);
        let target = serde_json::from_value(world).expect("a target");
        let fields = serde_json::from_value(fields).expect("fields");
        let set = OverrideChange::Set { target, fields, reason: None, expires_at };
        if self.command(set).await {
            self.reference.put_override(Override {
                target: goal.reference,
                keys,
                limit: limit.map(Into::into),
                burst: burst.map(Into::into),
                paused,
                closed_until: closed.map(|ms| now + micros(ms)),
                expires: ends.map(|ms| now + micros(ms)),
            });
        }
        Ok(())
    }

    /// Returns whether the core has accepted a change.
    async fn command(&self, change: OverrideChange) -> bool {
        let (ws, change) = (self.world.ws.clone(), Box::new(change));
        let by = Author { name: None, address: None };
        let answer = self.world.run(Command::Override { ws, change, by, if_epoch: None }).await;
        matches!(answer, Ok(Answer::Overridden(_)))
    }
}

fn keys(key: Option<Field>) -> Keys {
    match key {
        None | Some(Field::Missing) => Keys::All,
        Some(Field::Prefix(prefix)) => Keys::Prefix(prefix.to_owned()),
        Some(Field::One | Field::OnePointZero) => Keys::One("1".to_owned()),
        Some(Field::TextOne) => Keys::One("\"1\"".to_owned()),
        Some(Field::TextOneTwo) => Keys::One("\"12\"".to_owned()),
        Some(Field::True) => Keys::One("true".to_owned()),
    }
}
