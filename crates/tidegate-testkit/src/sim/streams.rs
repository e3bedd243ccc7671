//! The streams and reactions of a simulated world: their writers and operators.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    id::Seq,
    json::Payload,
    reaction::{
        Backoff, BackoffKind, Filter, Follower, Reaction, Remedy, Repair, Source, StreamSelection,
    },
    row::Workspace,
    stream::{Close, Commit, Expected, Restart, StreamRefusal},
};
use tidegate_store::SeededCommand;

use super::{Actor, faults::Trouble, world::World};
use crate::{workload::Chance, world::logged};

/// The stream to which the handlers of reactions commit.
pub const OUT: &str = "out";

/// The event for which a handler commits to [`OUT`]. Events in [`OUT`] have another name, so that
/// no reaction triggers itself for ever.
pub const ROOT: &str = "root";

/// The streams and reactions of a simulation.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// The streams that writers commit to.
    pub streams: Vec<&'static str>,
    /// The reactions, and the time at which each is defined, in microseconds.
    pub reactions: Vec<(u64, Reaction)>,
    /// Number of reaction worker processes.
    pub workers: u32,
    /// Number of commits of each writer process.
    pub writers: Vec<u64>,
    /// How often a handler fails, per thousand events.
    pub failures: u64,
    /// How often an operator repairs subscriptions, per thousand turns.
    pub repairs: u64,
    /// How often an operator closes, truncates or restarts streams, per thousand turns.
    pub closes: u64,
    /// Whether operators unblock all streams at the end.
    pub unblocks: bool,
}

impl StreamPlan {
    /// Draws the streams and reactions.
    pub fn draw(chance: &mut Chance) -> Self {
        let streams = &["a-1", "b-1", "a-2"][..=chance.index(3)];
        let reactions = (0..chance.between(1, 2)).map(|n| {
            let late = chance.percent(30);
            let at = if late { chance.between(1000, 80_000) } else { 0 };
            (at, reaction(n, chance))
        });
        let reactions = reactions.collect();
        let writers = (0..chance.between(1, 3)).map(|_| chance.between(1, 6)).collect();
        Self {
            streams: streams.to_vec(),
            reactions,
            workers: u32::try_from(chance.between(1, 3)).expect("a few"),
            writers,
            failures: chance.one(&[0, 50, 300]),
            repairs: chance.one(&[0, 100, 300]),
            closes: chance.one(&[0, 100, 300]),
            unblocks: chance.percent(70),
        }
    }

    /// Returns a reaction by name.
    pub fn reaction(&self, name: &str) -> Option<&Reaction> {
        self.reactions.iter().map(|(_, reaction)| reaction).find(|it| it.name == name)
    }
}

fn reaction(n: u64, chance: &mut Chance) -> Reaction {
    let source = match chance.below(4) {
        0 => Source::Stream("a-1".to_owned()),
        1 => Source::Family("a-".to_owned()),
        _ => Source::All,
    };
    let kind = chance.one(&[BackoffKind::Fixed, BackoffKind::Linear, BackoffKind::Exponential]);
    let backoff =
        Backoff { kind, ms: chance.one(&[1, 10]), max_ms: 30, jitter: chance.percent(50) };
    Reaction {
        from_head: chance.percent(20),
        max_retries: chance.one(&[0, 1, 3]),
        block_on_error: chance.percent(60),
        backoff: chance.percent(60).then_some(backoff),
        lease_ms: chance.one(&[4, 15, 60]),
        batch: chance.one(&[1, 2, 10]),
        max_lost_leases: chance.one(&[1, 3, 10]),
        ..Reaction::new(&format!("r{n}"), source)
    }
}

/// A process that commits to streams, with an expected version or without.
#[derive(Debug)]
pub struct Writer {
    left: u64,
    /// The number and head of each stream, as this writer knows them.
    heads: BTreeMap<(Workspace, &'static str), (Option<Seq>, i64)>,
    /// A commit that was sent, whose outcome is unknown and which may be sent again.
    doubtful: Option<SeededCommand>,
}

impl Writer {
    /// Creates a writer that makes `commits` commits.
    pub fn new(commits: u64) -> Self {
        Self { left: commits, heads: BTreeMap::new(), doubtful: None }
    }

    fn commit(&self, world: &World, chance: &mut Chance) -> Command {
        let plan = world.plan.streams.as_ref().expect("the world has streams");
        let stream = plan.streams[chance.index(plan.streams.len())];
        let ws = Workspace::from(chance.one(&world.plan.workspaces));
        let (log, head) = self.heads.get(&(ws.clone(), stream)).copied().unwrap_or((None, -1));
        let expected = match chance.below(10) {
            0..4 => None,
            4..7 => Some(Expected::seen(log, head)),
            _ => Some(Expected::after(head)),
        };
        let events = (0..chance.one(&[1, 1, 2, 3])).map(|n| {
            let name = if chance.percent(30) { ROOT } else { "plain" };
            logged(name, &json!(n))
        });
        let (events, stream) = (events.collect(), stream.to_owned());
        let commit = Commit { ws: ws.clone(), stream, events, expected };
        Command::Stream { ws, command: StreamCommand::Commit(commit) }
    }

    fn send(&mut self, world: &mut World, salted: SeededCommand) {
        let Command::Stream { ws, command: StreamCommand::Commit(commit) } = &salted.0 else {
            return;
        };
        let plan = world.plan.clone();
        let streams = plan.streams.iter().flat_map(|plan| &plan.streams);
        let stream = streams.copied().find(|name| *name == commit.stream).unwrap_or(OUT);
        let key = (ws.clone(), stream);
        let safe = commit.expected.is_some();
        match world.submit("writer", std::slice::from_ref(&salted)) {
            Ok(answers) => match answers.into_iter().next() {
                Some(Ok(Answer::Stream(StreamAnswer::Committed(committed)))) => {
                    self.heads.insert(key, (Some(committed.log), committed.last));
                }
                Some(Err(Refusal::Stream(StreamRefusal::Conflict { actual, .. }))) => {
                    self.heads.insert(key, (None, actual));
                }
                Some(Err(Refusal::Stream(StreamRefusal::StreamClosed { .. }))) => {}
                other => {
                    world.judge.report("I36", format!("unexpected answer to a commit: {other:?}"));
                }
            },
            Err(Trouble::Unavailable) => self.doubtful = Some(salted),
            Err(Trouble::Unknown) if safe => self.doubtful = Some(salted),
            Err(Trouble::Unknown) => {}
            Err(Trouble::Crash) => self.heads.clear(),
        }
    }
}

impl Actor for Writer {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        if let Some(salted) = self.doubtful.take() {
            self.send(world, salted);
        } else if self.left > 0 {
            self.left -= 1;
            let salted = (self.commit(world, chance), world.salt());
            self.send(world, salted);
        }
        if self.is_done() { u64::MAX } else { chance.between(300, 50_000) }
    }

    fn is_process(&self) -> bool {
        true
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.doubtful.is_none()
    }
}

/// An operator: defines reactions, repairs their subscriptions, and closes streams.
#[derive(Debug)]
pub struct Operator {
    /// Commands and their earliest times; each is retried until it is known to be committed.
    orders: VecDeque<(u64, Command)>,
    calm: bool,
}

impl Operator {
    /// Creates the operator for a plan.
    pub fn new(plan: &StreamPlan, workspaces: &[&'static str]) -> Self {
        let mut orders = VecDeque::new();
        for (at, reaction) in &plan.reactions {
            for ws in workspaces {
                let mut add = |command| {
                    orders.push_back((*at, Command::Stream { ws: (*ws).into(), command }));
                };
                add(StreamCommand::Define(reaction.clone()));
                // A new reaction does not know the streams that were committed to before its
                // definition.
                for stream in plan.streams.iter().copied().chain([OUT]) {
                    if reaction.source.covers(stream) {
                        let (reaction, stream) = (reaction.name.clone(), stream.to_owned());
                        add(StreamCommand::Follow { reaction, stream });
                    }
                }
            }
        }
        orders.make_contiguous().sort_by_key(|(at, _)| *at);
        Self { orders, calm: false }
    }

    fn act(world: &mut World, command: Command) -> Result<(), Trouble> {
        let salt = world.salt();
        world.submit("operator", &[(command, salt)]).map(|_| ())
    }

    fn repair(world: &World, chance: &mut Chance) -> Option<Command> {
        let plan = world.plan.streams.as_ref()?;
        let ws = Workspace::from(chance.one(&world.plan.workspaces));
        let (_, reaction) = &plan.reactions[chance.index(plan.reactions.len())];
        let streams = plan.streams.iter().filter(|_| chance.percent(60));
        let streams: Vec<String> = streams.map(|stream| (*stream).to_owned()).collect();
        let remedy = match chance.below(10) {
            0..5 => Remedy::Unblock,
            5..8 => Remedy::Reset,
            8 => Remedy::Prioritize,
            _ => Remedy::Defer(world.store_time().plus_ms(chance.one(&[1, 20]))),
        };
        let which = match chance.below(3) {
            0 => StreamSelection::All,
            1 => StreamSelection::Where(Filter {
                blocked: Some(chance.percent(70)),
                ..Filter::default()
            }),
            _ => StreamSelection::Names(streams.clone()),
        };
        let repair = Repair { ws: ws.clone(), follower: Follower::from(reaction), remedy, which };
        Some(Command::Stream { ws, command: StreamCommand::Repair { repair, streams } })
    }

    fn close(world: &World, chance: &mut Chance) -> Option<Command> {
        let plan = world.plan.streams.as_ref()?;
        let ws = Workspace::from(chance.one(&world.plan.workspaces));
        let stream = plan.streams[chance.index(plan.streams.len())].to_owned();
        let meta = Payload::null();
        let command = match chance.below(6) {
            0 => {
                let expected = chance.percent(30).then(|| Expected::after(1));
                StreamCommand::Close(Close { ws: ws.clone(), stream, expected, meta })
            }
            1 => {
                let snapshot = Payload::null();
                StreamCommand::Restart(Restart { ws: ws.clone(), stream, snapshot, meta })
            }
            _ => StreamCommand::Truncate { stream, limit: chance.one(&[1, 2, 20]) },
        };
        Some(Command::Stream { ws, command })
    }

    /// Unblocks all blocked subscriptions.
    fn unblock(world: &mut World) {
        let Some(plan) = world.plan.streams.clone().filter(|plan| plan.unblocks) else { return };
        for (ws, reaction, stream) in world.judge.blocked_places() {
            let Some(reaction) = plan.reaction(&reaction) else { continue };
            let (follower, streams) = (Follower::from(reaction), vec![stream]);
            let which = StreamSelection::Names(streams.clone());
            let repair = Repair { ws: ws.clone(), follower, remedy: Remedy::Unblock, which };
            let command = StreamCommand::Repair { repair, streams };
            let _ = Self::act(world, Command::Stream { ws, command });
        }
    }
}

impl Actor for Operator {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        if self.orders.front().is_some_and(|(at, _)| *at <= world.now) {
            let (at, command) = self.orders.pop_front().expect("it was just found");
            if Self::act(world, command.clone()).is_err() {
                self.orders.push_front((at, command));
            }
            return chance.between(50, 2000);
        }
        if self.calm {
            Self::unblock(world);
            return 20_000;
        }
        let plan = world.plan.streams.as_ref().expect("the world has streams");
        let (repairs, closes) = (plan.repairs, plan.closes);
        if chance.permille(repairs) {
            let _ = Self::repair(world, chance).map(|command| Self::act(world, command));
        } else if chance.permille(closes) {
            let _ = Self::close(world, chance).map(|command| Self::act(world, command));
        }
        chance.between(1000, 20_000)
    }

    fn is_done(&self) -> bool {
        self.orders.is_empty()
    }

    fn settle(&mut self) {
        self.calm = true;
    }
}
