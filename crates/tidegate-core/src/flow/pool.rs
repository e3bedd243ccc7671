//! Pools: limits that several workflows share.
//!
//! A pool is declared once in a workspace (`crate::pool`). A definition uses its limits by name, in
//! the list of the control that the limit belongs to: `concurrency`, `throttle` or `rateLimit`. The
//! gates belong to the pool: all runs with one key meet there, of whatever workflow, and the path
//! of the key is not part of the gate's key (spec L4).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    batch::run_of_many,
    control::Reading,
    cost::Cost,
    key_source::KeySource,
    plan::{Candidate, Plan},
    verdict::Verdict,
};
use crate::{
    catalog::{Limit, Pools},
    command::Refusal,
    definition::{Code, Definition, DefinitionErrors, Fields, Problem, Reported, nearest},
    draft::{Decided, Draft, Stop},
    row::{Numbers, Scope, Span, Workspace},
};

/// The fields of an entry that names a pool.
const FIELDS: [&str; 3] = ["pool", "key", "cost"];

/// Part of a pool: the control whose limits it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// How many units are inside at once.
    Concurrency,
    /// How many units start over time.
    Throttle,
    /// How many units are admitted over time.
    RateLimit,
}

impl Part {
    /// Returns the name of the control.
    pub fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Throttle => "throttle",
            Self::RateLimit => "rateLimit",
        }
    }
}

/// Use of one part of a pool by a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolUse {
    /// The part, which is the control in whose list the author wrote the use.
    pub part: Part,
    /// The pool's name.
    pub pool: String,
    /// The key, instead of the pool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// The units that a run takes; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl PoolUse {
    fn read(part: Part, fields: &mut Fields<'_>) -> Result<PoolUse, Reported> {
        let (pool, key, cost) = (fields.name("pool"), fields.key("key"), Cost::read(fields));
        let pool = pool?.ok_or_else(|| fields.missing("pool", "the name of a pool"))?;
        Ok(PoolUse { part, pool: pool.to_owned(), key: key?, cost: cost? })
    }

    fn to_value(&self) -> Value {
        let mut value = json!({ "pool": self.pool });
        if let Some(key) = &self.key {
            value["key"] = json!(key);
        }
        if let Some(cost) = &self.cost {
            value["cost"] = json!(cost);
        }
        value
    }

    /// Returns the gate of this use, how long a run holds it, and the number of its limits. None if
    /// the key says that the use does not apply, or if the pool was removed, which happens only to
    /// a retired workflow.
    fn gate(&self, candidate: &Candidate<'_>) -> Decided<Option<(Scope, Span, usize)>, Verdict> {
        let Some(pool) = candidate.pools.get(&self.pool) else { return Ok(None) };
        let Some((class, span, path, limits)) = pool.part(self.part) else { return Ok(None) };
        let key = self.key.as_ref().or(path);
        let Some(key) = candidate.key(self.part.name(), key)? else { return Ok(None) };
        let (ws, app, slot) = (candidate.ws.clone(), String::new(), String::new());
        let scope = Scope { ws, class, app, name: self.pool.clone(), slot, key };
        Ok(Some((scope, span, limits)))
    }
}

/// Whether an entry of a control's list names a pool.
pub(crate) fn is_use(entry: &Value) -> bool {
    entry.get("pool").is_some()
}

/// Reads the entries of a control's list that name pools. Returns their places.
pub(crate) fn read(
    reading: &mut Reading<'_>,
    part: Part,
    entries: Vec<(String, &Value)>,
) -> Vec<String> {
    let mut places = Vec::new();
    for (at, entry) in entries {
        let fields = Fields::open(entry, &at, &FIELDS, reading.problems);
        if let Ok(read) = fields.and_then(|mut fields| PoolUse::read(part, &mut fields)) {
            reading.definition.pools.push(read);
            places.push(at);
        }
    }
    places
}

impl Definition {
    /// Returns the uses of one part of pools.
    pub(crate) fn uses(&self, part: Part) -> impl Iterator<Item = &PoolUse> {
        self.pools.iter().filter(move |it| it.part == part)
    }

    /// Returns these uses in the author's form.
    pub(crate) fn written_uses(&self, part: Part) -> impl Iterator<Item = Value> {
        self.uses(part).map(PoolUse::to_value)
    }

    /// Returns the keys of these uses; none for the pool's own.
    pub(crate) fn keys_of_uses(&self, part: Part) -> impl Iterator<Item = Option<&KeySource>> {
        self.uses(part).map(|it| it.key.as_ref())
    }

    /// Returns the costs of these uses, where the author gave them.
    pub(crate) fn costs_of_uses(&self, part: Part) -> impl Iterator<Item = &Cost> {
        self.uses(part).filter_map(|it| it.cost.as_ref())
    }
}

/// Adds the gates of pools to a run's plan.
pub(crate) fn plan(candidate: &Candidate<'_>, part: Part, plan: &mut Plan) -> Decided<(), Verdict> {
    for it in candidate.workflow().uses(part) {
        let Some((scope, span, limits)) = it.gate(candidate)? else { continue };
        let cost = candidate.cost(part.name(), it.cost.as_ref())?;
        if plan.add_pooled(&scope, span, cost, limits) {
            let fair = candidate.pools.get(&it.pool).and_then(|pool| pool.fair(scope.class));
            plan.share(candidate, part.name(), fair)?;
        }
    }
    Ok(())
}

/// Returns the meters of pools that an event spends on arrival, each with its cost. Two uses of one
/// meter are one of summed cost.
pub(crate) fn spends(candidate: &Candidate<'_>) -> Decided<Vec<(Scope, u32)>, Verdict> {
    let mut all: Vec<(Scope, u32)> = Vec::new();
    for it in candidate.workflow().uses(Part::RateLimit) {
        let Some((scope, _, _)) = it.gate(candidate)? else { continue };
        let cost = candidate.cost(Part::RateLimit.name(), it.cost.as_ref())?;
        match all.iter_mut().find(|(known, _)| *known == scope) {
            Some((_, sum)) => *sum = sum.saturating_add(cost),
            None => all.push((scope, cost)),
        }
    }
    Ok(all)
}

/// Returns the pools of a workspace for decisions about a definition; an empty list if it uses
/// none.
pub(crate) fn of<E>(draft: &Draft, ws: &Workspace, workflow: &Definition) -> Decided<Pools, E> {
    if workflow.pools.is_empty() {
        return Ok(Pools::default());
    }
    Ok(draft.catalog(ws)?.pools().clone())
}

/// Returns the problems of a definition's uses: unknown pools, and parts that a pool does not have.
pub fn problems(pools: &Pools, workflow: &Definition) -> Vec<Problem> {
    let mut found = Vec::new();
    for (n, it) in workflow.pools.iter().enumerate() {
        let (name, part) = (&it.pool, it.part.name());
        let message = match pools.get(name) {
            Some(pool) if pool.part(it.part).is_some() => match foreign_key(pools, workflow, it) {
                Some(message) => message,
                None => continue,
            },
            Some(_) => format!("names pool `{name}`, which has no {part}: declare it on the pool"),
            None => {
                let known: Vec<&str> = pools.iter().map(|pool| &*pool.name).collect();
                let fix = if known.is_empty() {
                    "declare it first: no pool is declared".to_owned()
                } else {
                    nearest::suggest(name, &known)
                };
                format!("names pool `{name}`, which does not exist: {fix}")
            }
        };
        found.push(problem(workflow, Code::UnknownValue, place(workflow, n), message));
    }
    found
}

/// Returns the problems of fixed costs that no run could pay: its limit at a pool is lower. Only new
/// definitions are checked, so that a lower limit of a pool stops no restart of a program.
fn unpayable(pools: &Pools, workflow: &Definition) -> Vec<Problem> {
    let mut found = Vec::new();
    for (n, it) in workflow.pools.iter().enumerate() {
        let Some(Cost::Units(cost)) = it.cost else { continue };
        let pool = pools.get(&it.pool);
        let most = pool.and_then(|pool| Some((pool.part(it.part)?.0, pool)));
        let most = most.and_then(|(class, pool)| match pool.limit(class, Numbers::Highest) {
            Limit::Slots(limit) => Some(limit),
            // A cost above the burst of a throttle delays later starts (spec L9).
            Limit::Rates(rates) if it.part == Part::RateLimit => {
                rates.iter().map(|rate| rate.burst).min()
            }
            Limit::Rates(_) | Limit::Open | Limit::Closed => None,
        });
        if let Some(most) = most.filter(|most| cost > *most) {
            let field = place(workflow, n).replace(".pool", ".cost");
            let message =
                format!("must be at most the limit of pool `{}` ({most}), got {cost}", it.pool);
            found.push(problem(workflow, Code::OutOfRange, field, message));
        }
    }
    found
}

fn problem(workflow: &Definition, code: Code, field: String, message: String) -> Problem {
    let kind = if workflow.flow.is_some() { "action" } else { "workflow" };
    let subject = format!("{kind} `{}`", workflow.name);
    Problem { code, subject, field, message }
}

/// Says what is wrong if a batch or a window would pass a pool under another key than its own: its
/// events have only that one in common.
fn foreign_key(pools: &Pools, workflow: &Definition, it: &PoolUse) -> Option<String> {
    let (noun, key) = run_of_many(workflow).filter(|_| it.part != Part::RateLimit)?;
    let (_, _, own, _) = pools.get(&it.pool)?.part(it.part)?;
    let (pool, foreign) = (&it.pool, |path: &&KeySource| key != Some(*path));
    if let Some(path) = own.filter(|_| it.key.is_none()).filter(foreign) {
        let rule = format!("but a {noun} has only its own key");
        return Some(format!("uses the key `{path}` of pool `{pool}`, {rule}"));
    }
    let class = pools.get(pool)?.part(it.part)?.0;
    let by = pools.get(pool)?.fair(class).map(|fair| &fair.by).filter(foreign)?;
    Some(format!("takes turns by `{by}` at pool `{pool}`, but a {noun} has only its own key"))
}

/// Returns the place of a use in the author's form.
fn place(workflow: &Definition, n: usize) -> String {
    let part = workflow.pools[n].part;
    let before = workflow.pools[..n].iter().filter(|other| other.part == part).count();
    let (control, value) = (part.name(), workflow.to_value());
    let entries = value[control].as_array().into_iter().flatten().enumerate();
    match entries.filter(|(_, entry)| is_use(entry)).nth(before) {
        Some((at, _)) => format!("{control}[{at}].pool"),
        None => format!("{control}.pool"),
    }
}

/// Refuses a definition whose uses have problems.
pub(crate) fn check(pools: &Pools, workflow: &Definition) -> Decided<()> {
    refuse(problems(pools, workflow))
}

/// Refuses a new definition with fixed costs that no run could pay.
pub(crate) fn check_costs(pools: &Pools, workflow: &Definition) -> Decided<()> {
    refuse(unpayable(pools, workflow))
}

fn refuse(found: Vec<Problem>) -> Decided<()> {
    if found.is_empty() {
        return Ok(());
    }
    Err(Stop::Refused(Refusal::Definition(DefinitionErrors(found))))
}
