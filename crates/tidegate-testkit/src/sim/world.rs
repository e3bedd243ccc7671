//! State that all actors share: the store, the time, the faults, and the judge.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use tidegate_core::{
    command::Command,
    flow::step_pool::PoolAsk,
    id::Seq,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Phase, Workspace},
    time::Timestamp,
};
use tidegate_store::{Answered, ManualClock, SeededCommand, Store, StoreError, commit_once};

use super::{
    check::{Judge, Violation},
    faults::{Fate, SimStore, Trouble},
    trace::{Effect, Trace},
    workload::Plan,
};
use crate::workload::Chance;

/// Start time of a simulation.
const EPOCH_MS: i64 = 1_800_000_000_000;

/// State that all actors share.
#[derive(Debug)]
pub struct World {
    /// The plan of the seed.
    pub plan: Arc<Plan>,
    /// Microseconds since the start, as all processes measure them. Only the store's clock may
    /// step.
    pub now: u64,
    /// The trace.
    pub trace: Trace,
    /// The invariant checker.
    pub judge: Judge,
    /// Random numbers for faults.
    pub faults: Chance,
    /// Whether faults are off.
    pub calm: bool,
    /// Whether a commit made a run ready since the last check.
    pub woken: bool,
    /// Number of commits.
    pub commits: u64,
    clock: Arc<ManualClock>,
    offset: i64,
    store: Arc<SimStore>,
    salts: u64,
}

impl World {
    /// Creates a world on an empty store that uses this clock.
    pub fn new(plan: Plan, faults: Chance, store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let plan = Arc::new(plan);
        let mut world = Self {
            judge: Judge::new(plan.clone()),
            plan,
            now: 0,
            trace: Trace::default(),
            faults,
            calm: true,
            woken: false,
            commits: 0,
            clock,
            offset: EPOCH_MS * 1000,
            store: Arc::new(SimStore::new(store)),
            salts: 0,
        };
        world.set_time(0);
        world
    }

    /// Advances the time.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
        self.clock.set(self.store_time());
    }

    /// Returns the store's time.
    pub fn store_time(&self) -> Timestamp {
        Timestamp::from_micros(self.offset + i64::try_from(self.now).unwrap_or(i64::MAX))
    }

    /// Moves the store's clock forward or back.
    pub fn step_clock(&mut self, micros: i64) {
        self.offset += micros;
        self.clock.set(self.store_time());
        self.judge.clock_stepped();
        self.trace.note(self.now, || format!("the store's clock steps by {micros} µs"), micros);
    }

    /// Returns a random number for the ids that a command makes; a repeated command keeps its
    /// number.
    pub fn salt(&mut self) -> u64 {
        self.salts += 1;
        self.salts
    }

    /// Whether a fault of this frequency happens now.
    pub fn strikes(&mut self, permille: u64) -> bool {
        !self.calm && self.faults.permille(permille)
    }

    /// Commits commands in one transaction, unless a fault happens.
    pub fn submit(
        &mut self,
        who: &str,
        commands: &[SeededCommand],
    ) -> Result<Vec<Answered>, Trouble> {
        let fate =
            if self.calm { Fate::Told } else { Fate::draw(&self.plan.mix, &mut self.faults) };
        let what = || format!("{who} {fate:?} {:?}", names(commands));
        self.trace.note(self.now, what, (fate as u8, commands.len()));
        if fate == Fate::Unavailable {
            return Err(Trouble::Unavailable);
        }
        self.store.discard(!fate.is_kept());
        let Ok(answers) = self.commit(commands) else { return Err(Trouble::Unavailable) };
        match fate {
            Fate::Told => Ok(answers),
            Fate::LostBefore | Fate::LostAfter => Err(Trouble::Unknown),
            Fate::Unavailable => Err(Trouble::Unavailable),
            Fate::CrashBefore | Fate::CrashAfter => Err(Trouble::Crash),
        }
    }

    /// Commits commands in as few transactions as possible. The judge sees each transaction with
    /// the commands that it has decided.
    fn commit(&mut self, commands: &[SeededCommand]) -> Result<Vec<Answered>, StoreError> {
        let mut answers: Vec<Option<Answered>> = vec![None; commands.len()];
        while answers.contains(&None) {
            let open: Vec<usize> = (0..commands.len()).filter(|n| answers[*n].is_none()).collect();
            let batch: Vec<SeededCommand> = open.iter().map(|n| commands[*n].clone()).collect();
            let committed = block_on(commit_once(&*self.store, batch.as_slice().into()));
            let (decided, _) = committed.inspect_err(|error| {
                self.judge.report("I42", format!("{:?} met {error}", names(commands)));
            })?;
            let all = batch.into_iter().zip(&decided);
            let answered = all.filter_map(|(command, answer)| Some((command, answer.clone()?)));
            let (asked, told): (Vec<_>, Vec<_>) = answered.unzip();
            self.see(&asked, &told);
            for (n, answer) in open.into_iter().zip(decided) {
                answers[n] = answer;
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Passes the changes of commits to the judge.
    fn see(&mut self, commands: &[SeededCommand], answers: &[Answered]) {
        for (at, changes) in self.store.take() {
            self.commits += 1;
            self.woken |= changes.iter().any(makes_work);
            self.trace.commit(&changes);
            if self.trace.all {
                let answers: Vec<_> = answers.iter().map(|answer| format!("{answer:?}")).collect();
                self.trace.note(self.now, || format!("  -> {answers:?}"), ());
            } else {
                self.trace.note(self.now, String::new, ());
            }
            self.judge.commit(self.now, at, commands, answers, changes);
        }
    }

    /// Reads without locks.
    pub fn read(&mut self, reads: ReadSet) -> Option<Snapshot> {
        if self.strikes(self.plan.mix.unavailable) {
            return None;
        }
        block_on(self.store.read(reads)).ok()
    }

    /// Sends a heartbeat; returns `None` if the request or its answer was lost.
    pub fn heartbeat(&mut self, engine: EngineId, lease_ms: u32) -> Option<bool> {
        let lost = self.strikes(self.plan.mix.lost_beat);
        if lost && self.faults.percent(50) {
            return None;
        }
        let alive = block_on(self.store.heartbeat(engine, lease_ms))
            .expect("a heartbeat is never refused with an error");
        self.judge.heartbeat(self.now, (engine, lease_ms), alive);
        (!lost).then_some(alive)
    }

    /// Records the start of a step's closure, and the pools that the step passes.
    pub fn start(&mut self, effect: &Effect, pools: &[PoolAsk]) {
        self.trace.note(self.now, || format!("starts {effect:?}"), effect);
        self.judge.start(effect, pools);
    }

    /// Records the end of a step closure, or of its process.
    pub fn end(&mut self, effect: &Effect) {
        self.trace.note(self.now, || format!("ends {effect:?}"), effect);
        self.judge.end(effect);
    }

    /// Returns the lanes of the registered versions that `serves` accepts.
    pub fn lanes(&self, ws: &Workspace, serves: impl Fn(u32) -> bool) -> Vec<Seq> {
        let defs = self.judge.state.defs();
        let versions = defs.filter(|def| def.app != "$pools" && def.ws == *ws);
        versions.filter(|def| serves(def.version)).map(|def| def.lane).collect()
    }

    /// Returns the violation, if there is one.
    pub fn violation(&self) -> Option<&Violation> {
        self.judge.violation.as_ref()
    }

    /// Checks that the store has exactly the committed rows.
    pub fn compare(&mut self) {
        let rows = block_on(self.store.dump()).expect("the store can be read");
        let same = rows.iter().eq(self.judge.state.rows());
        if !same {
            let differs = rows.iter().zip(self.judge.state.rows()).find(|(a, b)| a != b);
            self.judge.report(
                "I42",
                format!("rows of the store differ from the committed changes: {differs:?}"),
            );
        }
    }
}

/// Whether a change makes a run ready.
fn makes_work(change: &Change) -> bool {
    let (Change::Insert(row) | Change::Update(row)) = change else { return false };
    row.as_run().is_some_and(|run| run.phase == Phase::Ready)
}

/// Returns short descriptions of commands, for the trace.
fn names(commands: &[SeededCommand]) -> Vec<String> {
    commands
        .iter()
        .map(|(command, _)| match command {
            Command::Record { report, .. } => {
                format!("Record({} fence {} {:?})", report.run, report.fence, report.then)
            }
            Command::Stopped { known } => format!("Stopped({})", known.id.seq),
            Command::Reap { known, engine, .. } => format!("Reap({} of {engine})", known.id.seq),
            other => {
                let mut text = format!("{other:?}");
                text.truncate(text.char_indices().nth(300).map_or(text.len(), |(at, _)| at));
                text
            }
        })
        .collect()
}

/// Waits for a future on this thread. The memory store is ready at once, and SQLite answers from
/// its own thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
        return output;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
