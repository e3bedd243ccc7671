//! One seed from its beginning to its end.

use std::{sync::Arc, time::Duration};

use tidegate::{
    Engine,
    core::time::Timestamp,
    store::{Store, commit},
    testing::{Lab, VirtualClock},
};
use tidegate_testkit::{
    sim::{
        check::Violation,
        people::missing,
        schedule::Concern,
        workload::{Plan, VERSIONS},
    },
    workload::Chance,
};
use tokio::runtime;

use crate::{
    door::Door,
    handlers::Host,
    people::{Client, meddle},
    sessions,
    world::World,
};

/// For how long there are faults, at the least, in microseconds.
const STORM: u64 = 300_000;

/// How many turns the calm may take, each of which moves the time on.
const PATIENCE: u32 = 3000;

/// Midnight, when schedules fire.
const MIDNIGHT_MS: i64 = 1_798_761_600_000;

/// What a seed came to.
#[derive(Debug)]
pub(crate) struct Played {
    /// The trace as one number.
    pub(crate) hash: u64,
    /// What did not hold.
    pub(crate) violation: Option<Violation>,
    /// The trace as text, if it was asked for.
    pub(crate) trace: Vec<String>,
}

/// Plays one seed.
pub(crate) fn play(seed: u64, text: bool) -> Played {
    let runtime = runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(async {
        let mut player = Player::new(seed, text);
        player.play().await;
        let inner = player.world.lock();
        Played {
            hash: inner.trace.hash(),
            violation: inner.judge.violation.clone(),
            trace: inner.trace.lines().cloned().collect(),
        }
    })
}

/// An engine, as a process of its own.
#[derive(Debug)]
struct Process {
    number: usize,
    engine: Engine,
    door: Arc<Door>,
}

#[derive(Debug)]
struct Player {
    world: Arc<World>,
    lab: Lab,
    chance: Chance,
    client: Client,
    processes: Vec<Process>,
    /// How many processes there shall be.
    wanted: usize,
    /// How many have ever been started.
    started: usize,
    /// The newest version that is deployed.
    newest: u32,
    /// Whether programs give their workflows no numbers. Each then has the code of one version, the
    /// newest or an older one, and has to continue the runs of all.
    unnumbered: bool,
}

impl Player {
    fn new(seed: u64, text: bool) -> Self {
        let mut chance = Chance::stream(seed, Concern::Schedule);
        let mut plan = Plan::of(seed);
        // An engine refuses shorter leases.
        plan.ttl_ms = plan.ttl_ms.max(100);
        let before = i64::try_from(chance.between(50, 600)).expect("a few");
        let start = Timestamp::from_ms(MIDNIGHT_MS - before);
        let clock = Arc::new(VirtualClock::new(start));
        let lab =
            Lab::on(Arc::new(tidegate::store::MemoryStore::new(clock.clone())), clock.clone());
        let lab = lab.seeded(seed.wrapping_mul(1000));
        let (client, wanted) = (Client::new(&plan), plan.engines.min(3));
        let world = Arc::new(World::new(seed, plan, clock, lab.timer(), text));
        let unnumbered = world.plan.releases > 0 && chance.percent(50);
        let (processes, started, newest) = (Vec::new(), 0, 1);
        Self { world, lab, chance, client, processes, wanted, started, newest, unnumbered }
    }

    /// The storm, then the calm in which all must finish.
    async fn play(&mut self) {
        while self.processes.len() < self.wanted {
            self.start().await;
        }
        self.world.lock().calm = false;
        while self.world.now() < STORM || !self.client.is_done() {
            let ms = self.chance.between(1, 10);
            self.pass(ms).await;
            if self.is_broken() {
                return;
            }
            self.act();
            self.disturb().await;
        }
        self.calm_down().await;
        for _ in 0..PATIENCE {
            self.pass(20).await;
            if self.is_broken() {
                return;
            }
            if self.world.lock().judge.state.is_at_rest() {
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
        self.lab.advance(Duration::from_millis(ms)).await;
    }

    /// Starts a process with what is deployed now, if the store lets it.
    async fn start(&mut self) {
        self.started += 1;
        let (world, number) = (self.world.clone(), self.started);
        let door = Arc::new(Door::new(world.clone(), number));
        let ttl = Duration::from_millis(world.plan.lease_ms(number).into());
        let builder = self.lab.engine_through(door.clone()).lease_ttl(ttl).poll_interval(ttl / 2);
        let builder = builder.workers(world.plan.workers);
        let builder = builder.pause_after_deaths(world.plan.max_deaths);
        let builder = builder.workspaces(world.plan.workspaces.iter().copied());
        let host = Host { world: world.clone(), process: number };
        let builder = if self.unnumbered {
            let version = self.next_deploy();
            world.note(|| format!("process {number} starts with the code of version {version}"));
            host.serve_unnumbered(builder, version)
        } else {
            world.note(|| format!("process {number} starts with versions up to {}", self.newest));
            host.serve(builder, self.newest)
        };
        match builder.start().await {
            Ok(engine) => self.processes.push(Process { number, engine, door }),
            Err(tidegate::Error::Store(_)) => {}
            Err(error) => panic!("the engine does not start: {error}"),
        }
    }

    /// The version of a program without numbers: any that was deployed, or the next. Definitions are
    /// registered in their order first, so that the numbers that they are assigned are theirs.
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

    /// Clients and people have their turn.
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

    /// A version is released, or the next one is deployed with the processes that start from now.
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

    /// Something goes wrong, or somebody has an engine shut down or started.
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
                self.lab.crash(&process.engine).await;
            } else if self.chance.permille(5) {
                self.shut_down(one);
            }
        }
        if self.processes.len() < self.wanted && self.chance.percent(20) {
            self.start().await;
        }
    }

    fn shut_down(&mut self, one: usize) {
        let process = self.processes.swap_remove(one);
        self.world.note(|| format!("process {} shuts down", process.number));
        self.world.leaves(process.number);
        tokio::spawn(async move { process.engine.shut_down().await });
    }

    /// From now on nothing goes wrong, and somebody serves all there is.
    async fn calm_down(&mut self) {
        self.world.lock().calm = true;
        self.world.note(|| "the calm".to_owned());
        for process in &self.processes {
            process.door.open();
        }
        self.start().await;
    }

    /// Brings what live runs wait for from outside.
    async fn help(&mut self) {
        let commands = missing(&self.world.lock().judge.state);
        let door = Door::new(self.world.clone(), 0);
        for command in commands {
            let salt = self.chance.draw();
            let _ = commit(&door, vec![(command, salt)]).await.expect("nothing fails any more");
        }
        door.wake();
    }

    /// Everything has finished: nothing may be left behind, and the store holds what was committed.
    async fn settled(&self) {
        let rows = self.world.store.dump().await.expect("a store in memory can be read");
        let mut inner = self.world.lock();
        inner.judge.settled();
        if let Err(text) = sessions::settled(&self.world.plan, &inner.judge.state) {
            inner.judge.report("I47", text);
        }
        if !rows.iter().eq(inner.judge.state.rows()) {
            let differs = rows.iter().zip(inner.judge.state.rows()).find(|(a, b)| a != b);
            let text = format!("the store holds other rows: {differs:?}");
            inner.judge.report("I42", text);
        }
    }
}
