//! A simulated engine, as a state machine: it sends the same commands as a real engine, one action
//! per turn. Between two turns it may crash, freeze or lose its lease.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::{
    command::{Answer, Command, Refusal},
    id::Seq,
    reads::{ReadSet, Scan},
    row::{Engine, EngineId, Phase, Row, Run, Workspace},
    run::{record::Recorded, sweep},
    time::Timestamp,
};
use tidegate_store::{Answered, SeededCommand};

use super::{
    Actor,
    faults::Trouble,
    task::{Drive, Wish},
    world::World,
};
use crate::{workload::Chance, world::lease};

/// Poll interval of an idle engine, in microseconds.
const POLL: u64 = 25_000;

/// Row limit of one scan.
const SEEN_AT_ONCE: u32 = 8;

/// The versions that an engine serves.
#[derive(Clone, Copy, Debug)]
pub enum Serves {
    /// Every version.
    All,
    /// The first version only: the engine has not been upgraded yet.
    First,
    /// All versions but the first.
    Later,
}

/// A command that the engine will send, and the lease that it belongs to.
#[derive(Clone, Debug)]
struct Order {
    command: SeededCommand,
    lease: Option<(Seq, i64)>,
}

/// The possible next actions of an engine.
#[derive(Clone, Copy, Debug)]
enum Job {
    Beat,
    Flush,
    Drive(Seq),
    Lease,
    Due,
    Watch,
    Reconcile,
}

/// Next time of each recurring task of an engine.
#[derive(Clone, Copy, Debug, Default)]
struct Agenda {
    beat: u64,
    flush: u64,
    lease: u64,
    due: u64,
    watch: u64,
    reconcile: u64,
}

/// One process. After a crash or a lost lease it starts as a new process, with a new id and without
/// memory.
#[derive(Debug)]
pub struct CommandEngine {
    number: u32,
    lives: u32,
    id: EngineId,
    serves: Serves,
    /// The time at which the last successful heartbeat was sent.
    renewed: u64,
    up: bool,
    /// The time at which this process crashes, in a crash loop.
    dies_at: u64,
    agenda: Agenda,
    tasks: BTreeMap<Seq, Drive>,
    outbox: VecDeque<Order>,
    /// The heartbeat of each other engine, and since when it has not changed.
    seen: BTreeMap<EngineId, (i64, u64)>,
    /// The other engines, as read last.
    sighted: Option<Vec<Engine>>,
    /// The store's clock at the last sweep.
    swept: Option<Timestamp>,
    turn: usize,
}

impl CommandEngine {
    /// Creates a process that has not started yet.
    pub fn new(number: u32, serves: Serves) -> Self {
        Self {
            number,
            lives: 0,
            id: 0,
            serves,
            renewed: 0,
            up: false,
            dies_at: u64::MAX,
            agenda: Agenda::default(),
            tasks: BTreeMap::new(),
            outbox: VecDeque::new(),
            seen: BTreeMap::new(),
            sighted: None,
            swept: None,
            turn: 0,
        }
    }

    /// Returns the length of this process's lease.
    fn lease_ms(&self, world: &World) -> u32 {
        world.plan.lease_ms((self.number + self.lives) as usize)
    }

    fn ttl(&self, world: &World) -> u64 {
        u64::from(self.lease_ms(world)) * 1000
    }

    /// Starts a new process. Its first heartbeat is sent before it takes runs.
    fn boot(&mut self, world: &mut World) {
        self.lives += 1;
        self.id = EngineId::from(self.number * 1000 + self.lives);
        let alive = world.heartbeat(self.id, self.lease_ms(world));
        world.trace.note(
            world.now,
            || format!("engine {} starts, accepted by the store: {alive:?}", self.id),
            self.id,
        );
        (self.up, self.renewed) = (alive == Some(true), world.now);
        let now = world.now;
        let ttl = self.ttl(world);
        let loops = world.strikes(world.plan.mix.crash_loop);
        self.dies_at = if loops { now + world.faults.between(1000, ttl) } else { u64::MAX };
        self.agenda = Agenda { beat: now + self.ttl(world) / 3, ..Agenda::default() };
    }

    /// Drops all state in memory.
    fn forget(&mut self, world: &mut World) {
        for (_, task) in std::mem::take(&mut self.tasks) {
            task.drop_effect(world);
        }
        self.outbox.clear();
        self.seen.clear();
        self.sighted = None;
        self.swept = None;
        self.up = false;
    }

    fn jobs(&self, world: &World) -> Vec<(u64, Job)> {
        let agenda = &self.agenda;
        let mut jobs = vec![
            (agenda.beat, Job::Beat),
            (agenda.due, Job::Due),
            (agenda.watch, Job::Watch),
            (agenda.reconcile, Job::Reconcile),
        ];
        if self.tasks.len() < world.plan.workers {
            jobs.push((agenda.lease, Job::Lease));
        }
        if !self.outbox.is_empty() {
            jobs.push((agenda.flush, Job::Flush));
        }
        jobs.extend(self.tasks.iter().map(|(seq, task)| (task.at, Job::Drive(*seq))));
        jobs
    }

    fn order(&mut self, world: &mut World, command: Command) {
        let lease = match &command {
            Command::Record { report, .. } => Some((report.run, report.fence)),
            _ => None,
        };
        self.outbox.push_back(Order { command: (command, world.salt()), lease });
    }

    fn renew(&mut self, world: &mut World) {
        self.agenda.beat = world.now + self.ttl(world) / 3;
        match world.heartbeat(self.id, self.lease_ms(world)) {
            Some(true) => self.renewed = world.now,
            Some(false) => self.forget(world),
            None => {}
        }
    }

    /// Sends the next commands in one transaction.
    fn flush(&mut self, world: &mut World, chance: &mut Chance) {
        let most = chance.index(world.plan.together) + 1;
        let orders: Vec<Order> = self.outbox.drain(..most.min(self.outbox.len())).collect();
        let commands: Vec<SeededCommand> =
            orders.iter().map(|order| order.command.clone()).collect();
        match world.submit(&format!("engine {}", self.id), &commands) {
            Ok(answers) => {
                for (order, answer) in orders.into_iter().zip(answers) {
                    self.told(world, &order, answer);
                }
            }
            Err(Trouble::Crash) => self.forget(world),
            // The command is sent again with the same ids: if it was committed, the store finds
            // that.
            Err(Trouble::Unavailable | Trouble::Unknown) => {
                orders.into_iter().rev().for_each(|order| self.outbox.push_front(order));
                self.agenda.flush = world.now + chance.between(100, 4000);
            }
        }
    }

    fn told(&mut self, world: &mut World, order: &Order, answer: Answered) {
        match (answer, order.lease) {
            (Ok(Answer::Leased(runs)), _) => {
                for run in runs {
                    self.take(world, run);
                }
            }
            (Ok(Answer::Recorded(Recorded::GoOn)), Some(lease)) => {
                if let Some(task) = self.task(lease) {
                    task.go_on();
                }
            }
            (Ok(Answer::Recorded(Recorded::Asked(answers))), Some(lease)) => {
                if let Some(task) = self.task(lease) {
                    task.go_on_with(answers);
                }
            }
            (Ok(Answer::Recorded(Recorded::LetGo)), Some(lease)) => self.let_go(world, lease),
            (Ok(Answer::Recorded(Recorded::Stop)) | Err(Refusal::Fenced { .. }), Some(lease)) => {
                // The run is dropped from memory before the stop is reported.
                self.let_go(world, lease);
                if let Command::Record { known, .. } = &order.command.0 {
                    self.order(world, Command::Stopped { known: known.clone() });
                }
            }
            (Err(Refusal::EngineDead(_) | Refusal::NoEngine(_)), _) => self.forget(world),
            (Ok(_), _) => {}
            (Err(refusal), _) => {
                let text = format!("the store refused {:?}: {refusal}", order.command.0);
                world.judge.report("I5", text);
            }
        }
    }

    fn task(&mut self, (run, fence): (Seq, i64)) -> Option<&mut Drive> {
        self.tasks.get_mut(&run).filter(|task| task.run.fence == fence)
    }

    fn let_go(&mut self, world: &mut World, lease: (Seq, i64)) {
        if self.task(lease).is_some()
            && let Some(task) = self.tasks.remove(&lease.0)
        {
            task.drop_effect(world);
        }
    }

    /// Starts to drive a leased run.
    fn take(&mut self, world: &mut World, run: Run) {
        if let Some(old) = self.tasks.insert(run.id.seq, Drive::new(run, world.now)) {
            old.drop_effect(world);
        }
    }

    fn lease(&mut self, world: &mut World, chance: &mut Chance) {
        self.agenda.lease = world.now + POLL;
        let (workspaces, serves) = (world.plan.workspaces.clone(), self.serves);
        self.turn += 1;
        let ws: Workspace = workspaces[self.turn % workspaces.len()].into();
        let lanes = world.lanes(&ws, |version| match serves {
            Serves::All => true,
            Serves::First => version == 1,
            Serves::Later => version > 1,
        });
        if lanes.is_empty() {
            return;
        }
        let free = world.plan.workers - self.tasks.len();
        let limit = u32::try_from(chance.index(free) + 1).expect("few workers");
        self.order(world, lease(ws, self.id, lanes, limit));
    }

    /// Processes due rows, and reads when the next row is due.
    fn due(&mut self, world: &mut World) {
        self.agenda.due = world.now + POLL;
        // Due rows of the last read are processed first.
        let is_sweep = |order: &Order| {
            matches!(
                order.command.0,
                Command::SweepGate { .. } | Command::SweepRun { .. } | Command::SweepChore { .. }
            )
        };
        if self.outbox.iter().any(is_sweep) {
            self.agenda.due = world.now + 1000;
            return;
        }
        let kinds = [
            Scan::DueGates(Timestamp::MIN),
            Scan::DueRuns(Timestamp::MIN),
            Scan::DueChores(Timestamp::MIN),
        ];
        let all = kinds.iter().cloned();
        let reads = all.fold(ReadSet::default(), |reads, scan| reads.scan(scan, SEEN_AT_ONCE));
        let Some(snapshot) = world.read(reads) else { return };
        let stepped = self.swept.is_none_or(|swept| snapshot.now < swept);
        self.swept = Some(snapshot.now);
        for row in kinds.iter().flat_map(|scan| snapshot.found(scan)) {
            let Some((due, command)) = sweep::look(row, snapshot.now, stepped) else { continue };
            if due <= snapshot.now {
                self.order(world, command);
                self.agenda.due = world.now + 1000;
            } else {
                let wait = u64::try_from(due.micros() - snapshot.now.micros()).unwrap_or(POLL);
                self.agenda.due = self.agenda.due.min(world.now + wait);
            }
        }
    }

    /// Reads the other engines. The result may be outdated when it is used.
    fn watch(&mut self, world: &mut World) {
        if let Some(sighted) = self.sighted.take() {
            self.agenda.watch = world.now + self.ttl(world) / 4;
            let is_old = |order: &Order| {
                matches!(order.command.0, Command::MarkDead { .. } | Command::Reap { .. })
            };
            if self.outbox.iter().any(is_old) {
                return;
            }
            return self.judge(world, sighted);
        }
        let reads = ReadSet::default().scan(Scan::Engines, 100).scan(Scan::Buriable, 2);
        let Some(snapshot) = world.read(reads) else { return };
        for row in snapshot.found(&Scan::Buriable) {
            let Row::Engine(dead) = row else { continue };
            self.order(world, Command::Bury { engine: dead.id });
        }
        let engines = snapshot.found(&Scan::Engines).into_iter();
        self.sighted = Some(
            engines
                .filter_map(|row| if let Row::Engine(row) = row { Some(row.clone()) } else { None })
                .collect(),
        );
    }

    /// Marks engines without heartbeats dead, and reaps the runs of dead engines.
    fn judge(&mut self, world: &mut World, sighted: Vec<Engine>) {
        for other in sighted {
            if other.id == self.id {
                continue;
            }
            if other.dead {
                self.reap(world, other.id);
                continue;
            }
            let (beat, since) = *self.seen.entry(other.id).or_insert((other.beat, world.now));
            if beat != other.beat {
                self.seen.insert(other.id, (other.beat, world.now));
            } else if world.now - since
                >= other.lease_ms.map_or(u64::MAX, |ms| u64::from(ms) * 1000)
            {
                self.order(world, Command::MarkDead { engine: other.id, beat });
                self.reap(world, other.id);
            }
        }
    }

    fn reap(&mut self, world: &mut World, engine: EngineId) {
        let owned = Scan::Owned(engine);
        let reads = ReadSet::default().scan(owned.clone(), SEEN_AT_ONCE);
        let Some(snapshot) = world.read(reads) else { return };
        let max_deaths = world.plan.max_deaths;
        for row in snapshot.found(&owned) {
            let Row::Run(known) = row else { continue };
            self.order(world, Command::Reap { known: known.clone(), engine, max_deaths });
        }
    }

    /// Compares the runs that the engine drives with those that it owns in the store. They differ
    /// if an answer was lost or a run was cancelled.
    fn reconcile(&mut self, world: &mut World) {
        self.agenda.reconcile = world.now + self.ttl(world) / 2;
        let owned = Scan::Owned(self.id);
        let reads = ReadSet::default().scan(owned.clone(), 100);
        let Some(snapshot) = world.read(reads) else { return };
        for row in snapshot.found(&owned) {
            let Row::Run(run) = row else { continue };
            let lease = (run.id.seq, run.fence);
            if run.phase == Phase::Stopping {
                self.let_go(world, lease);
                self.order(world, Command::Stopped { known: run.clone() });
            } else if self.task(lease).is_none() {
                self.take(world, (**run).clone());
            }
        }
    }

    fn drive(&mut self, world: &mut World, chance: &mut Chance, run: Seq) {
        let Some(task) = self.tasks.get_mut(&run) else { return };
        match task.drive(world, chance, self.id) {
            Wish::Later(at) => task.at = at,
            Wish::Report(known, report) => {
                task.at = u64::MAX;
                self.order(world, Command::Record { known, report });
            }
        }
    }
}

impl Actor for CommandEngine {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        if !self.up {
            self.boot(world);
            return chance.between(100, 3000);
        }
        if world.now >= self.dies_at && !world.calm {
            world.trace.note(world.now, || format!("engine {} dies", self.id), self.id);
            self.forget(world);
            return chance.between(100, 5000);
        }
        if world.now >= self.renewed + self.ttl(world) {
            // The engine was frozen for longer than its lease. The commands that it was about to
            // send are still sent; none of them may be committed.
            if !self.outbox.is_empty() && chance.percent(60) {
                self.flush(world, chance);
                return chance.between(0, 200);
            }
            // The heartbeat is also sent late; the engine continues if no other engine has marked
            // it dead.
            if chance.percent(50) {
                self.renew(world);
                return chance.between(0, 200);
            }
            world.trace.note(
                world.now,
                || format!("engine {} lost its lease and stops", self.id),
                self.id,
            );
            self.forget(world);
            return chance.between(100, 5000);
        }
        let ready: Vec<Job> = self
            .jobs(world)
            .into_iter()
            .filter(|(at, _)| *at <= world.now)
            .map(|(_, job)| job)
            .collect();
        if !ready.is_empty() {
            match chance.one(&ready) {
                Job::Beat => self.renew(world),
                Job::Flush => self.flush(world, chance),
                Job::Drive(run) => self.drive(world, chance, run),
                Job::Lease => self.lease(world, chance),
                Job::Due => self.due(world),
                Job::Watch => self.watch(world),
                Job::Reconcile => self.reconcile(world),
            }
        }
        if !self.up {
            return chance.between(100, 20_000);
        }
        let next = self.jobs(world).into_iter().map(|(at, _)| at).min().unwrap_or(u64::MAX);
        next.saturating_sub(world.now).max(chance.between(10, 500))
    }

    fn poke(&mut self, world: &World) -> bool {
        let idle = self.up && self.tasks.len() < world.plan.workers;
        if idle {
            self.agenda.lease = world.now;
        }
        idle
    }

    fn is_process(&self) -> bool {
        true
    }
}
