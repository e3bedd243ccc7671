//! Execution of a simulation turn by turn: the choice of the next actor, pauses of actors, and the
//! end.

use tidegate_core::row::Workspace;

use super::{
    Actor,
    cleaner::Cleaner,
    engine::{CommandEngine, Serves},
    people::{Client, Meddler, put_pool, register},
    planner::Planner,
    reactor::ReactionWorker,
    schedule::Turns,
    streams::{Operator, Writer},
    workload::Plan,
    world::World,
};
use crate::workload::Chance;

/// Minimum duration of the phase with faults, in microseconds.
const STORM: u64 = 300_000;

/// Maximum number of turns without an ended run, after the faults have stopped.
const PATIENCE: u64 = 10_000;

/// Maximum time without an ended run, in microseconds. It is long, because the clock may have
/// stepped back.
const LONGEST: u64 = 60_000_000;

/// The actors of streams, schedules and retention. They have their own random numbers, so that a
/// world with them and the same world without them draw the same numbers for all other actors.
#[derive(Debug)]
pub(super) struct Side {
    /// Random numbers for the order of their turns, the delays, and their actions.
    chance: Chance,
    /// Random numbers for their faults.
    faults: Chance,
    /// The index of their first actor.
    from: usize,
}

impl Side {
    /// Creates the random numbers, without actors.
    pub(super) fn new(mut chance: Chance) -> Self {
        let (chance, faults) = (Chance::new(chance.draw()), Chance::new(chance.draw()));
        Self { chance, faults, from: 0 }
    }
}

/// Creates the actors of streams, schedules and retention that the world has.
fn side_actors(plan: &Plan) -> Vec<Box<dyn Actor>> {
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    if let Some(streams) = &plan.streams {
        actors.push(Box::new(Operator::new(streams, &plan.workspaces)));
        for commits in &streams.writers {
            actors.push(Box::new(Writer::new(*commits)));
        }
        for number in 0..streams.workers {
            actors.push(Box::new(ReactionWorker::new(number)));
        }
    }
    for _ in 0..plan.calendar.as_ref().map_or(0, |calendar| calendar.planners) {
        actors.push(Box::new(Planner::default()));
    }
    if plan.retention.is_some() {
        actors.push(Box::new(Cleaner::default()));
    }
    actors
}

#[derive(Debug)]
pub(super) struct Sim {
    pub(super) world: World,
    chance: Chance,
    side: Side,
    actors: Vec<Box<dyn Actor>>,
    /// The time of the next turn of each actor.
    next: Vec<u64>,
    /// The end of the current pause of each actor.
    still: Vec<u64>,
    queue: Turns,
    pub(super) turns: u64,
}

impl Sim {
    pub(super) fn new(mut world: World, chance: Chance, mut side: Side) -> Self {
        let plan = world.plan.clone();
        for ws in &plan.workspaces {
            let ws = || Workspace::from(*ws);
            let pools = plan.pools.iter().map(|pool| put_pool(ws(), &pool.declaration(pool.limit)));
            let specs = plan.specs.iter().map(|spec| register(ws(), spec.definition(1)));
            for command in pools.chain(specs) {
                let salt = world.salt();
                world
                    .submit("people", &[(command, salt)])
                    .expect("no fault happens before the start");
            }
        }
        world.calm = false;
        let mut actors: Vec<Box<dyn Actor>> =
            vec![Box::new(Client::new(&plan)), Box::new(Meddler::default())];
        for number in 0..u32::try_from(plan.engines).expect("a few") {
            // The first engine serves all versions, so that no run stays stranded.
            let serves = match number % 4 {
                2 => Serves::First,
                3 => Serves::Later,
                _ => Serves::All,
            };
            actors.push(Box::new(CommandEngine::new(number + 1, serves)));
        }
        side.from = actors.len();
        actors.extend(side_actors(&plan));
        let (next, still) = (vec![u64::MAX; actors.len()], vec![0; actors.len()]);
        let queue = Turns::default();
        let mut sim = Self { world, chance, side, actors, next, still, queue, turns: 0 };
        for actor in 0..sim.actors.len() {
            sim.wants(actor, 0);
        }
        sim
    }

    fn wants(&mut self, actor: usize, at: u64) {
        self.next[actor] = at;
        let is_side = actor >= self.side.from;
        let chance = if is_side { &mut self.side.chance } else { &mut self.chance };
        if at < u64::MAX {
            self.queue.add(at, actor, chance);
        }
    }

    /// Runs the phase with faults, then the calm phase, in which everything must finish.
    pub(super) fn run(&mut self) {
        while self.world.now < STORM || !self.actors.iter().all(|actor| actor.is_done()) {
            if !self.turn() {
                return;
            }
        }
        self.world.calm = true;
        self.actors.iter_mut().for_each(|actor| actor.settle());
        let (mut ended, mut turn, mut time) = (0, self.turns, self.world.now);
        while !self.is_at_rest() {
            if self.world.judge.ended > ended {
                (ended, turn, time) = (self.world.judge.ended, self.turns, self.world.now);
            }
            if self.turns - turn > PATIENCE && self.world.now - time > LONGEST {
                self.world.judge.report_unsettled();
            }
            if !self.turn() {
                return;
            }
        }
        self.world.judge.settled();
        self.world.compare();
    }

    fn is_at_rest(&self) -> bool {
        self.world.judge.is_at_rest()
            && self.actors.iter().all(|actor| actor.is_settled(&self.world))
    }

    /// Runs one turn of one actor; returns `false` after a violation.
    fn turn(&mut self) -> bool {
        let Some((at, actor)) = self.queue.pop() else { return false };
        if self.next[actor] != at {
            return true;
        }
        self.turns += 1;
        let now = self.world.now.max(at);
        self.world.set_time(now);
        let is_side = actor >= self.side.from;
        if is_side {
            std::mem::swap(&mut self.world.faults, &mut self.side.faults);
        }
        let wait = self.act(actor, now);
        if is_side {
            std::mem::swap(&mut self.world.faults, &mut self.side.faults);
        }
        self.wants(actor, now.saturating_add(wait));
        if std::mem::take(&mut self.world.woken)
            && !self.world.strikes(self.world.plan.mix.lost_wake)
        {
            self.poke();
        }
        self.world.violation().is_none()
    }

    /// Runs an actor's turn unless it is paused; returns the delay until its next turn.
    fn act(&mut self, actor: usize, now: u64) -> u64 {
        if self.actors[actor].is_process() && self.world.strikes(self.world.plan.mix.pause) {
            let ttl = self.world.plan.ttl_ms * 1000;
            let pause = self.world.faults.between(ttl / 4, ttl * 3);
            self.world.trace.note(now, || format!("actor {actor} is paused"), pause);
            self.still[actor] = now + pause;
            return pause;
        }
        let is_side = actor >= self.side.from;
        let chance = if is_side { &mut self.side.chance } else { &mut self.chance };
        self.actors[actor].turn(&mut self.world, chance)
    }

    fn poke(&mut self) {
        let now = self.world.now;
        for actor in 0..self.actors.len() {
            // A paused actor is not notified.
            let awake = self.still[actor] <= now && self.next[actor] > now;
            if awake && self.actors[actor].poke(&self.world) {
                let at = now + self.chance.between(50, 600);
                if at < self.next[actor] {
                    self.wants(actor, at);
                }
            }
        }
    }
}
