//! Worker process: admits, leases, drives, reports, cancels, sweeps and reaps, until it is killed.
//!
//! All pending commands go into one batch, as a committer would send them. The worker stops at the
//! first error of the store that the store could not recover from; the next worker finds all state
//! in the rows.

use std::{
    collections::BTreeSet,
    io::BufRead,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    definition::Definition,
    event::NewEvent,
    flow::step_pool::{PoolAnswer, PoolAsk},
    id::{RunId, Seq},
    key::{Key, Scalar},
    pool::{Pool, PoolCommand},
    reads::{ReadSet, Scan},
    row::{EngineId, Row, Run},
    run::record::{NewAsk, NewWait, NewWaitOn, Record, Recorded, Then},
    time::Timestamp,
    turn::{Claim, Turn},
};
use tidegate_store::{Answered, PostgresStore, Store, StoreError, commit};
use tokio_postgres::Client;

use super::{
    Contest, Dice, KEYS, NO_KEY, Orders, STEPS, TTL, WORKSPACE,
    journal::{Journal, Note},
    lease::{Lease, Watch},
    micros, pause, place_of, rows,
    script::{Act, Script},
    step_of,
};
use crate::world::payload;

/// Maximum number of runs that a worker drives at once. All workers together need more slots than
/// there are.
const HANDS: usize = 9;

/// Number of live runs that the workers maintain, enough to fill every queue.
const BACKLOG: i64 = 150;

/// Maximum number of events that a worker posts at once.
const POSTS: i64 = 12;

/// Interval of the sweep.
const SWEEP: Duration = Duration::from_millis(20);

/// Maximum number of due rows in one sweep.
const DUE: u32 = 50;

/// Pause of a worker without work.
const REST: Duration = Duration::from_millis(10);

/// A run that is being driven.
#[derive(Debug)]
struct Flight {
    run: Run,
    /// The ids of the recorded steps.
    done: BTreeSet<String>,
    act: Act,
    /// The place of the step in the pool.
    place: Place,
    /// The time at which the step has been executed.
    over: Instant,
}

/// The place of a step that passes the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The step passes no pool.
    None,
    /// The next report asks for the place.
    Asks,
    /// There was no room: the next report parks the run.
    Parks,
    /// The step is executed.
    Held,
}

/// The origin of a command, which decides what happens with its answer.
enum Asked {
    Report(Box<Flight>),
    Post(String),
    Cancel(RunId),
    Lease,
    /// The answer is ignored.
    Other,
}

/// Instructions of the parent process, read from standard input.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The worker has to stop posting and cancelling.
    drain: Arc<AtomicBool>,
    /// The worker has to end, because all work is done or the parent has ended.
    over: Arc<AtomicBool>,
}

impl Told {
    fn listen() -> Self {
        let told = Self::default();
        let heard = told.clone();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_ok_and(|line| line == "drain") {
                    heard.drain.store(true, Ordering::SeqCst);
                }
            }
            heard.over.store(true, Ordering::SeqCst);
        });
        told
    }
}

/// The state of a worker process.
#[derive(Debug)]
pub struct Worker {
    store: Arc<dyn Store>,
    schema: String,
    engine: EngineId,
    /// The lanes of the workflows.
    lanes: Vec<Seq>,
    contest: Contest,
    journal: Arc<Journal>,
    lease: Lease,
    watch: Watch,
    told: Told,
    dice: Dice,
    flights: Vec<Flight>,
    /// Runs that were cancelled or taken away, so that the worker has stopped driving them; it
    /// still has to report that.
    stopped: Vec<Run>,
    /// Events to be posted: id and key.
    posts: Vec<(String, String)>,
    /// Runs that the worker may cancel.
    victims: Vec<RunId>,
    /// A separate connection to the tables, which does not use the store.
    outside: Client,
    /// Number of events that may still be posted.
    room: i64,
    numbered: u64,
    next_sweep: Instant,
    next_look: Instant,
}

/// Works until the parent stops it. If the worker stops by itself, it writes the reason into the
/// journal.
pub async fn work(orders: Orders) {
    let path = Path::new(&orders.journal);
    let journal = Arc::new(Journal::open(path).expect("the rig created the directory"));
    let worked = match Worker::start(&orders, journal.clone()).await {
        Ok(mut worker) => worker.until_over().await,
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = worked {
        journal.note(&Note::Stop { reason });
    }
}

impl Worker {
    async fn start(orders: &Orders, journal: Arc<Journal>) -> Result<Self, StoreError> {
        let store = PostgresStore::open(&orders.url, orders.options()).await?;
        let store: Arc<dyn Store> = Arc::new(store);
        let engine = orders.engine_id();
        let lease = Lease::take(store.clone(), engine, journal.clone()).await?;
        let mut worker = Self {
            lanes: Vec::new(),
            contest: orders.contest,
            schema: orders.schema.clone(),
            engine,
            journal,
            lease,
            watch: Watch::default(),
            told: Told::listen(),
            dice: Dice::new(orders.seed),
            flights: Vec::new(),
            stopped: Vec::new(),
            posts: orders.unanswered.clone(),
            victims: Vec::new(),
            outside: rows::connect(&orders.url).await,
            room: POSTS,
            numbered: 0,
            next_sweep: Instant::now(),
            next_look: Instant::now(),
            store,
        };
        worker.lanes = worker.register().await?;
        Ok(worker)
    }

    /// Declares the pool and registers the definitions. All workers register the same ones, and the
    /// first one creates them.
    async fn register(&mut self) -> Result<Vec<Seq>, StoreError> {
        let declare = self.contest.pool().map(|pool| {
            let pool = Pool::parse(&pool).expect("a good pool").value;
            let command = PoolCommand::Declare(Box::new(pool));
            Command::Pool { ws: WORKSPACE.into(), command }
        });
        let register = self.contest.workflows().into_iter().map(|definition| {
            let workflow = Definition::parse(&definition).expect("a good definition").value;
            let (ws, workflow) = (WORKSPACE.into(), Box::new(workflow));
            Command::Register { ws, workflow, dev: false }
        });
        let answers = self.ask(declare.into_iter().chain(register).collect()).await?;
        let lane = |answer: Answered| match answer {
            Ok(Answer::Registered(registered)) => Some(registered.lane),
            Ok(Answer::Changed(_)) => None,
            other => panic!("unexpected answer to a registration: {other:?}"),
        };
        Ok(answers.into_iter().filter_map(lane).collect())
    }

    async fn ask(&mut self, commands: Vec<Command>) -> Result<Vec<Answered>, StoreError> {
        let commands = commands.into_iter().map(|command| (command, self.dice.roll())).collect();
        commit(&*self.store, commands).await
    }

    async fn until_over(&mut self) -> Result<(), String> {
        while !self.told.over.load(Ordering::SeqCst) {
            if !self.lease.is_good() {
                return Err("it could not renew its lease".to_owned());
            }
            self.turn().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        self.call_off().await?;
        // All running steps are awaited and reported together, because a transaction costs more
        // than a report.
        if let Some(over) = self.flights.iter().map(|flight| flight.over).max() {
            pause(over.saturating_duration_since(Instant::now())).await;
        }
        if Instant::now() >= self.next_look {
            self.next_look = Instant::now() + TTL / 4;
            self.reap().await?;
        }
        let (mut commands, mut asked) = (Vec::new(), Vec::new());
        let mut ask = |command, what| {
            commands.push(command);
            asked.push(what);
        };
        for flight in self.over_by_now() {
            ask(self.report(&flight), Asked::Report(Box::new(flight)));
        }
        for run in std::mem::take(&mut self.stopped) {
            ask(Command::Stopped { known: Box::new(run) }, Asked::Other);
        }
        for (post, id) in self.draw_posts() {
            ask(post, Asked::Post(id));
        }
        for (cancel, run) in self.draw_cancels() {
            ask(cancel, Asked::Cancel(run));
        }
        for command in self.due().await? {
            ask(command, Asked::Other);
        }
        // Runs that reported a step stay with the worker, so it may have a few more than [`HANDS`]
        // for a short time.
        let hands = HANDS.saturating_sub(self.flights.len());
        if hands > 0 {
            let engine = self.engine;
            let limit = u32::try_from(hands).unwrap_or(u32::MAX);
            let turns = self.lanes.iter().map(|lane| Turn { workflow: *lane, lane: *lane });
            let claim = Claim::only(WORKSPACE.into(), turns);
            let serves = Arc::new(self.lanes.iter().copied().collect());
            let claims = vec![(claim, limit)];
            ask(Command::Lease { engine, claims, serves, limit }, Asked::Lease);
        }
        let idle = commands.len() <= 1;
        let answers = self.ask(commands).await?;
        let mut leased = Vec::new();
        for (what, answer) in asked.into_iter().zip(answers) {
            match what {
                Asked::Report(flight) => self.reported(*flight, answer),
                Asked::Post(id) => self.posted(id, answer),
                Asked::Lease => leased = self.leased(answer),
                Asked::Cancel(run) if answer == Ok(Answer::Done) => {
                    self.note_ended(run, "cancelled");
                }
                Asked::Cancel(_) | Asked::Other => {}
            }
        }
        if idle && leased.is_empty() && self.flights.is_empty() {
            pause(REST).await;
        }
        self.drive(leased).await
    }

    // ------------------------------------------------------------------ driving

    fn leased(&self, answer: Answered) -> Vec<Run> {
        let runs = match answer {
            Ok(Answer::Leased(runs)) => runs,
            // The worker was paused for too long and marked dead; it notices that before it
            // continues.
            Err(Refusal::EngineDead(_) | Refusal::NoEngine(_)) => Vec::new(),
            other => panic!("unexpected answer to a lease: {other:?}"),
        };
        for run in &runs {
            let fence = run.fence;
            let need = run.plan.first().filter(|_| run.workflow != STEPS);
            let gate = need.and_then(|need| need.gate.scope());
            let key = gate.map_or_else(|| NO_KEY.to_owned(), |scope| scope.key.to_string());
            let units = need.map_or(0, |need| need.costs.one() as usize);
            self.journal.note(&Note::Start { run: run.id.to_string(), key, units, fence });
            for step in &run.in_pools {
                self.note_place(run, step);
            }
        }
        runs
    }

    /// Reads the recorded steps of leased runs, and starts to drive them.
    async fn drive(&mut self, runs: Vec<Run>) -> Result<(), StoreError> {
        let again = runs.iter().filter(|run| run.fence > 1);
        let steps =
            again.fold(ReadSet::default(), |reads, run| reads.scan(Scan::Steps(run.id.seq), 10));
        let snapshot = if steps.is_empty() { None } else { Some(self.store.read(steps).await?) };
        for run in runs {
            let found = snapshot.iter().flat_map(|it| it.found(&Scan::Steps(run.id.seq)));
            let id = |row: &Row| if let Row::Step(it) = row { Some(it.id.clone()) } else { None };
            let done = found.filter_map(id).collect();
            self.take_off(run, done);
        }
        Ok(())
    }

    fn take_off(&mut self, run: Run, done: BTreeSet<String>) {
        let act = Script::of(run.id).next(&run, &done, Timestamp::from_micros(micros()));
        let place = match act.step {
            Some(step) if run.workflow == STEPS => {
                let held = run.in_pools.iter().any(|inside| inside == step);
                if held { Place::Held } else { Place::Asks }
            }
            _ => Place::None,
        };
        self.execute(Flight { run, done, act, place, over: Instant::now() });
    }

    /// Executes the step of a flight, unless it has to ask for its place first.
    fn execute(&mut self, mut flight: Flight) {
        if matches!(flight.place, Place::None | Place::Held) {
            if let Some(id) = flight.act.step {
                let (run, id, fence) = (flight.run.id.to_string(), id.to_owned(), flight.run.fence);
                self.journal.note(&Note::Step { run, id, fence });
            }
            flight.over = Instant::now() + Script::effort(&mut self.dice);
        }
        self.flights.push(flight);
    }

    /// Notes that a step has its place: the commit that has given it is durable.
    fn note_place(&self, run: &Run, step: &str) {
        let (key, units) = step_of(run.id);
        let (units, fence) = (units as usize, run.fence);
        self.journal.note(&Note::Start { run: place_of(run.id, step), key, units, fence });
    }

    fn over_by_now(&mut self) -> Vec<Flight> {
        let now = Instant::now();
        let (over, going) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition::<Vec<_>, _>(|flight| flight.over <= now);
        self.flights = going;
        over
    }

    /// Builds a report. The end of the drive is written to the journal before the report is sent.
    fn report(&self, flight: &Flight) -> Command {
        let Flight { run, act, .. } = flight;
        let step = act.step.unwrap_or_default().to_owned();
        let then = match flight.place {
            Place::Held => {
                let (run, fence) = (place_of(run.id, &step), run.fence);
                self.journal.note(&Note::End { run, fence });
                act.then.clone()
            }
            Place::None => act.then.clone(),
            Place::Asks => Then::Continue,
            Place::Parks => {
                let on = NewWaitOn::Pools(vec![ask(run.id)]);
                Then::Suspend(vec![NewWait { step: step.clone(), on, until: None }])
            }
        };
        if then != Then::Continue {
            self.note_end(run);
        }
        let mut report = Record::new(run.id.seq, self.engine, run.fence, then);
        match flight.place {
            Place::None | Place::Held => report.steps = act.steps(),
            Place::Asks => report.asks.push(NewAsk { step, pools: vec![ask(run.id)] }),
            Place::Parks => {}
        }
        Command::Record { known: Box::new(run.clone()), report }
    }

    fn note_end(&self, run: &Run) {
        self.journal.note(&Note::End { run: run.id.to_string(), fence: run.fence });
    }

    fn note_ended(&self, run: RunId, state: &str) {
        self.journal.note(&Note::Ended { run: run.to_string(), state: state.to_owned() });
    }

    fn reported(&mut self, flight: Flight, answer: Answered) {
        let Flight { mut run, mut done, act, place, over } = flight;
        match answer {
            Ok(Answer::Recorded(Recorded::GoOn)) if place != Place::Parks => {
                done.extend(act.step.map(str::to_owned));
                run.failures.clear();
                run.in_pools.clear();
                self.take_off(run, done);
            }
            Ok(Answer::Recorded(Recorded::Asked(answers))) => {
                let place = match answers.first() {
                    Some((step, PoolAnswer::Entered)) => {
                        self.note_place(&run, step);
                        Place::Held
                    }
                    Some((_, PoolAnswer::Waits)) => Place::Parks,
                    other => panic!("unexpected answer to a step that asks: {other:?}"),
                };
                self.execute(Flight { run, done, act, place, over });
            }
            Ok(Answer::Recorded(Recorded::LetGo)) if place == Place::Parks => {}
            Ok(Answer::Recorded(Recorded::LetGo)) => match act.then {
                Then::Complete(_) => self.note_ended(run.id, "completed"),
                Then::Fail(_) => self.note_ended(run.id, "failed"),
                Then::Continue | Then::Stay | Then::Suspend(_) | Then::Yield => {}
            },
            Err(Refusal::Fenced { .. }) => {
                let goes_on = place == Place::None || place == Place::Held;
                if place == Place::Asks || (goes_on && act.then == Then::Continue) {
                    self.note_end(&run);
                }
                self.stopped.push(run);
            }
            other => panic!("unexpected answer to a report: {other:?}"),
        }
    }

    // ------------------------------------------------------------------ posting, cancelling

    fn draining(&self) -> bool {
        self.told.drain.load(Ordering::SeqCst)
    }

    fn draw_posts(&mut self) -> Vec<(Command, String)> {
        let wanted =
            if self.draining() { 0 } else { std::mem::take(&mut self.room).clamp(0, POSTS) };
        for _ in 0..wanted {
            self.numbered += 1;
            let id = format!("{:032x}-{}", self.engine, self.numbered);
            self.posts.push((id, format!("k{}", self.dice.below(KEYS))));
        }
        let posts = std::mem::take(&mut self.posts).into_iter().map(|(id, key)| {
            self.journal.note(&Note::Post { id: id.clone(), key: key.clone() });
            let (name, units) = self.contest.run_of(&id);
            let event = NewEvent {
                name: name.to_owned(),
                data: payload(&json!({ "k": key, "n": id, "c": units })),
                dedupe_id: Some(id.clone()),
                ts: None,
                deliver: None,
                attributes: None,
            };
            (Command::Post { ws: WORKSPACE.into(), events: vec![event] }, id)
        });
        posts.collect()
    }

    fn posted(&mut self, id: String, answer: Answered) {
        let posted = match answer {
            Ok(Answer::Posted(mut posted)) => posted.pop().expect("one event has one answer"),
            other => panic!("unexpected answer to a post: {other:?}"),
        };
        self.journal.note(&Note::Posted { id });
        if self.dice.one_in(16) {
            self.victims.extend(posted.runs.iter().filter_map(|outcome| outcome.verdict.run()));
        }
    }

    fn draw_cancels(&mut self) -> Vec<(Command, RunId)> {
        let calm = self.draining() || !self.dice.one_in(4);
        let run = if calm { None } else { self.victims.pop() };
        run.map(|run| (cancel(run), run)).into_iter().collect()
    }

    /// Sometimes cancels a run that this worker drives, so that its next report is refused.
    async fn call_off(&mut self) -> Result<(), StoreError> {
        let calm = self.draining() || !self.dice.one_in(12);
        let Some(run) = self.flights.first().map(|flight| flight.run.id).filter(|_| !calm) else {
            return Ok(());
        };
        if self.ask(vec![cancel(run)]).await? == [Ok(Answer::Done)] {
            self.note_ended(run, "cancelled");
        }
        Ok(())
    }

    // ------------------------------------------------------------------ sweeping

    /// Reaps runs of dead engines, a few at a time.
    ///
    /// Sometimes the worker kills itself after it marked engines dead and before it reaped all
    /// their runs; other workers have to reap the others.
    async fn reap(&mut self) -> Result<(), StoreError> {
        let found = self.watch.look(&*self.store, self.engine).await?;
        let marked = !found.stopped.is_empty();
        self.ask(found.stopped.clone()).await?;
        if marked && !self.draining() && self.dice.one_in(5) {
            fall();
        }
        let reaps = found.reap(&*self.store).await?;
        if !reaps.is_empty() {
            self.next_look = Instant::now();
        }
        self.ask(reaps).await?;
        Ok(())
    }

    async fn due(&mut self) -> Result<Vec<Command>, StoreError> {
        if Instant::now() < self.next_sweep {
            return Ok(Vec::new());
        }
        self.next_sweep = Instant::now() + SWEEP;
        let due = ReadSet::default()
            .scan(Scan::DueGates(Timestamp::MIN), DUE)
            .scan(Scan::DueRuns(Timestamp::MIN), DUE);
        let due = due.scan(Scan::DueChores(Timestamp::MIN), DUE);
        let snapshot = self.store.read(due).await?;
        let unended = rows::unended(&self.outside, &self.schema).await.unwrap_or(BACKLOG);
        self.room = BACKLOG - unended;
        let is_due = |due: Option<Timestamp>| due.is_some_and(|due| due <= snapshot.now);
        let gates =
            snapshot.found(&Scan::DueGates(Timestamp::MIN)).into_iter().filter_map(Row::as_gate);
        let gates = gates.filter(|gate| is_due(gate.due));
        let gates =
            gates.map(|gate| Command::SweepGate { ws: WORKSPACE.into(), gate: gate.key.clone() });
        let runs =
            snapshot.found(&Scan::DueRuns(Timestamp::MIN)).into_iter().filter_map(Row::as_run);
        let runs = runs.filter(|run| is_due(run.due()));
        let runs = runs.map(|run| Command::SweepRun { ws: run.ws.clone(), run: run.id.seq });
        let chores =
            snapshot.found(&Scan::DueChores(Timestamp::MIN)).into_iter().filter_map(|row| {
                let Row::Chore(chore) = row else { return None };
                is_due(chore.due).then(|| Command::SweepChore { known: Box::new(chore.clone()) })
            });
        Ok(gates.chain(runs).chain(chores).collect())
    }
}

/// Returns the place that the steps of a run ask for.
fn ask(run: RunId) -> PoolAsk {
    let (key, cost) = step_of(run);
    let key = Some(Key::Value(Scalar::text(key)));
    PoolAsk { pool: "shared".to_owned(), key, cost, fair_by: None }
}

fn cancel(run: RunId) -> Command {
    Command::Cancel { ws: WORKSPACE.into(), run, reason: "by hand".to_owned() }
}

/// Kills this process by the same signal as the rig does.
fn fall() {
    let me = std::process::id().to_string();
    std::process::Command::new("kill").args(["-KILL", &me]).status().expect("there is a `kill`");
}
