//! The engine builder. Reports every problem of the definitions at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use tidegate_core::{
    catalog::Catalog,
    command::{Answer, Command, StreamCommand},
    definition::{Code, Definition, Problem},
    flow::pool,
    pool::{Pool, PoolCommand},
    reads::ReadSet,
    row::Workspace,
    run::sweep::MAX_DEATHS,
};
use tidegate_store::{Clock, Store, SystemClock, commit};

use crate::{
    api::Engine,
    dynamic::{self, DynamicHandlers, HandlerResolver},
    engine::{Options, Shared},
    entropy::Entropy,
    error::Error,
    flow::Flow,
    handler::{Handler, ServedWorkflow},
    heartbeat, parse,
    reaction::{self, Reaction},
    registry::Registry,
    retention::{self, Retention},
    schedule,
    shared_state::SharedState,
    stranded, sweep,
    tasks::Busy,
    timer::{SystemTimer, Timer},
};

/// Default workspace of an engine.
pub const DEFAULT_WORKSPACE: &str = "default";

/// Default lease duration.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(30);

/// Minimum lease duration. Short pauses happen on every machine, and a shorter lease would expire
/// in one.
const SHORTEST_TTL: Duration = Duration::from_millis(100);

/// Maximum lease duration. After a crash, the runs of the dead engine wait for this time.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Builder of an [`Engine`]: collects the definitions that it serves, checks them, and starts it.
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    workspaces: Vec<Workspace>,
    served: Vec<Result<(Definition, ServedWorkflow), Vec<Problem>>>,
    reactions: Vec<Result<reaction::ServedReaction, Vec<Problem>>>,
    pools: Vec<Result<Pool, Vec<Problem>>>,
    options: Options,
    /// Poll interval, if one was set.
    poll: Option<Duration>,
    dev: bool,
    clock: Arc<dyn Clock>,
    timer: Option<Arc<dyn Timer>>,
    seed: Option<u64>,
    busy: Option<Arc<Busy>>,
    handler_resolver: Option<Box<HandlerResolver>>,
    state: SharedState,
}

/// Poll interval on a store without wake-ups. It is short, because polling replaces the wake-ups.
const POLL: Duration = Duration::from_secs(1);

/// Maximum poll interval on a store with wake-ups.
const IDLE_POLL: Duration = Duration::from_secs(15);

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workspaces, served, options, .. } = self;
        let shown = &mut f.debug_struct("EngineBuilder");
        shown.field("workspaces", workspaces).field("served", served).field("options", options);
        shown.finish_non_exhaustive()
    }
}

impl EngineBuilder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let poll = POLL;
        Self {
            store,
            workspaces: vec![DEFAULT_WORKSPACE.into()],
            served: Vec::new(),
            reactions: Vec::new(),
            pools: Vec::new(),
            options: Options {
                workers: 100,
                call_workers: 1000,
                lease_ttl: LEASE_TTL,
                max_deaths: MAX_DEATHS,
                poll,
                stream_state_cache: 2000,
                retention: Retention::default(),
            },
            poll: None,
            dev: false,
            clock: Arc::new(SystemClock),
            timer: None,
            seed: None,
            busy: None,
            handler_resolver: None,
            state: SharedState::default(),
        }
    }

    /// Serves a workflow.
    ///
    /// One engine can serve several versions of a workflow. A workflow without a version number
    /// serves all versions that were registered without one, including versions that other
    /// processes register later.
    pub fn workflow(mut self, workflow: impl Into<ServedWorkflow>) -> Self {
        let mut served = workflow.into();
        let read = match served.unreadable.take() {
            Some(unreadable) => Err(vec![unreadable]),
            None => parse::workflow(&served.definition),
        };
        self.served.push(read.map(|parsed| {
            warn(&parsed.warnings);
            (parsed.value, served)
        }));
        self
    }

    /// Serves the actions of a flow.
    pub fn flow(mut self, flow: Flow) -> Self {
        let (definition, actions, mut problems) = flow.into_parts();
        if definition.is_null() {
            self.served.push(Err(problems));
            return self;
        }
        match parse::flow(&definition) {
            Ok(parsed) if problems.is_empty() => {
                warn(&parsed.warnings);
                self.served.extend(parsed.value.actions.into_iter().zip(actions).map(Ok));
                return self;
            }
            Ok(_) => {}
            Err(more) => problems.extend(more),
        }
        self.served.push(Err(problems));
        self
    }

    /// Gives a value to all handlers, such as a database pool or a client: they get it by its type
    /// from [`Ctx::state`](crate::Ctx::state).
    ///
    /// An engine has one value of each type. For two pools of one type, give each a type of its
    /// own: `struct Orders(Pool)`.
    ///
    /// ```
    /// use tidegate::{Ctx, Workflow, testing::TestHarness};
    ///
    /// #[derive(Clone)]
    /// struct Mailer(&'static str);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// let greet = Workflow::new("greet", async |ctx: Ctx, name: String| {
    ///     let mailer = ctx.state::<Mailer>()?;
    ///     ctx.step("mail", || async { Ok(format!("{name}, by {}", mailer.0)) }).await
    /// });
    /// let (harness, reference) = (TestHarness::new(), greet.reference());
    /// let engine = harness.engine().state(Mailer("post")).workflow(greet).start().await?;
    /// let run = engine.start(&reference, "Ada".to_owned()).await?;
    /// assert_eq!(run.output().await?, "Ada, by post");
    /// # Ok(())
    /// # }
    /// ```
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.set(value);
        self
    }

    /// Declares a pool: limits that several workflows share.
    ///
    /// A declaration that is the same as the last one by code has no effect, so that a restart does
    /// not undo a change by [`Engine::put_pool`].
    pub fn pool(mut self, pool: crate::Pool) -> Self {
        self.pools.push(parse::pool(&pool.into_value()).map(|parsed| parsed.value));
        self
    }

    /// Runs a reaction.
    ///
    /// A reaction's position in the streams is stored under its name: changed code under the same
    /// name continues at that position.
    pub fn reaction(mut self, reaction: Reaction) -> Self {
        self.reactions.push(reaction.into_served());
        self
    }

    /// Sets the workspaces that this engine serves, instead of the default one.
    pub fn workspaces<W: Into<Workspace>>(mut self, names: impl IntoIterator<Item = W>) -> Self {
        self.workspaces = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum number of runs that this engine drives at once with handlers of this
    /// program.
    ///
    /// Defaults to 100. With 0 the engine drives none.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// Sets the maximum number of runs that this engine drives at once with code outside of this
    /// program ([`EngineBuilder::handler_resolver`]).
    ///
    /// Defaults to 1,000, because such runs mostly wait for an answer. With 0 the engine drives
    /// none.
    pub fn call_workers(mut self, workers: usize) -> Self {
        self.options.call_workers = workers;
        self
    }

    /// Sets the number of stream states that the engine caches after actions on their streams.
    ///
    /// The least recently used states are evicted first. Defaults to 2,000. With 0 no state is
    /// cached.
    ///
    /// An action on a cached stream loads nothing, unless another process has committed to the
    /// stream.
    pub fn stream_state_cache(mut self, streams: usize) -> Self {
        self.options.stream_state_cache = streams;
        self
    }

    /// Sets the duration of a lease without renewal.
    ///
    /// Defaults to 30 s; the maximum is 24 hours.
    ///
    /// When an engine dies, its runs become available to others after this time. Engines on one
    /// store may have different settings: each writes its own setting to the store, where the
    /// others read it.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.options.lease_ttl = ttl;
        self
    }

    /// Sets the number of consecutive engine deaths, each while the run's handler was executing,
    /// after which the run is paused.
    ///
    /// Defaults to 10. 0 never pauses.
    ///
    /// The first death is not counted: the store records only from then on whether the handler is
    /// executing. [`Engine::resume`] resumes the run and resets the count. A recorded step also
    /// resets it. The engine that takes the run over applies its own setting.
    pub fn pause_after_deaths(mut self, deaths: u32) -> Self {
        self.options.max_deaths = deaths;
        self
    }

    /// Sets the interval at which the store is polled when no wake-up arrives.
    ///
    /// If the store delivers wake-ups between engines, defaults to half of the lease, at most 15 s.
    /// Otherwise, for example behind a connection pooler, defaults to 1 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = Some(interval);
        self
    }

    /// Sets the retention of finished data.
    ///
    /// Defaults to thirty days.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.options.retention = retention;
        self
    }

    /// Sets a function that returns handlers for stored versions that no workflow of this program
    /// serves. The engine drives these versions, too.
    ///
    /// The function is called when the engine starts, and again when definitions change.
    pub fn handler_resolver(
        mut self,
        code: impl Fn(&Definition) -> Option<Arc<dyn Handler>> + Send + Sync + 'static,
    ) -> Self {
        self.handler_resolver = Some(Box::new(code));
        self
    }

    /// Allows definitions to change without a new version number, for development: a changed
    /// definition replaces the one under its own number, or under the number that was assigned
    /// last.
    pub fn dev(mut self) -> Self {
        self.dev = true;
        self
    }

    /// Sets the clock and the timer, instead of the machine's.
    pub(crate) fn on_clock(mut self, clock: Arc<dyn Clock>, timer: Arc<dyn Timer>) -> Self {
        self.clock = clock;
        self.timer = Some(timer);
        self
    }

    /// Derives all randomness from a seed.
    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Counts the tasks of the engine that have work to do.
    pub(crate) fn tracked(mut self, busy: Arc<Busy>) -> Self {
        self.busy = Some(busy);
        self
    }

    /// Checks and registers all definitions, and starts the engine.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Definition`] with every problem of every definition, so that all can be
    /// fixed at once, and [`Error::Value`] if the lease duration is out of range.
    pub async fn start(mut self) -> Result<Engine, Error> {
        check_lease(self.options.lease_ttl)?;
        let hears = self.store.hears();
        self.options.poll = self.poll.unwrap_or_else(|| poll(hears, self.options.lease_ttl));
        let mut problems = Vec::new();
        let mut served = Vec::new();
        for one in self.served {
            match one {
                Ok(pair) => served.push(pair),
                Err(found) => problems.extend(found),
            }
        }
        problems.extend(served_twice(&served));
        let mut reactions = Vec::new();
        for one in self.reactions {
            match one {
                Ok(reaction) => reactions.push(reaction),
                Err(found) => problems.extend(found),
            }
        }
        problems.extend(reacts_twice(&reactions));
        let mut pools = Vec::new();
        for one in self.pools {
            match one {
                Ok(pool) => pools.push(pool),
                Err(found) => problems.extend(found),
            }
        }
        let triggered = served.iter().any(|(definition, _)| reaction::asks(definition));
        reactions.extend(triggered.then(reaction::triggers));
        let known = known(&*self.store, &self.workspaces).await?;
        if !self.dev {
            problems.extend(known.values().flat_map(|catalog| changed(catalog, &served)));
        }
        problems.extend(unknown_pools(&known, &pools, &served));
        if !problems.is_empty() {
            return Err(Error::Definition(problems));
        }
        let timer = self.timer.unwrap_or_else(|| Arc::new(SystemTimer::new()));
        let entropy = self.seed.map_or_else(Entropy::system, Entropy::seeded);
        let mut shared =
            Shared::new(self.store, self.clock, timer, entropy, self.options, self.busy);
        let (workspaces, handler_resolver) = (self.workspaces.clone(), self.handler_resolver);
        shared.state = self.state;
        shared.stored = DynamicHandlers::new(workspaces, served, handler_resolver);
        let shared = Arc::new(shared);
        let mut registry = Registry::new(shared.options.workers, shared.options.call_workers);
        for ws in &self.workspaces {
            declare(&shared, ws, &pools).await?;
            register(&shared, &mut registry, ws, self.dev).await?;
        }
        define(&shared, &self.workspaces, &reactions).await?;
        if !triggered && shared.stored.handler_resolver.is_some() {
            // A later definition may need triggers. The reaction has no work until then.
            reactions.push(reaction::triggers());
        }
        let reactions: Vec<_> = reactions.into_iter().map(Arc::new).collect();
        let of = |ws: &Workspace| reactions.iter().map(|it| (ws.clone(), it.clone())).collect();
        shared.reactions.serve(self.workspaces.iter().flat_map::<Vec<_>, _>(of).collect());
        *shared.registry.lock().expect("no other task uses the registry yet") = registry;
        dynamic::look(&shared).await?;
        // The first heartbeat starts the engine's lease. All later work happens under that lease.
        let asked = shared.timer.elapsed();
        shared.store.heartbeat(shared.id(), shared.options.lease_ms()).await?;
        shared.health.beaten(asked);
        shared.beaten(shared.id());
        spawn(&shared);
        let ws = self.workspaces.first().cloned().unwrap_or_else(|| DEFAULT_WORKSPACE.into());
        Ok(Engine::new(shared, ws))
    }
}

impl EngineBuilder {
    /// Returns a read-only engine: it drives nothing, registers nothing, and is invisible to other
    /// engines.
    ///
    /// Every write through it is refused with [`Error::ReadOnly`].
    pub fn read_only(self) -> Engine {
        let timer = self.timer.unwrap_or_else(|| Arc::new(SystemTimer::new()));
        let entropy = self.seed.map_or_else(Entropy::system, Entropy::seeded);
        let shared = Shared::new(self.store, self.clock, timer, entropy, self.options, self.busy);
        shared.committer.refuse_all();
        let ws = self.workspaces.first().cloned().unwrap_or_else(|| DEFAULT_WORKSPACE.into());
        Engine::new(Arc::new(shared), ws)
    }
}

/// Returns the poll interval of an idle engine. A dead engine's runs become available only when its
/// lease ends, so an interval of half a lease adds little delay and costs little.
fn poll(hears: bool, lease: Duration) -> Duration {
    if hears { (lease / 2).min(IDLE_POLL) } else { POLL }
}

fn check_lease(ttl: Duration) -> Result<(), Error> {
    let (least, most) = (SHORTEST_TTL.as_millis(), LONGEST_TTL.as_millis());
    if (SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
        return Ok(());
    }
    let got = ttl.as_millis();
    Err(Error::Value(format!("lease_ttl must be between {least} ms and {most} ms, got {got}")))
}

/// Returns the catalog of each workspace.
pub(crate) async fn known(
    store: &dyn Store,
    workspaces: &[Workspace],
) -> Result<BTreeMap<Workspace, Arc<Catalog>>, Error> {
    let reads = workspaces.iter().fold(ReadSet::default(), ReadSet::catalog);
    Ok(store.read(reads).await?.catalogs)
}

/// Finds workflow versions that the program serves twice: only one of them could run.
fn served_twice(served: &[(Definition, ServedWorkflow)]) -> Vec<Problem> {
    let mut known = BTreeSet::new();
    let again = served.iter().filter(|(definition, _)| {
        !known.insert((&definition.app, &definition.name, definition.version))
    });
    again
        .map(|(definition, _)| conflict(definition, "is served twice: give each its own"))
        .collect()
}

/// Finds reaction names that the program uses twice: both reactions would share one position.
fn reacts_twice(reactions: &[reaction::ServedReaction]) -> Vec<Problem> {
    let mut known = BTreeSet::new();
    let again = reactions.iter().filter(|it| !known.insert(&it.definition.name));
    again
        .map(|it| Problem {
            code: Code::Conflict,
            subject: format!("reaction `{}`", it.definition.name),
            field: "name".to_owned(),
            message: "is given twice: give each its own".to_owned(),
        })
        .collect()
}

/// Finds uses of pools that no workspace and no declaration of this program has. This check comes
/// before any registration, as that of versions.
fn unknown_pools(
    known: &BTreeMap<Workspace, Arc<Catalog>>,
    declared: &[Pool],
    served: &[(Definition, ServedWorkflow)],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for catalog in known.values() {
        let pools = declared.iter().fold(catalog.pools().clone(), |pools, pool| pools.with(pool));
        let found = served.iter().flat_map(|(definition, _)| pool::problems(&pools, definition));
        for problem in found {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

/// Declares the pools of this program in a workspace, before the definitions that use them.
async fn declare(shared: &Arc<Shared>, ws: &Workspace, pools: &[Pool]) -> Result<(), Error> {
    let commands = pools.iter().map(|pool| {
        let command = PoolCommand::Declare(Box::new(pool.clone()));
        (Command::Pool { ws: ws.clone(), command }, shared.entropy.number())
    });
    for answer in commit(&*shared.store, commands.collect()).await? {
        answer?;
    }
    Ok(())
}

/// Defines reactions in all workspaces, before any runner works on them.
async fn define(
    shared: &Arc<Shared>,
    workspaces: &[Workspace],
    reactions: &[reaction::ServedReaction],
) -> Result<(), Error> {
    let all = workspaces.iter().flat_map(|ws| reactions.iter().map(move |it| (ws, it)));
    let commands = all.map(|(ws, served)| {
        let command = StreamCommand::Define(served.definition.clone());
        (Command::Stream { ws: ws.clone(), command }, shared.entropy.number())
    });
    for answer in commit(&*shared.store, commands.collect()).await? {
        answer?;
    }
    Ok(())
}

/// Finds version numbers that are already registered with another definition. This check comes
/// before any registration: otherwise the other definitions would be released although the engine
/// does not start.
fn changed<'a>(
    catalog: &'a Catalog,
    served: &'a [(Definition, ServedWorkflow)],
) -> impl Iterator<Item = Problem> + use<'a> {
    served.iter().filter_map(move |(definition, _)| {
        let entry = catalog.entry(&definition.app, &definition.name)?;
        let known = entry.versions.get(&definition.version?)?.workflow()?;
        (!known.works_like(definition)).then(|| conflict(definition, CHANGED))
    })
}

const CHANGED: &str = "is registered with another definition: give the new one a higher number";

fn conflict(definition: &Definition, message: &str) -> Problem {
    let kind = if definition.flow.is_some() { "action" } else { "workflow" };
    Problem {
        code: Code::Conflict,
        subject: format!("{kind} `{}`", definition.name),
        field: "version".to_owned(),
        message: message.to_owned(),
    }
}

fn warn(warnings: &[Problem]) {
    for warning in warnings {
        tracing::warn!(%warning, "definition warning");
    }
}

/// Registers the served definitions in a workspace.
async fn register(
    shared: &Arc<Shared>,
    registry: &mut Registry,
    ws: &Workspace,
    dev: bool,
) -> Result<(), Error> {
    let served = &shared.stored.served;
    let commands = served.iter().map(|(definition, _)| {
        let workflow = Box::new(definition.clone());
        (Command::Register { ws: ws.clone(), workflow, dev }, shared.entropy.number())
    });
    let answers = commit(&*shared.store, commands.collect()).await?;
    // Wakes other engines, which may have code for the new definitions.
    shared.store.wake();
    let known = known(&*shared.store, std::slice::from_ref(ws)).await?;
    for ((definition, served), answer) in served.iter().zip(answers) {
        let Answer::Registered(registered) = answer? else { continue };
        let (app, workflow) = (&definition.app, &definition.name);
        if let Some(released) = &registered.released
            && released.older > 0
        {
            let older = released.older;
            tracing::info!(
                workflow,
                older,
                "version released, its handoff applies to the older runs"
            );
        }
        let entry = known.get(ws).and_then(|catalog| catalog.entry(app, workflow));
        let current = entry.and_then(|entry| entry.current.as_ref()).map(|it| it.version.number);
        if definition.version.is_none() && current != Some(registered.version) {
            let version = registered.version;
            tracing::warn!(
                workspace = %ws, workflow, version, current,
                fix = "release this version, or deploy a definition that is not registered yet",
                "version registered but not released: a manual release is in force"
            );
        }
        if let Some(function) = &served.key_function {
            registry.set_key_function(app, workflow, function.clone());
        }
    }
    Ok(())
}

fn spawn(shared: &Arc<Shared>) {
    for runner in shared.reactions.runners() {
        let (follower, runner) = (runner.clone(), runner.clone());
        let (this, that) = (shared.clone(), shared.clone());
        shared.tasks.spawn(async move { reaction::run(&this, &runner).await });
        shared.tasks.spawn(async move { reaction::follow(&that, &follower).await });
    }
    macro_rules! task {
        ($shared:ident => $task:expr) => {
            let $shared = shared.clone();
            shared.tasks.spawn(async move { $task.await });
        };
    }
    task!(shared => shared.committer.run(&shared));
    task!(shared => shared.loader.run(&shared));
    task!(shared => sweep::run(&shared));
    task!(shared => schedule::run(&shared));
    task!(shared => dynamic::run(&shared));
    task!(shared => stranded::run(&shared));
    task!(shared => retention::run(&shared));
    task!(shared => heartbeat::renew(&shared));
    task!(shared => heartbeat::watch(&shared));
    task!(shared => heartbeat::listen(&shared));
}
