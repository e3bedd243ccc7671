//! Player: executes moves on one store, and describes their outcomes so that they can be compared
//! between stores.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    definition::Definition,
    flow::{
        adaptive::NewOverload,
        close::{GateToClose, NewClose},
    },
    id::RunId,
    reaction::{
        Ack, Failure, Filter, Follower, Lease, Reaction, Remedy, Repair, Source, StreamSelection,
    },
    row::{Run, RunError},
    run::record::{self, NewAsk, NewSend, NewWait, NewWaitOn, Record, Then, Until},
    session::NewSessionOp,
    stream::{Close, Commit, Expected, NewLogged, Restart},
    time::Timestamp,
};
use tidegate_store::{Answered, ManualClock, SeededCommand, Store, commit};

use super::{Closed, Goes, Move, SCHEDULE, Sent, Streams, definitions, limits};
use crate::{
    worker::again,
    world::{
        World, append, event, get, increment, lease, merge, payload, request, session, set, step,
    },
};

/// The row of an override has its number as its name.
const OVERRIDE: &str = "app: \"$overrides\", name: \"";

/// The body of an override has the number of the chore that ends it.
const EXPIRY: &str = "\\\"expiry\\\":";

/// The tiers of runs behind the first of their value begin here.
const BEHIND: i64 = 1 << 62;

/// Length of a reaction's lease, in milliseconds.
const LEASE_MS: u64 = 80;

/// One store, and the state that the player knows from its answers.
#[derive(Debug)]
pub struct Player {
    world: World,
    leased: Vec<Run>,
    reported: Vec<Run>,
    cancelled: Vec<Run>,
    runs: Vec<RunId>,
    leases: Vec<(Lease, i64)>,
    moves: u64,
    names: BTreeMap<String, usize>,
    /// The planned occurrence of each scheduled workflow.
    planned: BTreeMap<&'static str, Timestamp>,
}

impl Player {
    /// Creates a player on an empty store, and registers all definitions.
    pub async fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let world = World::new(store, clock);
        for pool in limits::POOLS {
            world.put_pool(limits::pool(pool, 0)).await;
        }
        for definition in definitions(1) {
            world.define(definition).await;
        }
        let source = Source::parse("order-*").expect("a prefix");
        let reaction =
            Reaction { lease_ms: LEASE_MS, max_retries: 1, ..Reaction::new("mail", source) };
        let (ws, command) = (world.ws.clone(), StreamCommand::Define(reaction));
        world.run(Command::Stream { ws, command }).await.expect("a good reaction");
        Self {
            world,
            leased: Vec::new(),
            reported: Vec::new(),
            cancelled: Vec::new(),
            runs: Vec::new(),
            leases: Vec::new(),
            moves: 0,
            names: BTreeMap::new(),
            planned: BTreeMap::new(),
        }
    }

    /// Plays moves of one command each, in one transaction (`together`) or in one each; returns the
    /// outcomes.
    pub async fn play(&mut self, moves: &[Move], together: bool) -> Vec<String> {
        let commands = self.commands(moves).await;
        if together {
            return self.carry_out(commands).await;
        }
        let mut answer = Vec::new();
        for command in commands {
            answer.extend(self.carry_out(vec![command]).await);
        }
        answer
    }

    /// Returns the commands for moves.
    ///
    /// All commands are built from the state before the first of them, because no caller can know
    /// the answer of a command that is not committed.
    pub async fn commands(&mut self, moves: &[Move]) -> Vec<SeededCommand> {
        let lanes = self.world.lanes().await;
        self.world.enlist().await;
        self.reported.clear();
        self.planned.clear();
        let mut commands = Vec::new();
        for it in moves {
            self.moves += 1;
            if let Move::Occur { workflow } = it
                && !self.planned.contains_key(workflow)
            {
                let at = self.world.now().minus_ms(1);
                self.world.set_schedule(workflow, SCHEDULE, at).await;
                self.planned.insert(workflow, at);
            }
            let mut command = self.command(it);
            if let Some(Command::Lease { serves, .. }) = &mut command {
                *serves = Arc::new(lanes.iter().copied().collect());
            }
            commands.extend(command.map(|command| (command, self.moves)));
        }
        commands
    }

    /// Executes commands in one transaction; returns the outcome of each.
    pub async fn carry_out(&mut self, commands: Vec<SeededCommand>) -> Vec<String> {
        let salts: Vec<u64> = commands.iter().map(|(_, salt)| *salt).collect();
        let answers = commit(&*self.world.store, commands).await.expect("the store works");
        let mut reply = Vec::new();
        for (salt, answer) in salts.into_iter().zip(answers) {
            reply.push(self.rename(&format!("{salt}: {:?}", without_epoch(&answer))));
            self.learn(answer);
        }
        reply
    }

    /// Returns the store.
    pub fn store(&self) -> &dyn Store {
        &*self.world.store
    }

    /// Plays a move that is not a command: advances the time, or marks an engine dead.
    pub async fn wait(&mut self, it: &Move) {
        assert!(!it.is_command(), "{it:?} is a command");
        if let Move::Pass { ms } = it {
            return self.world.tick(*ms).await;
        }
        self.world.lose(self.world.engine).await;
        self.world.engine += 1;
        self.leased.clear();
        self.cancelled.clear();
    }

    /// Returns every row of the store, in a form that is the same on all stores.
    pub async fn dump(&mut self) -> Vec<String> {
        let rows = self.world.dump().await;
        rows.iter().map(|row| self.rename(&format!("{row:?}"))).collect()
    }

    /// Returns the status of every run, as users see it.
    pub async fn states(&mut self) -> Vec<String> {
        let mut states = Vec::new();
        for run in self.runs.clone() {
            let state = self.world.state(run).await;
            states.push(self.rename(&format!("{run} {state}")));
        }
        states
    }

    /// Checks that the holds in gates and in runs agree.
    pub async fn check(&self) {
        self.world.check_holds().await;
    }

    /// Replaces the store's sequence numbers by numbers in the order in which they are first seen.
    ///
    /// Numbers are given out in blocks, one per transaction, so they differ between stores: a store
    /// that restarts a transaction uses another block, and commands in one transaction share a
    /// block. Ids contain these numbers. Everything else is compared unchanged.
    fn rename(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((at, kind)) = ["Seq(", "run_", "evt_", "chore_", "tier: ", OVERRIDE, EXPIRY]
            .iter()
            .filter_map(|kind| Some((rest.find(kind)?, *kind)))
            .min()
        {
            let from = at + kind.len();
            let end = rest[from..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let end = end.map_or(rest.len(), |end| from + end);
            let mut id = rest[at..end].to_owned();
            if kind == "tier: " {
                // A run behind the first of its value has the number of the share in its tier.
                let number = rest[from..end].parse().map_or(-1, |tier: i64| tier - BEHIND);
                if number < 0 {
                    out += &rest[..end];
                    rest = &rest[end..];
                    continue;
                }
                id = format!("Seq({number}");
            }
            if kind == OVERRIDE || kind == EXPIRY {
                id = format!("Seq({}", &rest[from..end]);
            }
            let next = self.names.len();
            let name = *self.names.entry(id).or_insert(next);
            out = out + &rest[..at] + kind + "#" + &name.to_string();
            rest = &rest[end..];
        }
        out + rest
    }

    fn learn(&mut self, answer: Answered) {
        match answer {
            Ok(Answer::Posted(posted)) => {
                let outcomes = posted.into_iter().flat_map(|posted| posted.runs);
                self.runs.extend(outcomes.filter_map(|outcome| outcome.verdict.run()));
            }
            Ok(Answer::Admitted(outcome)) => self.runs.extend(outcome.verdict.run()),
            Ok(Answer::AdmittedBoth(first, then)) => {
                let both = std::iter::once(first).chain(then.map(|then| *then));
                self.runs.extend(both.filter_map(|outcome| outcome.verdict.run()));
            }
            Ok(Answer::Leased(runs)) => self.leased.extend(runs),
            Ok(Answer::Stream(StreamAnswer::Claimed(claimed))) => {
                self.leases.extend(claimed.leased.into_iter().map(|it| (it.lease, it.want)));
            }
            Err(Refusal::Fenced { run, fence }) => {
                // The run was cancelled meanwhile: the worker stops it and reports that.
                let mut known = self.reported.iter();
                let gone = known.find(|it| it.id.seq == run && it.fence == fence);
                self.cancelled.extend(gone.cloned());
            }
            Ok(_) | Err(_) => {}
        }
        self.runs.dedup();
    }

    // ------------------------------------------------------------------ moves into commands

    fn command(&mut self, it: &Move) -> Option<Command> {
        let ws = self.world.ws.clone();
        Some(match it {
            Move::Post(events) => Command::Post { ws, events: events.iter().map(sent).collect() },
            Move::Call { action, session, key } => {
                let request = request("chat", action, *session, None, &data(*key));
                Command::Dispatch { ws, request }
            }
            Move::Say { respond, session, key } => {
                let call = |action| request("chat", action, *session, None, &data(*key));
                let (first, then) = (Box::new(call("say")), Box::new(call(respond)));
                Command::DispatchThen { ws, first, then }
            }
            Move::Occur { workflow } => {
                let planned = self.planned.get_mut(workflow)?;
                let next = Timestamp::from_micros(planned.micros() + 1);
                let at = std::mem::replace(planned, next);
                let occurrence = self.world.occurrence(workflow, SCHEDULE, at, Some(next));
                Command::Occur { occurrence }
            }
            Move::Lease { limit } => {
                let engine = self.world.engine;
                lease(ws, engine, Vec::new(), *limit)
            }
            Move::Report { run, then } => {
                let run = take(&mut self.leased, *run)?;
                self.reported.push(run.clone());
                self.report(run, *then)
            }
            Move::Late { run } => {
                let run = self.leased.get(pick(self.leased.len(), *run)?)?.clone();
                let late = Run { fence: run.fence - 1, ..run };
                self.report(late, Goes::Completes)
            }
            Move::Stopped { run } => {
                let known = Box::new(take(&mut self.cancelled, *run)?);
                Command::Stopped { known }
            }
            Move::Control { run, how } => self.control(*run, how)?,
            Move::Register { workflow, version } => {
                let all = definitions(*version);
                let mine = all.iter().find(|definition| definition["name"] == **workflow)?;
                let workflow = Definition::parse(mine).expect("a good definition").value;
                Command::Register { ws, workflow: Box::new(workflow), dev: false }
            }
            Move::Release { workflow, version } => {
                let (app, name) = ("default".to_owned(), (*workflow).to_owned());
                Command::Release { ws, app, name, version: *version }
            }
            Move::Stream(it) => Command::Stream { ws, command: self.streams(*it)? },
            Move::Limits(it) => it.command(ws, self.world.now()),
            Move::Pass { .. } | Move::Lose => return None,
        })
    }

    fn report(&mut self, run: Run, goes: Goes) -> Command {
        let wait = |on: NewWaitOn, until: Option<u64>| {
            let until = until.map(Until::In);
            Then::Suspend(vec![NewWait { step: format!("wait {}", self.moves), on, until }])
        };
        let (mut steps, mut sends, mut stays) = (Vec::new(), Vec::new(), false);
        let (mut asks, mut over) = (Vec::new(), Vec::new());
        let (mut overloads, mut closes) = (Vec::new(), Vec::new());
        let then = match goes {
            Goes::Completes => Then::Complete(payload(&json!("done"))),
            Goes::Fails => Then::Fail(RunError::new("Boom", "boom")),
            Goes::Steps => {
                steps.push(step(&format!("step {}", self.moves), &json!({ "n": self.moves })));
                let event = event("single", &data(self.moves % 5));
                sends.push(NewSend::event(format!("send {}", self.moves), event));
                stays = true;
                Then::Continue
            }
            Goes::Sleeps(ms) => wait(NewWaitOn::Time, Some(ms)),
            Goes::WaitsForEvent(key) => {
                wait(crate::worker::event_wait("plain", matches(key)), Some(90))
            }
            Goes::WaitsForSignal => wait(NewWaitOn::Signal { name: "go".to_owned() }, Some(120)),
            Goes::Invokes(workflow) => {
                let (app, workflow) = ("default".to_owned(), workflow.to_owned());
                wait(NewWaitOn::Invoke { app, workflow, data: payload(&data(1)) }, Some(200))
            }
            Goes::Retries(delay_ms) => Then::Suspend(vec![again("again", delay_ms)]),
            Goes::Yields => Then::Yield,
            Goes::Asks { pool, key } => {
                stays = true;
                let pools = limits::asks(pool, key);
                asks.push(NewAsk { step: format!("ask {key}"), pools });
                Then::Continue
            }
            Goes::Parks { pool, key } => {
                let on = NewWaitOn::Pools(limits::asks(pool, key));
                Then::Suspend(vec![NewWait { step: format!("ask {key}"), on, until: None }])
            }
            Goes::Overloads(ms) => {
                overloads.push(NewOverload { step: "again".to_owned(), pool: None });
                Then::Suspend(vec![again("again", ms)])
            }
            Goes::Closes { gate, ms } => {
                let (gate, until) = (to_close(gate), Until::In(ms));
                closes.push(NewClose { gate, until, max_ms: 20 });
                Then::Suspend(vec![again("again", ms)])
            }
            Goes::Settles(actual) => {
                stays = true;
                let what = record::Sent::Settle { pool: "api".to_owned(), actual };
                sends.push(NewSend { step: "settle:api".to_owned(), what });
                Then::Continue
            }
            Goes::Leaves => {
                stays = true;
                over.extend(run.in_pools.last().cloned());
                over.push("ask 0".to_owned());
                Then::Continue
            }
        };
        if stays {
            self.leased.push(run.clone());
        }
        let engine = run.owner.unwrap_or_default();
        let report = Record::new(run.id.seq, engine, run.fence, then);
        let session = self.operations();
        let report = Record { steps, sends, asks, over, session, overloads, closes, ..report };
        Command::Record { known: Box::new(run), report }
    }

    /// Returns the session operations of a report: all kinds, on few paths; some of them do not fit
    /// the document and fail.
    fn operations(&self) -> Vec<NewSessionOp> {
        let n = self.moves;
        let path = ["", "a", "a.b", "list", "n"][usize::try_from(n / 5 % 5).expect("small")];
        let op = match n % 7 {
            0 => get(path),
            1 => set(path, json!({ "a": { "b": n }, "list": [n] })),
            2 => merge(path, json!({ "a": { "b": null, "c": n }, "n": 1 })),
            3 => append("list", json!(n)),
            4 => increment("n", 1),
            _ => return Vec::new(),
        };
        let expected_version = n.is_multiple_of(11).then_some(3);
        let session = session(["s", "t"][usize::try_from(n / 3 % 2).expect("small")]);
        let first = NewSessionOp { step: format!("state {n}"), session, op, expected_version };
        let read = NewSessionOp { step: format!("read {n}"), op: get(""), ..first.clone() };
        vec![first, read]
    }

    fn control(&mut self, run: u64, how: &str) -> Option<Command> {
        let ws = self.world.ws.clone();
        // Selects one of the newest runs, because most of the older ones have ended.
        let among = self.runs.len().min(12);
        let run = *self.runs.iter().rev().nth(pick(among, run)?)?;
        Some(match how {
            "cancel" => Command::Cancel { ws, run, reason: "by hand".to_owned() },
            "pause" => Command::Pause { ws, run },
            "resume" => Command::Resume { ws, run },
            _ => Command::Signal { ws, run, name: "go".to_owned(), data: payload(&json!(1)) },
        })
    }

    fn streams(&mut self, it: Streams) -> Option<StreamCommand> {
        let (ws, meta) = (self.world.ws.clone(), payload(&json!({})));
        Some(match it {
            Streams::Commit { stream, events, expected } => {
                let expected = expected.map(Expected::after);
                let event = |n| NewLogged {
                    name: "happened".to_owned(),
                    data: payload(&json!({ "n": n })),
                    meta: meta.clone(),
                };
                let (stream, events) = (stream.to_owned(), (0..events).map(event).collect());
                StreamCommand::Commit(Commit { ws, stream, events, expected })
            }
            Streams::Claim => {
                let (reaction, engine) = ("mail".to_owned(), self.world.engine);
                StreamCommand::Claim { reaction, engine, limit: 2 }
            }
            Streams::Ack { lease } => {
                let (lease, upto) = take(&mut self.leases, lease)?;
                StreamCommand::Ack(vec![Ack { lease, upto }])
            }
            Streams::Renew { lease } => {
                let (lease, _) = self.leases.get(pick(self.leases.len(), lease)?)?.clone();
                StreamCommand::Renew { reaction: "mail".to_owned(), leases: vec![lease] }
            }
            Streams::Fail { lease, retryable } => {
                let (lease, upto) = take(&mut self.leases, lease)?;
                let error = "it broke".to_owned();
                let failure =
                    Failure { done_upto: upto - 1, error, retryable, chance: 7, wait_ms: None };
                StreamCommand::Fail { lease, failure }
            }
            Streams::Hold { lease, block: true } => {
                let (lease, done_upto) = take(&mut self.leases, lease)?;
                StreamCommand::Block { lease, done_upto, reason: "by hand".to_owned() }
            }
            Streams::Hold { lease, block: false } => {
                let (lease, done_upto) = take(&mut self.leases, lease)?;
                StreamCommand::Defer { lease, done_upto, until: self.world.now().plus_ms(40) }
            }
            Streams::Repair { reset } => {
                let source = Source::parse("order-*").expect("a prefix");
                let follower = Follower { reaction: "mail".to_owned(), source, from_head: false };
                let remedy = if reset { Remedy::Reset } else { Remedy::Unblock };
                let which = if reset {
                    StreamSelection::All
                } else {
                    StreamSelection::Where(Filter::default())
                };
                let streams = vec!["order-1".to_owned(), "order-2".to_owned()];
                StreamCommand::Repair { repair: Repair { ws, follower, remedy, which }, streams }
            }
            Streams::End { stream, how } => {
                let stream = stream.to_owned();
                match how {
                    0 => StreamCommand::Close(Close { ws, stream, expected: None, meta }),
                    1 => StreamCommand::Truncate { stream, limit: 10 },
                    _ => {
                        StreamCommand::Restart(Restart { ws, stream, snapshot: meta.clone(), meta })
                    }
                }
            }
        })
    }
}

/// Returns the value that an event must have, if the wait is for one key.
fn matches(key: Option<u64>) -> Vec<(String, Vec<u8>)> {
    let value = |key| tidegate_core::run::wait::encoded(&payload(&data(key)), "a");
    key.and_then(value).map(|value| ("a".to_owned(), value)).into_iter().collect()
}

fn to_close(gate: Closed) -> GateToClose {
    match gate {
        Closed::Throttle => GateToClose::Throttle,
        Closed::Limit => GateToClose::Concurrency,
        Closed::Pool(pool) => GateToClose::Pool(pool.to_owned()),
    }
}

/// Epochs count transactions (ADR 22), so they differ with the number of commands in one.
fn without_epoch(answer: &Answered) -> Answered {
    let mut answer = answer.clone();
    if let Ok(Answer::Overridden(overridden)) = &mut answer {
        overridden.epoch = 0;
    }
    if let Ok(Answer::Purged(purged)) = &mut answer {
        purged.epoch = 0;
    }
    answer
}

fn sent(it: &Sent) -> tidegate_core::event::NewEvent {
    let dedupe_id = it.dedupe.map(|id| format!("once {id}"));
    let deliver = it.delay.map(Until::In);
    tidegate_core::event::NewEvent { dedupe_id, deliver, ..event(it.name, &data(it.key)) }
}

/// Returns data with few keys, of several types, or without a key.
fn data(key: u64) -> Value {
    match key {
        0 => json!({ "b": 1, "cost": 2 }),
        1 => json!({ "a": 1, "b": 2, "cost": 3 }),
        2 => json!({ "a": "1", "b": 1.0 }),
        3 => json!({ "a": true, "cost": 5 }),
        _ => json!({ "a": 1.0, "b": null }),
    }
}

fn pick(among: usize, number: u64) -> Option<usize> {
    let among = u64::try_from(among).ok().filter(|among| *among > 0)?;
    usize::try_from(number % among).ok()
}

fn take<T>(from: &mut Vec<T>, number: u64) -> Option<T> {
    let at = pick(from.len(), number)?;
    Some(from.remove(at))
}
