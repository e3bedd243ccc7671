//! Reaction worker process of the simulator: claims subscriptions, passes their events to a
//! handler, and ends each lease by an ack, a failure, a block or a deferral, or lets it expire.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    reaction::{
        Ack, Effect, Failure, Lease, Leased, Outcome, React, Reacted, ReactionRefusal, Then,
    },
    reads::{ReadSet, Scan},
    row::{EngineId, Row, Workspace},
    stream::StreamRefusal,
};
use tidegate_store::{Answered, SeededCommand};

use super::{
    Actor,
    faults::Trouble,
    streams::{OUT, ROOT},
    world::World,
};
use crate::{workload::Chance, world::logged};

/// Poll interval of a worker without subscriptions, in microseconds.
const POLL: u64 = 25_000;

/// A subscription that this process has leased; it may have lost the lease without knowing.
#[derive(Debug)]
struct Task {
    leased: Leased,
    /// The last event that the handler has finished.
    done: i64,
    /// Version and name of the loaded events; `None` before they are read.
    events: Option<Vec<(i64, String)>>,
    /// Whether the handler commits because of one of the handled events.
    commits: bool,
    /// A command that was sent and whose outcome is unknown.
    doubtful: Option<SeededCommand>,
}

impl Task {
    fn new(leased: Leased) -> Self {
        Self { done: leased.at, leased, events: None, commits: false, doubtful: None }
    }

    fn lease(&self) -> Lease {
        self.leased.lease.clone()
    }
}

/// One process. After a crash it starts as a new process, with a new id and without memory.
#[derive(Debug)]
pub struct ReactionWorker {
    number: u32,
    id: EngineId,
    lives: u32,
    tasks: Vec<Task>,
    calm: bool,
}

impl ReactionWorker {
    /// Creates a process without leases.
    pub fn new(number: u32) -> Self {
        Self { number, id: Self::id(number, 0), lives: 0, tasks: Vec::new(), calm: false }
    }

    fn id(number: u32, lives: u32) -> EngineId {
        EngineId::from(900_000 + number * 1000 + lives)
    }

    /// Drops all state in memory; the leases are not released.
    fn crash(&mut self) {
        self.lives += 1;
        self.id = Self::id(self.number, self.lives);
        self.tasks.clear();
    }

    /// Claims subscriptions of one reaction, if there may be new events; returns whether it sent a
    /// claim.
    fn claim(&mut self, world: &mut World, chance: &mut Chance) -> bool {
        let plan = world.plan.streams.clone().expect("the world has streams");
        let ws = Workspace::from(chance.one(&world.plan.workspaces));
        let (_, reaction) = &plan.reactions[chance.index(plan.reactions.len())];
        let reaction = reaction.name.clone();
        let scan = Scan::Work(ws.clone(), reaction.clone());
        let work = world.read(ReadSet::default().scan(scan.clone(), 1));
        let idle = work.is_none_or(|snapshot| snapshot.found(&scan).is_empty());
        if idle && !chance.permille(30) {
            return false;
        }
        let limit = if self.calm { 1 } else { chance.one(&[1, 1, 2, 5]) };
        let command = StreamCommand::Claim { reaction, engine: self.id, limit };
        let salted = (Command::Stream { ws, command }, world.salt());
        match world.submit("worker", &[salted]).map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(Answer::Stream(StreamAnswer::Claimed(claimed))))) => {
                self.tasks.extend(claimed.leased.into_iter().map(Task::new));
            }
            // Either the reaction is not defined yet, or the claim was committed without an answer;
            // then its leases expire and are claimed again.
            Ok(Some(Err(Refusal::NoReaction(_))))
            | Err(Trouble::Unavailable | Trouble::Unknown) => {}
            Ok(other) => {
                world.judge.report("I39", format!("unexpected answer to a claim: {other:?}"));
            }
            Err(Trouble::Crash) => self.crash(),
        }
        true
    }

    /// Performs the next action on one subscription.
    fn work(&mut self, world: &mut World, chance: &mut Chance) {
        let at = chance.index(self.tasks.len());
        let mut task = self.tasks.swap_remove(at);
        if let Some(salted) = task.doubtful.take() {
            return self.send(world, task, salted);
        }
        let Some(events) = &mut task.events else {
            if load(world, &mut task) {
                self.tasks.push(task);
            }
            return;
        };
        let plan = world.plan.streams.as_ref().expect("the world has streams");
        let failures = if self.calm { 0 } else { plan.failures };
        let command = if chance.permille(failures) {
            fail(&task, chance)
        } else if !self.calm && chance.permille(60) {
            aside(world, &task, chance)
        } else if events.is_empty() {
            self.end(&task, chance)
        } else {
            let (version, name) = events.remove(0);
            world.judge.handled(&task.leased, version);
            (task.done, task.commits) = (version, task.commits || name == ROOT);
            return self.tasks.push(task);
        };
        let ws = task.leased.lease.ws.clone();
        let salted = (Command::Stream { ws, command }, world.salt());
        self.send(world, task, salted);
    }

    /// Builds the command at the end of a batch: an ack, or a commit of the handler with its ack.
    fn end(&self, task: &Task, chance: &mut Chance) -> StreamCommand {
        let (lease, upto) = (task.lease(), task.done);
        if !self.calm && chance.permille(10) {
            // A wrong ack, of events that do not exist.
            return StreamCommand::Ack(vec![Ack { lease, upto: upto + 100 }]);
        }
        if upto == task.leased.at || chance.percent(50) {
            return StreamCommand::Ack(vec![Ack { lease, upto }]);
        }
        let events = vec![logged("derived", &json!(upto))];
        let commit = Effect::Commit { stream: OUT.to_owned(), events };
        let effects = if task.commits { vec![commit] } else { Vec::new() };
        let more = upto < task.leased.want && chance.percent(70);
        let then = if more { Then::Keep } else { Then::Free };
        StreamCommand::React(React { lease, from: task.leased.at, upto, effects, then })
    }

    fn send(&mut self, world: &mut World, mut task: Task, salted: SeededCommand) {
        match world.submit("worker", std::slice::from_ref(&salted)) {
            Ok(answers) => {
                let answer = answers.into_iter().next().expect("each command has an answer");
                if let Some(task) = go_on(world, task, answer) {
                    self.tasks.push(task);
                }
            }
            Err(Trouble::Crash) => self.crash(),
            Err(Trouble::Unavailable | Trouble::Unknown) => {
                task.doubtful = Some(salted);
                self.tasks.push(task);
            }
        }
    }
}

/// Reads the next events of a subscription; returns `false` if there are none left for its lease.
fn load(world: &mut World, task: &mut Task) -> bool {
    let plan = world.plan.streams.clone().expect("the world has streams");
    let batch = plan.reaction(&task.leased.lease.reaction).map_or(1, |reaction| reaction.batch);
    let scan = Scan::Log(task.leased.log, task.done + 1);
    let Some(snapshot) = world.read(ReadSet::default().scan(scan.clone(), batch)) else {
        return true;
    };
    let mut events = Vec::new();
    for row in snapshot.found(&scan) {
        let Row::StreamEventRow(event) = row else { continue };
        events.push((event.version, event.name.clone()));
    }
    let there = !events.is_empty();
    task.events = Some(events);
    there
}

/// Builds a failure of the handler, after the events that it has finished.
fn fail(task: &Task, chance: &mut Chance) -> StreamCommand {
    let failure = Failure {
        done_upto: task.done,
        error: "boom".to_owned(),
        retryable: !chance.percent(15),
        chance: u32::try_from(chance.below(1 << 32)).unwrap_or_default(),
        wait_ms: chance.percent(15).then(|| chance.one(&[0, 25])),
    };
    StreamCommand::Fail { lease: task.lease(), failure }
}

/// Builds a renewal, a block or a deferral, before the end of the batch.
fn aside(world: &World, task: &Task, chance: &mut Chance) -> StreamCommand {
    let (lease, done_upto) = (task.lease(), task.done);
    match chance.below(4) {
        0 => StreamCommand::Block { lease, done_upto, reason: "by its handler".to_owned() },
        1 => {
            let until = world.store_time().plus_ms(chance.one(&[0, 5, 30]));
            StreamCommand::Defer { lease, done_upto, until }
        }
        _ => StreamCommand::Renew { reaction: lease.reaction.clone(), leases: vec![lease] },
    }
}

/// Updates the task by an answer; returns `None` if its lease has ended.
fn go_on(world: &mut World, task: Task, answer: Answered) -> Option<Task> {
    let (commits, events) = (false, None);
    match answer {
        Ok(Answer::Stream(StreamAnswer::Renewed(outcomes))) => {
            matches!(outcomes[..], [Outcome::Done(_)]).then_some(task)
        }
        Ok(Answer::Stream(StreamAnswer::Reacted(Reacted { at, until: Some(_), .. }))) => {
            let leased = Leased { at, ..task.leased };
            (at < leased.want).then_some(Task { leased, done: at, commits, events, ..task })
        }
        Ok(Answer::Stream(
            StreamAnswer::At(_) | StreamAnswer::Failed(_) | StreamAnswer::Reacted(_),
        ))
        | Err(Refusal::Reaction(ReactionRefusal::Lost { .. } | ReactionRefusal::Beyond { .. })) => {
            None
        }
        // The stream is closed: the task continues without commits to it.
        Err(Refusal::Stream(StreamRefusal::StreamClosed { .. })) => Some(Task { commits, ..task }),
        other => {
            world.judge.report("I38", format!("unexpected answer to a worker: {other:?}"));
            None
        }
    }
}

impl Actor for ReactionWorker {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        // After the faults the worker is fast enough to finish within its lease.
        let (busy, pause) = if self.calm { (100, 100) } else { (80, 2500) };
        if !self.tasks.is_empty() && chance.percent(busy) {
            self.work(world, chance);
        } else if !self.claim(world, chance) && self.tasks.is_empty() {
            return chance.between(POLL / 4, POLL);
        }
        chance.between(50, pause)
    }

    fn is_process(&self) -> bool {
        true
    }

    fn settle(&mut self) {
        self.calm = true;
    }
}
