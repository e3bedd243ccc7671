//! Pools: their declarations, and the commands that change them.
//!
//! A pool is a row like a definition (`Def` under the app [`POOLS`]) and part of the catalog, so
//! that all processes agree about it: a change applies from its commit on, to the runs that wait,
//! too. How definitions use pools is in `flow/pool.rs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    catalog::{Catalog, Entry, Limit, POOLS, Pools},
    command::Refusal,
    definition::{
        Code, DefinitionErrors, Fields, Kind, Parsed, Problems, Reported, nearest, shorten,
    },
    draft::{Decided, Draft, Stop},
    flow::{
        adaptive::Adaptive, concurrency::Concurrency, fair::Fair, key_source::KeySource,
        meter::Rate, one_or_list, pool::Part, rate_limit::RateLimit, throttle::Throttle,
    },
    json::Payload,
    row::{Class, Def, GateKey, Numbers, RowKey, Span, Workspace},
    version,
};

/// Maximum number of pools of a workspace. Every process has all of them in memory.
pub const MAX_POOLS: usize = 1000;

/// Maximum number of rates of one part of a pool. Every run is counted by each of them.
pub const MAX_RATES: usize = 16;

/// Named set of limits of a workspace, which several workflows share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// The name, unique in the workspace.
    pub name: String,
    /// Limit on the units inside at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// Limits on the units that start over time. All have one key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<Throttle>,
    /// Limits on the units that are admitted over time. All have one key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_limit: Vec<RateLimit>,
}

impl Pool {
    /// Parses a declaration and reports all of its problems.
    pub fn parse(value: &Value) -> Result<Parsed<Pool>, DefinitionErrors> {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut problems = Problems::new(Kind::Pool, name);
        let pool = Self::read(value, &mut problems).ok();
        problems.finish(pool)
    }

    fn read(value: &Value, problems: &mut Problems) -> Result<Pool, Reported> {
        let known = ["name", "concurrency", "throttle", "rateLimit"];
        let mut fields = Fields::open(value, "", &known, problems)?;
        let name = fields.name("name")?.map(str::to_owned);
        let name = name.ok_or_else(|| fields.missing("name", "1 to 256 characters"));
        let given = |name: &str| value.get(name).filter(|value| !value.is_null());
        if known[1..].iter().all(|part| given(part).is_none()) {
            let rule = "a pool has at least one of `concurrency`, `throttle` and `rateLimit`";
            return Err(fields.missing("concurrency", rule));
        }
        let concurrency = given("concurrency").map(|value| {
            let known = ["limit", "key", "span", "fair", "adaptive"];
            let fields = Fields::open(value, "concurrency", &known, problems);
            fields.and_then(|mut fields| Concurrency::read(&mut fields))
        });
        let throttle = given("throttle").map_or(Ok(Vec::new()), |value| {
            let known = ["limit", "perMs", "burst", "key", "fair"];
            let read = rates("throttle", value, &known, problems, Throttle::read)?;
            check_fair(&read, problems)?;
            let limits = read.iter().map(|it| (it.metered().slowest(), it.key.as_ref()));
            check(&limits.collect::<Vec<_>>(), "throttle", problems).map(|()| read)
        });
        let rate_limit = given("rateLimit").map_or(Ok(Vec::new()), |value| {
            let known = ["limit", "perMs", "burst", "key"];
            let read = rates("rateLimit", value, &known, problems, RateLimit::read)?;
            let limits = read.iter().map(|it| (it.metered().slowest(), it.key.as_ref()));
            check(&limits.collect::<Vec<_>>(), "rateLimit", problems).map(|()| read)
        });
        let (concurrency, throttle) = (concurrency.transpose()?, throttle?);
        Ok(Pool { name: name?, concurrency, throttle, rate_limit: rate_limit? })
    }

    /// Returns the pool in the author's form, which [`Pool::parse`] accepts.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".to_owned(), Value::from(self.name.as_str()));
        let parts = [
            ("concurrency", self.concurrency.as_ref().map(Concurrency::to_value)),
            ("throttle", one_or_list(self.throttle.iter().map(Throttle::to_value))),
            ("rateLimit", one_or_list(self.rate_limit.iter().map(RateLimit::to_value))),
        ];
        map.extend(parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?))));
        Value::Object(map)
    }

    /// Returns the class of the gates of one part, how long a run holds them, the path of their key
    /// and the number of their limits; none if the pool does not have the part.
    pub(crate) fn part(&self, part: Part) -> Option<(Class, Span, Option<&KeySource>, usize)> {
        match part {
            Part::Concurrency => {
                let limit = self.concurrency.as_ref()?;
                let class = match limit.hold() {
                    Span::Run => Class::PoolRunLimit,
                    Span::Executing | Span::Start => Class::PoolLimit,
                };
                Some((class, limit.hold(), limit.key.as_ref(), 1))
            }
            Part::Throttle => {
                let key = self.throttle.first()?.key.as_ref();
                Some((Class::PoolThrottle, Span::Start, key, self.throttle.len()))
            }
            Part::RateLimit => {
                let key = self.rate_limit.first()?.key.as_ref();
                Some((Class::PoolRateLimit, Span::Start, key, self.rate_limit.len()))
            }
        }
    }

    /// Returns how the values at the pool's gates of one class take turns; none if their queues are
    /// served by rank.
    pub(crate) fn fair(&self, class: Class) -> Option<&Fair> {
        if class == Class::PoolThrottle {
            return self.throttle.iter().find_map(|rate| rate.fair.as_ref());
        }
        let limits = matches!(class, Class::PoolRunLimit | Class::PoolLimit);
        self.concurrency.as_ref().filter(|_| limits)?.fair.as_ref()
    }

    /// Returns the settings of the pool's limit on runs if it is adaptive.
    pub(crate) fn adaptive(&self, class: Class) -> Option<Adaptive> {
        let limits = matches!(class, Class::PoolRunLimit | Class::PoolLimit);
        self.concurrency.as_ref().filter(|_| limits)?.adaptive
    }

    /// Returns the limit of the pool's gates of one class.
    pub(crate) fn limit(&self, class: Class, numbers: Numbers<'_>) -> Limit {
        let rates = |rates: Vec<Rate>| {
            if rates.is_empty() { Limit::Open } else { Limit::Rates(rates) }
        };
        if class == Class::PoolThrottle {
            rates(self.throttle.iter().map(|it| it.metered().slowest()).collect())
        } else if class == Class::PoolRateLimit {
            rates(self.rate_limit.iter().map(|it| it.metered().slowest()).collect())
        } else {
            let limit = |it: &Concurrency| Limit::Slots(it.number(numbers));
            self.concurrency.as_ref().map_or(Limit::Open, limit)
        }
    }
}

/// Reads a rate or a list of rates.
fn rates<T>(
    name: &str,
    value: &Value,
    known: &[&str],
    problems: &mut Problems,
    read: fn(&mut Fields<'_>) -> Result<T, Reported>,
) -> Result<Vec<T>, Reported> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    if list.is_empty() || list.len() > MAX_RATES {
        let message = format!("must have 1 to {MAX_RATES} limits, got {}", shorten(value));
        return Err(problems.error(Code::OutOfRange, name, message));
    }
    let mut all = Vec::new();
    for (n, entry) in list.iter().enumerate() {
        let at = if value.is_array() { format!("{name}[{n}]") } else { name.to_owned() };
        let fields = Fields::open(entry, &at, known, problems);
        all.push(fields.and_then(|mut fields| read(&mut fields)));
    }
    all.into_iter().collect()
}

/// Refuses a second `fair` for the one queue of a pool's throttle.
fn check_fair(rates: &[Throttle], problems: &mut Problems) -> Result<(), Reported> {
    let mut fair = rates.iter().enumerate().filter(|(_, rate)| rate.fair.is_some());
    let (Some((first, _)), Some((second, _))) = (fair.next(), fair.next()) else { return Ok(()) };
    let message = format!("is a second one for the queue of throttle[{first}]: keep one of them");
    Err(problems.error(Code::Conflict, &format!("throttle[{second}].fair"), message))
}

/// Checks the rates of one part: they share one key, so that a run takes one gate for all of them.
fn check(
    limits: &[(Rate, Option<&KeySource>)],
    name: &str,
    problems: &mut Problems,
) -> Result<(), Reported> {
    for (n, (rate, key)) in limits.iter().enumerate() {
        let at = if limits.len() > 1 { format!("{name}[{n}]") } else { name.to_owned() };
        if let Some(message) = rate.problem() {
            return Err(problems.error(Code::OutOfRange, &format!("{at}.burst"), message));
        }
        if *key != limits[0].1 {
            let message = format!("differs from the key of {name}[0]: declare a pool for each key");
            return Err(problems.error(Code::Conflict, &format!("{at}.key"), message));
        }
        if let Some(m) = limits[..n].iter().position(|(other, _)| other.per_ms == rate.per_ms) {
            let message = format!("counts the same as {name}[{m}] over the same period: keep one");
            return Err(problems.error(Code::Conflict, &at, message));
        }
    }
    Ok(())
}

/// Stored form of a pool: the body of its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPool {
    /// The pool; none if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// The last declaration by code or by the config file, if there was one. The same declaration
    /// again has no effect, so that a restart does not undo a change by the API (spec L6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Pool>,
    /// The highest limit of `concurrency` so far: a lower limit evicts no run.
    #[serde(default)]
    pub highest: u32,
}

/// Command on pools.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolCommand {
    /// Declares a pool in code or in the config file. Has no effect if the declaration is the same
    /// as the last one.
    Declare(Box<Pool>),
    /// Creates or replaces a pool.
    Put(Box<Pool>),
    /// Removes a pool that no workflow uses.
    Remove(String),
}

/// Reason why a command on pools was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// The workspace has no such pool.
    #[error("there is no pool `{name}`: {hint}")]
    NoPool {
        /// The pool.
        name: String,
        /// A suggestion.
        hint: String,
    },
    /// Workflows use the pool, or a part of it that the new declaration does not have.
    #[error("{what} of pool `{name}` is used by {}: change them first", listed(.users))]
    InUse {
        /// The pool.
        name: String,
        /// What the command would take away.
        what: &'static str,
        /// The workflows.
        users: Vec<String>,
    },
    /// The workspace has the maximum number of pools.
    #[error("the workspace has {MAX_POOLS} pools, which is the limit: remove one, or use keys")]
    TooMany,
}

/// Number of users that an error names.
const NAMED: usize = 10;

fn listed(users: &[String]) -> String {
    let names: Vec<&str> = users.iter().take(NAMED).map(String::as_str).collect();
    let more = users.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", nearest::list(&names))
}

impl PoolRefusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPool { .. } => "no_pool",
            Self::InUse { .. } => "pool_in_use",
            Self::TooMany => "too_many_pools",
        }
    }

    /// Creates the refusal for a pool that does not exist.
    pub fn unknown(pools: &Pools, name: &str) -> Self {
        let known: Vec<&str> = pools.iter().map(|pool| &*pool.name).collect();
        let hint = if known.is_empty() {
            "no pool is declared".to_owned()
        } else {
            nearest::suggest(name, &known)
        };
        Self::NoPool { name: name.to_owned(), hint }
    }
}

impl PoolCommand {
    /// Decides the command. Returns whether it has changed anything.
    pub(crate) fn decide(&self, draft: &mut Draft, ws: &Workspace) -> Decided<bool> {
        match self {
            Self::Declare(pool) => declare(draft, ws, pool),
            Self::Put(pool) => put(draft, ws, pool, None),
            Self::Remove(name) => remove(draft, ws, name),
        }
    }
}

fn declare(draft: &mut Draft, ws: &Workspace, pool: &Pool) -> Decided<bool> {
    let catalog = draft.definitions(ws)?;
    let known = catalog.pools().stored(&pool.name);
    let same = |known: &&StoredPool| known.pool.is_some() && known.declared.as_ref() == Some(pool);
    if known.as_ref().is_some_and(same) {
        return Ok(false);
    }
    put(draft, ws, pool, Some(pool))
}

fn put(draft: &mut Draft, ws: &Workspace, pool: &Pool, declared: Option<&Pool>) -> Decided<bool> {
    let catalog = draft.definitions(ws)?;
    let (name, pools) = (&pool.name, catalog.pools());
    let known = pools.stored(name);
    let before = known.and_then(|known| known.pool.as_ref());
    if before.is_none() && pools.iter().count() >= MAX_POOLS {
        return Err(Stop::Refused(PoolRefusal::TooMany.into()));
    }
    let declared = declared.or(known.and_then(|known| known.declared.as_ref())).cloned();
    let limit = pool.concurrency.as_ref().map_or(0, |it| it.number(Numbers::Highest));
    let highest = known.map_or(0, |known| known.highest).max(limit);
    let stored = StoredPool { pool: Some(pool.clone()), declared, highest };
    if known == Some(&stored) {
        return Ok(false);
    }
    if let Some(before) = before {
        keep_parts(&catalog, before, pool)?;
    }
    store(draft, &catalog, ws, name, stored)?;
    Ok(true)
}

/// Refuses a declaration without a part that workflows use. A change of the span is refused, too:
/// the runs of before and after it would not be counted together.
fn keep_parts(catalog: &Catalog, before: &Pool, after: &Pool) -> Decided<()> {
    for part in [Part::Concurrency, Part::Throttle, Part::RateLimit] {
        let class = |pool: &Pool| pool.part(part).map(|(class, ..)| class);
        if class(before).is_none() || class(before) == class(after) {
            continue;
        }
        let users = users_of(catalog, &before.name, Some(part));
        if !users.is_empty() {
            let spanned = class(after).is_some();
            let what = if spanned { "concurrency.span" } else { part.name() };
            let refusal = PoolRefusal::InUse { name: before.name.clone(), what, users };
            return Err(Stop::Refused(refusal.into()));
        }
    }
    Ok(())
}

fn remove(draft: &mut Draft, ws: &Workspace, name: &str) -> Decided<bool> {
    let catalog = draft.definitions(ws)?;
    let known = catalog.pools().stored(name).filter(|known| known.pool.is_some());
    let Some(highest) = known.map(|known| known.highest) else {
        return Err(Stop::Refused(PoolRefusal::unknown(catalog.pools(), name).into()));
    };
    let users = users_of(&catalog, name, None);
    if !users.is_empty() {
        let refusal = PoolRefusal::InUse { name: name.to_owned(), what: "a limit", users };
        return Err(Stop::Refused(refusal.into()));
    }
    // The row stays, so that the pool has the same number if it is declared again.
    store(draft, &catalog, ws, name, StoredPool { pool: None, declared: None, highest })?;
    Ok(true)
}

/// Writes the row of a pool, and applies its limits to existing gates.
fn store(
    draft: &mut Draft,
    catalog: &Catalog,
    ws: &Workspace,
    name: &str,
    stored: StoredPool,
) -> Decided<()> {
    let known = catalog.pools().lane(name);
    let prefixes = Class::ALL.into_iter().filter(|class| class.is_pooled());
    let prefixes = prefixes.map(|class| GateKey::prefix(ws, class, "", name)).collect();
    let pool = stored.pool.clone();
    if known.is_some() {
        version::renumber(draft, ws, prefixes, |scope, own| {
            let numbers = Numbers::Of(own);
            let limit = pool.as_ref().map_or(Limit::Open, |pool| pool.limit(scope.class, numbers));
            catalog.overrides().open(scope, limit)
        })?;
    }
    let lane = match known {
        Some(lane) => {
            draft.row::<Refusal>(&RowKey::Def(lane))?;
            lane
        }
        None => draft.next_seq()?,
    };
    let value = serde_json::to_value(&stored).expect("a pool is serializable");
    draft.define(Def {
        lane,
        ws: ws.clone(),
        app: POOLS.to_owned(),
        name: name.to_owned(),
        version: 1,
        body: Payload::from_value(&value),
        released: None,
        assigned: None,
        deployed: false,
    })
}

/// Returns the workflows whose current release uses a pool, as `app/name`, or one part of it. The
/// default app is not named.
pub fn users(catalog: &Catalog, pool: &str) -> Vec<String> {
    users_of(catalog, pool, None)
}

fn users_of(catalog: &Catalog, pool: &str, part: Option<Part>) -> Vec<String> {
    let uses = |entry: &Entry| {
        let current = entry.open().map(|current| Arc::clone(&current.workflow));
        current.is_some_and(|workflow| {
            let mut uses = workflow.pools.iter();
            uses.any(|it| it.pool == pool && part.is_none_or(|part| part == it.part))
        })
    };
    let names = catalog.entries().filter(|(_, entry)| uses(entry));
    names.map(|((app, name), _)| shown(app, name)).collect()
}

fn shown(app: &str, name: &str) -> String {
    if app == crate::definition::DEFAULT_APP { name.to_owned() } else { format!("{app}:{name}") }
}
