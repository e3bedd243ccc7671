//! Simulates one seed from start to end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tidegate::{
    Engine, Pool,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::time::Timestamp;
use tidegate_store::{Store, commit};
use tidegate_testkit::{
    sim::{
        check::Violation,
        people::missing,
        schedule::Concern,
        workload::{Plan, VERSIONS},
    },
    workload::Chance,
};
use tokio::{runtime, sync::mpsc};

use crate::{
    disk::{Backend, Stop},
    door::Door,
    handlers::Host,
    people::{Client, meddle},
    world::{Doom, Setting, World},
};

/// Minimum duration of the phase with faults, in microseconds.
const STORM: u64 = 300_000;

/// Maximum number of turns of the phase without faults. Each turn advances the time.
const PATIENCE: u32 = 3000;

/// Number of turns after which the time advances faster. A replay of changed code may wait a minute
/// for spawned tasks before it stops.
const HURRY: u32 = 1000;

/// Probability that the machine stops in a turn, in permille. It also stops at commits.
const MACHINE: u64 = 15;

/// Midnight, at which schedules have occurrences.
const MIDNIGHT_MS: i64 = 1_798_761_600_000;

/// Result of a seed.
#[derive(Debug)]
pub(crate) struct Played {
    /// Hash of the trace.
    pub(crate) hash: u64,
    /// Violated invariant, if any.
    pub(crate) violation: Option<Violation>,
    /// Trace as text, if it was requested.
    pub(crate) trace: Vec<String>,
    /// How often each of the things happened that must happen in some seed.
    pub(crate) met: BTreeMap<String, u64>,
}

/// Kinds of simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows in memory, unchanged code.
    Memory,
    /// Rows in memory; every process may have another build of the code.
    Changed,
    /// Rows in a SQLite file; in some seeds with other builds, too. The machine stops from time to
    /// time.
    Sqlite,
}

impl Kind {
    /// Returns the things that must happen in some seed. Otherwise the simulation would not test
    /// them.
    pub(crate) fn meets(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["process dies at a commit"],
            Self::Changed => &["changed code", "patched", "not patched"],
            Self::Sqlite => &[
                "file Closed",
                "file Killed",
                "file Torn",
                "file undoes a transaction",
                "machine dies at a commit",
                "process dies at a commit",
                "changed code",
            ],
        }
    }

    /// Returns the settings for a seed.
    fn setting(self, seed: u64, text: bool) -> Setting {
        let backend = if self == Self::Sqlite { Backend::Sqlite } else { Backend::Memory };
        let changes = self == Self::Changed || (self == Self::Sqlite && seed.is_multiple_of(3));
        Setting { seed, backend, changes, text }
    }
}

/// Simulates one seed.
pub(crate) fn play(kind: Kind, seed: u64, text: bool) -> Played {
    let runtime = runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(async {
        let mut player = Player::new(kind.setting(seed, text));
        player.play().await;
        // The engines hold references to the world, which would keep it alive.
        player.world.engines().clear();
        let inner = player.world.lock();
        Played {
            hash: inner.trace.hash(),
            violation: inner.judge.violation.clone(),
            trace: inner.trace.lines().cloned().collect(),
            met: inner.met.clone(),
        }
    })
}

/// Kills the processes that die at a commit, while their calls are in progress. It does not wait
/// until a process is dead, because another one may have to die meanwhile.
async fn reap(
    world: Arc<World>,
    harness: Arc<TestHarness>,
    mut doomed: mpsc::UnboundedReceiver<Doom>,
) {
    while let Some(doom) = doomed.recv().await {
        let (world, harness) = (world.clone(), harness.clone());
        tokio::spawn(async move {
            match doom {
                Doom::Process(number) => kill(&world, &harness, number).await,
                Doom::Machine => kill_all(&world, &harness).await,
            }
        });
    }
}

async fn kill(world: &World, harness: &TestHarness, number: usize) {
    let engine = world.engines().remove(&number);
    if let Some(engine) = engine {
        harness.crash(&engine).await;
    }
}

/// Kills all processes, and blocks all their calls to the store.
async fn kill_all(world: &World, harness: &TestHarness) {
    world.store.shut_off();
    let engines = std::mem::take(&mut *world.engines());
    let crashes = engines.values().map(|engine| harness.crash(engine));
    drop(futures_util::future::join_all(crashes).await);
}

/// An engine that stands for a process.
#[derive(Debug)]
struct Process {
    number: usize,
    engine: Engine,
    door: Arc<Door>,
}

#[derive(Debug)]
struct Player {
    world: Arc<World>,
    harness: Arc<TestHarness>,
    chance: Chance,
    client: Client,
    processes: Vec<Process>,
    /// Number of processes that should be running.
    wanted: usize,
    /// Number of processes started so far.
    started: usize,
    /// Newest deployed version.
    newest: u32,
    /// Newest deployed build.
    build: usize,
    /// Whether programs give no version numbers to their workflows. Then each program has the code
    /// of one version, the newest or an older one, and has to continue the runs of all versions.
    unnumbered: bool,
}

impl Player {
    fn new(setting: Setting) -> Self {
        let seed = setting.seed;
        let mut chance = Chance::stream(seed, Concern::Schedule);
        let mut plan = Plan::of(seed);
        // An engine refuses leases shorter than this.
        plan.ttl_ms = plan.ttl_ms.max(100);
        let before = i64::try_from(chance.between(50, 600)).expect("a few");
        let start = Timestamp::from_ms(MIDNIGHT_MS - before);
        let clock = Arc::new(VirtualClock::new(start));
        let harness = TestHarness::on(
            Arc::new(tidegate_store::MemoryStore::new(clock.clone())),
            clock.clone(),
        );
        let harness = Arc::new(harness.seeded(seed.wrapping_mul(1000)));
        let (client, wanted) = (Client::new(&plan), plan.engines.min(3));
        let (world, doomed) = World::new(setting, plan, clock, harness.timer());
        let world = Arc::new(world);
        tokio::spawn(reap(world.clone(), harness.clone(), doomed));
        let unnumbered = world.plan.releases > 0 && chance.percent(50);
        let (processes, started, newest, build) = (Vec::new(), 0, 1, 0);
        Self {
            world,
            harness,
            chance,
            client,
            processes,
            wanted,
            started,
            newest,
            build,
            unnumbered,
        }
    }

    /// Simulates the phase with faults, then the phase without faults, in which all runs must
    /// finish.
    async fn play(&mut self) {
        while self.processes.len() < self.wanted {
            self.start().await;
        }
        self.world.lock().calm = false;
        while self.world.now() < STORM || !self.client.is_done() {
            let ms = self.chance.between(1, 10);
            self.pass(ms).await;
            self.bury();
            if self.is_broken() {
                return;
            }
            self.act();
            self.disturb().await;
        }
        self.calm_down().await;
        for turn in 0..PATIENCE {
            self.pass(if turn < HURRY { 20 } else { 200 }).await;
            if self.is_broken() {
                return;
            }
            let rests = self.world.lock().judge.state.is_at_rest();
            if rests {
                return self.settled().await;
            }
            self.help().await;
        }
        self.world.lock().judge.report_unsettled();
    }

    fn is_broken(&self) -> bool {
        self.world.lock().judge.violation.is_some()
    }

    async fn pass(&self, ms: u64) {
        self.harness.advance(Duration::from_millis(ms)).await;
    }

    /// Starts a process with the current deployment. If the store fails meanwhile, the process does
    /// not start.
    async fn start(&mut self) {
        self.started += 1;
        let (world, number) = (self.world.clone(), self.started);
        let door = Arc::new(Door::new(world.clone(), number));
        let ttl = Duration::from_millis(world.plan.lease_ms(number).into());
        let builder =
            self.harness.engine_through(door.clone()).lease_ttl(ttl).poll_interval(ttl / 2);
        let builder = builder.workers(world.plan.workers);
        let builder = builder.pause_after_deaths(world.plan.max_deaths);
        let builder = builder.workspaces(world.plan.workspaces.iter().copied());
        let pools = world.plan.pools.iter();
        let pools = pools.map(|pool| Pool::from_definition(pool.declaration(pool.limit)));
        let builder = pools.fold(builder, tidegate::EngineBuilder::pool);
        let build = self.next_build();
        world.note(|| format!("process {number} has build {build}"));
        let edits = world.builds[build].clone();
        let host = Host { world: world.clone(), process: number, edits };
        let builder = if self.unnumbered {
            let version = self.next_deploy();
            world.note(|| format!("process {number} starts with the code of version {version}"));
            host.serve_unnumbered(builder, version)
        } else {
            world.note(|| format!("process {number} starts with versions up to {}", self.newest));
            host.serve(builder, self.newest)
        };
        match builder.start().await {
            Ok(engine) => {
                world.engines().insert(number, engine.clone());
                self.processes.push(Process { number, engine, door });
            }
            Err(tidegate::Error::Store(_)) => {}
            Err(error) => panic!("the engine does not start: {error}"),
        }
    }

    /// Chooses the build of a program: any deployed build, or the next one.
    fn next_build(&mut self) -> usize {
        let builds = self.world.builds.len();
        if builds == 1 {
            return 0;
        }
        if self.build + 1 < builds && self.chance.percent(50) {
            self.build += 1;
        }
        self.chance.index(self.build + 1)
    }

    /// Chooses the version of a program without version numbers: any deployed version, or the next
    /// one. Definitions are first registered in their order, so that the assigned numbers match.
    fn next_deploy(&mut self) -> u32 {
        let plan = self.world.plan.clone();
        let inner = self.world.lock();
        let everywhere = plan.workspaces.iter().flat_map(|ws| {
            plan.specs.iter().map(|spec| {
                let name = spec.full_name();
                let defs = inner.judge.state.defs();
                defs.filter(|def| &*def.ws == *ws && def.name == name).count()
            })
        });
        let registered = u32::try_from(everywhere.min().unwrap_or(0)).expect("a few");
        drop(inner);
        let most = self.newest.min(registered + 1);
        u32::try_from(self.chance.between(1, u64::from(most))).expect("a few")
    }

    /// Lets clients and operators act.
    fn act(&mut self) {
        let engines: Vec<Engine> = self.processes.iter().map(|it| it.engine.clone()).collect();
        self.client.turn(&self.world, &mut self.chance, &engines);
        let plan = self.world.plan.clone();
        if engines.is_empty() {
            return;
        }
        let engine = &engines[self.chance.index(engines.len())];
        if self.chance.permille(plan.meddling) {
            meddle(&self.world, &mut self.chance, engine);
        }
        if self.chance.permille(plan.releases) {
            self.release(engine);
        }
    }

    /// Releases a version, or deploys the next one: processes that start from now on have it.
    fn release(&mut self, engine: &Engine) {
        if self.newest < VERSIONS && self.chance.percent(50) {
            self.newest += 1;
            return;
        }
        let plan = self.world.plan.clone();
        let name = plan.specs[self.chance.index(plan.specs.len())].full_name();
        let ws = plan.workspaces[self.chance.index(plan.workspaces.len())];
        let version = u32::try_from(self.chance.between(1, u64::from(self.newest))).expect("small");
        self.world.note(|| format!("people release {name} {version} in {ws}"));
        let engine = engine.in_workspace(ws);
        tokio::spawn(async move { engine.release("default", &name, version).await.map(drop) });
    }

    /// Injects a fault, or shuts down or starts a process.
    async fn disturb(&mut self) {
        let (world, mix) = (self.world.clone(), self.world.plan.mix.clone());
        if world.strikes(mix.clock) {
            let ms = i64::from(self.chance.one(&[1, 40, 5000]));
            world.step_clock(if self.chance.percent(50) { -ms * 1000 } else { ms * 1000 });
        }
        if !self.processes.is_empty() {
            let one = self.chance.index(self.processes.len());
            if world.strikes(mix.pause) {
                let ttl = world.plan.ttl_ms * 1000;
                let (micros, beats) =
                    (self.chance.between(ttl / 4, ttl * 3), self.chance.percent(50));
                self.processes[one].door.shut(micros, beats);
            } else if world.strikes(mix.crash * 3 + mix.crash_loop / 15) {
                let process = self.processes.swap_remove(one);
                world.note(|| format!("process {} dies", process.number));
                kill(&world, &self.harness, process.number).await;
            } else if self.chance.permille(if world.builds.len() > 1 { 25 } else { 5 }) {
                self.shutdown(one);
            }
        }
        if world.store.is_file() && world.strikes(MACHINE) {
            world.note(|| "the machine stops".to_owned());
            kill_all(&world, &self.harness).await;
            self.bury();
        }
        if self.processes.len() < self.wanted && self.chance.percent(20) {
            self.start().await;
        }
    }

    /// Removes processes that have died. If the machine has stopped, restarts it.
    fn bury(&mut self) {
        let world = &self.world;
        self.processes.retain(|process| world.is_alive(process.number));
        if world.store.is_down() {
            world.reopen(self.chance.one(&[Stop::Closed, Stop::Killed, Stop::Torn]));
        }
    }

    fn shutdown(&mut self, one: usize) {
        let process = self.processes.swap_remove(one);
        self.world.note(|| format!("process {} shuts down", process.number));
        self.world.leaves(process.number);
        tokio::spawn(async move { process.engine.shutdown().await });
    }

    /// Ends all faults, and starts one more process.
    async fn calm_down(&mut self) {
        self.world.lock().calm = true;
        self.bury();
        self.world.note(|| "the phase without faults begins".to_owned());
        for process in &self.processes {
            process.door.open();
        }
        self.start().await;
    }

    /// Sends the events and signals that live runs wait for.
    async fn help(&mut self) {
        let commands = missing(&self.world.lock().judge.state);
        let door = Door::new(self.world.clone(), 0);
        for command in commands {
            let salt = self.chance.draw();
            let _ = commit(&door, vec![(command, salt)])
                .await
                .expect("the store does not fail in this phase");
        }
        door.wake();
    }

    /// Checks the end: no row is left over, and the store contains what was committed, also after
    /// it was reopened.
    async fn settled(&mut self) {
        self.world.settled();
        self.world.compare();
        if self.world.store.is_file() {
            kill_all(&self.world, &self.harness).await;
            self.bury();
        }
    }
}
