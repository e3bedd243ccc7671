//! Fairness beside a tenant with very many runs (spec L17), judged from what was leased.
//!
//! The test knows only what it has posted and which runs it was given. For each tenant that waits
//! it counts the units that every other tenant gets, from the tenant's arrival or last service to
//! its next service, and compares them with the bound of the spec. It reads no tag.
//!
//! `TIDEGATE_TEST_FULL` runs with 100,000 waiting runs on SQLite, `TIDEGATE_TEST_SEED` repeats the
//! random choices.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    sync::Arc,
};

use serde_json::{Value, json};
use tidegate_core::{id::RunId, row::Run, time::Timestamp};
use tidegate_store::{ManualClock, MemoryStore, SqliteStore, Store};
use tidegate_testkit::{
    torture::Dice,
    world::{World, event},
};

/// Number of tenants beside the one with very many runs.
const TENANTS: usize = 50;

/// Number of waiting runs of the one tenant, with `TIDEGATE_TEST_FULL`.
const FULL: usize = 100_000;

/// Number of runs in one request.
const AT_ONCE: usize = 1000;

/// One variant of the test.
#[derive(Clone, Copy, Debug, Default)]
struct Variant {
    name: &'static str,
    /// Whether weights are 1 to 1000. Otherwise all are 1.
    weighted: bool,
    /// Whether costs are 1 to 5, at a throttle. Otherwise they are 1, at a limit of one run.
    costly: bool,
    /// Whether a tenant sends its next run when one of its runs is served.
    returns: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "one run each", weighted: false, costly: false, returns: false },
    Variant { name: "weights", weighted: true, costly: false, returns: true },
    Variant { name: "costs", weighted: false, costly: true, returns: true },
    Variant { name: "tenants that return", weighted: false, costly: false, returns: true },
    Variant { name: "weights and costs", weighted: true, costly: true, returns: true },
];

#[tokio::test]
async fn a_tenant_with_many_runs_delays_others_by_the_bound_on_memory() {
    for variant in VARIANTS {
        let clock = clock();
        // The memory store reads all rows in each scan, so the full size would take hours.
        run(variant, Arc::new(MemoryStore::new(clock.clone())), clock, 500).await;
    }
}

#[tokio::test]
async fn a_tenant_with_many_runs_delays_others_by_the_bound_on_sqlite() {
    for variant in VARIANTS {
        let clock = clock();
        let store = SqliteStore::in_memory(clock.clone()).await.expect("SQLite opens");
        let full = env::var_os("TIDEGATE_TEST_FULL").is_some();
        run(variant, Arc::new(store), clock, if full { FULL } else { 2000 }).await;
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)))
}

/// A tenant that waits.
#[derive(Debug, Default)]
struct Wait {
    /// The units that each other tenant has got since the tenant's arrival or last service.
    units: BTreeMap<usize, u64>,
    /// The other tenants that have waited at any moment in between.
    others: BTreeSet<usize>,
}

/// The test's own book of what it has sent and been given.
struct Book {
    variant: Variant,
    weights: Vec<u64>,
    /// The waiting runs of each tenant with their costs, first in, first out.
    waiting: Vec<VecDeque<(RunId, u64)>>,
    waits: BTreeMap<usize, Wait>,
    /// The greatest cost of a run of each tenant.
    greatest: Vec<u64>,
    /// The longest wait in units of others, with its bound.
    longest: (u64, u64),
    services: usize,
}

impl Book {
    fn new(variant: Variant, dice: &mut Dice) -> Self {
        let weight = |_| {
            if variant.weighted {
                [1, 2, 7, 100, 1000][usize::try_from(dice.below(5)).expect("few")]
            } else {
                1
            }
        };
        let weights: Vec<u64> = (0..=TENANTS).map(weight).collect();
        Self {
            variant,
            weights,
            waiting: vec![VecDeque::new(); TENANTS + 1],
            waits: BTreeMap::new(),
            greatest: vec![0; TENANTS + 1],
            longest: (0, 0),
            services: 0,
        }
    }

    /// Notes a run that waits.
    fn came(&mut self, tenant: usize, run: RunId, cost: u64) {
        self.greatest[tenant] = self.greatest[tenant].max(cost);
        self.waiting[tenant].push_back((run, cost));
        for (other, wait) in &mut self.waits {
            if *other != tenant {
                wait.others.insert(tenant);
            }
        }
        if self.waiting[tenant].len() == 1 {
            self.begins(tenant);
        }
    }

    fn begins(&mut self, tenant: usize) {
        let others = self.waits.keys().filter(|other| **other != tenant);
        let others = others.copied().collect();
        self.waits.insert(tenant, Wait { units: BTreeMap::new(), others });
    }

    /// Returns the bound of what another tenant gets while one waits, and the same for all others.
    fn bound(&self, i: usize, j: usize) -> u64 {
        let (_, cost) = self.waiting[i].front().expect("it waits");
        self.weights[j] * cost / self.weights[i] + self.greatest[j]
    }

    /// Notes that a run has got its place. Its tenant must be the one that is expected, and nobody
    /// else may have waited for longer than the bound.
    fn served(&mut self, run: RunId) -> usize {
        self.services += 1;
        let first = |runs: &VecDeque<(RunId, u64)>| runs.front().is_some_and(|(id, _)| *id == run);
        let tenant = self.waiting.iter().position(first);
        let tenant = tenant.expect("inside a tenant the first run is served first");
        let (_, cost) = *self.waiting[tenant].front().expect("it waits");
        for (other, wait) in &mut self.waits {
            if *other != tenant {
                *wait.units.entry(tenant).or_default() += cost;
            }
        }
        self.judge();
        self.note(tenant);
        self.waiting[tenant].pop_front();
        self.waits.remove(&tenant);
        if !self.waiting[tenant].is_empty() {
            self.begins(tenant);
        }
        tenant
    }

    /// Compares what each waiting tenant has seen with the bound.
    fn judge(&self) {
        for (i, wait) in &self.waits {
            for (j, units) in &wait.units {
                let most = self.bound(*i, *j);
                assert!(
                    *units <= most,
                    "{}: while tenant {i} (weight {}) waited, tenant {j} (weight {}) got {units} \
                     units; the bound is {most}",
                    self.variant.name,
                    self.weights[*i],
                    self.weights[*j],
                );
            }
        }
    }

    /// Notes how long the tenant has waited, in units of all others, if it is the longest wait.
    fn note(&mut self, tenant: usize) {
        let wait = &self.waits[&tenant];
        let units: u64 = wait.units.values().sum();
        let all = wait.others.iter().chain(wait.units.keys());
        let all: BTreeSet<usize> = all.copied().collect();
        let bound = all.into_iter().map(|other| self.bound(tenant, other)).sum();
        assert!(units <= bound, "tenant {tenant} waited for {units} units of {bound}");
        if units > self.longest.0 {
            self.longest = (units, bound);
        }
    }
}

/// Declares the workflow of a variant.
async fn define(world: &World, book: &Book) {
    let weights = book.weights.iter().enumerate();
    let weights: serde_json::Map<String, Value> =
        weights.map(|(tenant, weight)| (tenant.to_string(), json!(weight))).collect();
    let fair = json!({ "by": "tenant", "weights": weights });
    let controls = if book.variant.costly {
        let throttle = json!({ "limit": 1, "perMs": 10, "cost": "cost", "fair": fair });
        json!({ "name": "work", "throttle": throttle })
    } else {
        json!({ "name": "work", "concurrency": { "limit": 1, "fair": fair } })
    };
    world.define(controls).await;
}

/// Sends runs of a tenant. Returns those that wait.
async fn send(world: &World, book: &mut Book, dice: &mut Dice, tenant: usize, count: usize) {
    let costs: Vec<u64> =
        (0..count).map(|_| if book.variant.costly { 1 + dice.below(5) } else { 1 }).collect();
    let data = |cost: &u64| event("work", &json!({ "tenant": tenant, "cost": cost }));
    let posted = world.post_all(costs.iter().map(data).collect()).await;
    for (posted, cost) in posted.iter().zip(costs) {
        assert_eq!(posted.runs[0].verdict.outcome(), "queued", "somebody is inside or waits");
        book.came(tenant, posted.runs[0].verdict.run().expect("it waits"), cost);
    }
}

/// Returns the run that enters next.
async fn next(world: &World, variant: Variant) -> Run {
    for _ in 0..10 {
        let leased = world.lease_all().await;
        assert!(leased.len() <= 1, "several runs entered at once");
        if let Some(run) = leased.into_iter().next() {
            return run;
        }
        assert!(variant.costly, "nobody has entered, and nobody is inside");
        world.tick(10).await;
    }
    panic!("nobody enters");
}

#[expect(clippy::print_stdout, reason = "the longest wait is a result")]
async fn run(variant: Variant, store: Arc<dyn Store>, clock: Arc<ManualClock>, crowd: usize) {
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let (world, mut dice) = (World::new(store, clock), Dice::new(seed));
    let mut book = Book::new(variant, &mut dice);
    define(&world, &book).await;
    // Somebody is inside, or has just started, so that all others wait.
    world.send("work", json!({ "tenant": "first", "cost": 1 })).await;
    let mut inside = world.lease_one().await;
    let mut left = crowd;
    while left > 0 {
        let count = left.min(AT_ONCE);
        send(&world, &mut book, &mut dice, 0, count).await;
        left -= count;
    }
    let mut coming: Vec<usize> = (1..=TENANTS).collect();
    let services = if crowd == FULL { 3000 } else { 400 };
    for service in 0..services {
        // Those that come before the end of the service and after it wait alike.
        let arrivals = if service * 8 > services * 5 { 4 } else { dice.below(3) };
        for _ in 0..arrivals {
            if coming.is_empty() {
                break;
            }
            let at = usize::try_from(dice.below(coming.len() as u64)).expect("few");
            let tenant = coming.swap_remove(at);
            send(&world, &mut book, &mut dice, tenant, 1).await;
        }
        world.complete(&inside).await;
        inside = next(&world, variant).await;
        let tenant = book.served(inside.id);
        if variant.returns && tenant > 0 && dice.one_in(2) {
            send(&world, &mut book, &mut dice, tenant, 1).await;
        } else if tenant > 0 && book.waiting[tenant].is_empty() {
            coming.push(tenant);
        }
    }
    let (units, bound) = book.longest;
    println!(
        "{}: {crowd} runs of one tenant, {} services, TIDEGATE_TEST_SEED={seed}: the longest \
              wait was {units} units of others, its bound {bound}",
        variant.name, book.services
    );
    let of_crowd = crowd - book.waiting[0].len();
    assert!(book.services - of_crowd > TENANTS, "too few of the others were served");
    assert!(of_crowd > 0 && units > 0, "nobody has waited for another");
    world.check_holds().await;
}
