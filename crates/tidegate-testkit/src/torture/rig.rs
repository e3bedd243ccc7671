//! Rig: starts workers, kills them, and replaces them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    Contest, Dice, LEASE_MS, Orders, TTL,
    drives::{self, Story},
    journal,
    limits::{self, Entry, Holders, Limits},
    micros, pause, rows,
};

/// The signal that cannot be caught.
const SIGKILL: i32 = 9;

/// Number of concurrent worker processes.
const WORKERS: usize = 4;

/// Interval at which the rig checks its workers.
const LOOK: Duration = Duration::from_millis(20);

/// Interval at which the tables are sampled.
const SAMPLE: Duration = Duration::from_millis(50);

/// Time without progress after which the test fails. It is long, because the machine may be busy.
const STUCK: Duration = Duration::from_secs(40);

/// Detection of missing progress.
#[derive(Debug)]
struct Progress {
    count: i64,
    since: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { count: 0, since: Instant::now() }
    }

    /// Takes a count that changes with every progress; returns whether it has not changed for too
    /// long.
    fn is_stuck(&mut self, count: i64) -> bool {
        if self.count != count {
            *self = Self { count, since: Instant::now() };
        }
        self.since.elapsed() >= STUCK
    }
}

/// A worker process that is running, as far as the rig knows.
#[derive(Debug)]
struct Living {
    child: Child,
    orders: Orders,
    file: Option<File>,
    /// The journal that was read so far.
    text: String,
    /// Number of claims in the journal.
    claims: usize,
    /// The end of the worker's pause; `None` if it is not paused.
    still_until: Option<Instant>,
}

impl Living {
    /// Reads new lines of the journal.
    fn read(&mut self) {
        if self.file.is_none() {
            self.file = File::open(&self.orders.journal).ok();
        }
        if let Some(file) = &mut self.file {
            let known = self.text.len();
            file.read_to_string(&mut self.text).expect("a journal is text");
            self.claims += self.text[known..].matches(" start ").count();
        }
    }

    /// Sends a signal by name, because the standard library can only kill.
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        Command::new("kill").args([name, &pid]).status().expect("there is a `kill`");
    }

    /// Resumes the worker if its pause is over.
    fn wake(&mut self, now: Instant) {
        if self.still_until.is_some_and(|until| until <= now) {
            self.go_on();
        }
    }

    /// Resumes the worker.
    fn go_on(&mut self) {
        if self.still_until.take().is_some() {
            self.signal("-CONT");
        }
    }

    fn story(self, killed: Option<i64>) -> Story {
        Story { engine: self.orders.engine, notes: journal::read(&self.text), killed }
    }
}

/// Results of all samples of the tables.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of samples.
    pub count: usize,
    /// The maximum number of units in a gate.
    pub most: usize,
    /// The violations.
    pub wrong: Vec<String>,
    /// The gates that runs have come into between two samples.
    pub entries: Vec<Entry>,
    /// For each engine, the time of the last sample in which it owned a run.
    pub last_owned: BTreeMap<String, i64>,
}

/// The running workers, and the journals of the ended ones.
#[derive(Debug)]
pub struct Rig {
    url: String,
    schema: String,
    contest: Contest,
    directory: PathBuf,
    /// The name of the test function that runs a worker.
    entry: &'static str,
    dice: Dice,
    living: Vec<Living>,
    /// The journals of the ended processes.
    pub stories: Vec<Story>,
    /// Number of times that a worker was paused.
    pub halts: usize,
    /// Number of workers that killed themselves while they reaped runs.
    pub falls: usize,
    /// Number of runs that the ended processes claimed.
    claimed: usize,
    started: usize,
    draining: bool,
    seen: Arc<Mutex<Seen>>,
    sampling: JoinHandle<()>,
    /// The limits that were in force.
    pub limits: Limits,
}

impl Rig {
    /// Starts the workers. `entry` is the test function of this program that runs a worker.
    pub fn start(
        url: &str,
        schema: &str,
        contest: Contest,
        entry: &'static str,
        dice: Dice,
    ) -> Self {
        let directory = std::env::temp_dir().join(format!("tidegate-{schema}"));
        fs::create_dir_all(&directory).expect("the directory for temporary files is writable");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let sampling =
            tokio::spawn(look_on(url.to_owned(), schema.to_owned(), contest, seen.clone()));
        let mut rig = Self {
            url: url.to_owned(),
            schema: schema.to_owned(),
            contest,
            directory,
            entry,
            dice,
            living: Vec::new(),
            stories: Vec::new(),
            halts: 0,
            falls: 0,
            claimed: 0,
            started: 0,
            draining: false,
            seen,
            sampling,
            limits: Limits::new(contest),
        };
        for _ in 0..WORKERS {
            rig.start_worker(Vec::new());
        }
        rig
    }

    fn start_worker(&mut self, unanswered: Vec<(String, String)>) {
        self.started += 1;
        let (high, low) = (self.dice.roll(), self.dice.roll());
        let orders = Orders {
            url: self.url.clone(),
            schema: self.schema.clone(),
            engine: format!("{:032x}", u128::from(high) << 64 | u128::from(low)),
            journal: self.directory.join(self.started.to_string()).display().to_string(),
            contest: self.contest,
            seed: self.dice.roll(),
            unanswered,
        };
        let mut child = Command::new(std::env::current_exe().expect("the path of this program"))
            .args(["--exact", self.entry, "--ignored", "--nocapture"])
            .env(Orders::VARIABLE, serde_json::to_string(&orders).expect("plain data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program can start itself");
        if self.draining {
            tell_to_drain(&mut child);
        }
        let (text, file) = (String::new(), None);
        self.living.push(Living { child, orders, file, text, claims: 0, still_until: None });
    }

    /// Kills workers at random times until `claims` runs were claimed. Returns an error if no more
    /// runs are claimed.
    pub async fn kill_until(&mut self, claims: usize) -> Result<(), String> {
        let mut progress = Progress::new();
        let mut next = Instant::now() + TTL;
        while self.claims() < claims {
            if progress.is_stuck(i64::try_from(self.claims()).unwrap_or(i64::MAX)) {
                return Err(format!("no more runs are claimed after {}", self.claims()));
            }
            if Instant::now() >= next {
                self.strike();
                // One kill in five follows the last one at once.
                let wait = if self.dice.one_in(5) { 0 } else { 300 + self.dice.below(1400) };
                next = Instant::now() + Duration::from_millis(wait);
            }
            self.look();
            let Self { limits, url, schema, dice, .. } = self;
            limits.change(url, schema, dice).await;
            pause(LOOK).await;
        }
        Ok(())
    }

    /// Kills a random worker, or pauses it for about the length of a lease. A paused worker does
    /// not know that time has passed.
    fn strike(&mut self) {
        let count = u64::try_from(self.living.len()).expect("few");
        let at = usize::try_from(self.dice.below(count)).expect("few");
        if self.dice.one_in(5) {
            let still = TTL / 2 + self.dice.up_to_ms(2 * u64::from(LEASE_MS));
            self.living[at].signal("-STOP");
            self.living[at].still_until = Some(Instant::now() + still);
            self.halts += 1;
            return;
        }
        let mut victim = self.living.swap_remove(at);
        let before = micros();
        victim.child.kill().expect("it is a child of this process");
        victim.child.wait().expect("it is a child of this process");
        self.bury(victim, Some(before));
    }

    /// Stores the journal of an ended worker, and starts another one, which repeats most of the
    /// unanswered posts.
    fn bury(&mut self, mut gone: Living, killed: Option<i64>) {
        gone.read();
        self.claimed += gone.claims;
        let story = gone.story(killed);
        let posts = drives::posts(std::slice::from_ref(&story)).into_iter();
        let open = posts.filter(|(_, (_, answered))| !answered).map(|(id, (key, _))| (id, key));
        let repeated: Vec<_> = open.filter(|_| !self.dice.one_in(4)).collect();
        self.stories.push(story);
        self.start_worker(repeated);
    }

    /// Reads journals, and replaces workers that have stopped by themselves.
    fn look(&mut self) {
        for worker in &mut self.living {
            worker.wake(Instant::now());
            worker.read();
        }
        for at in (0..self.living.len()).rev() {
            let status = self.living[at].child.try_wait().expect("it is a child of this process");
            if let Some(status) = status {
                let fell = status.signal() == Some(SIGKILL);
                assert!(fell || status.success(), "a worker failed: {status}");
                self.falls += usize::from(fell);
                let gone = self.living.swap_remove(at);
                self.bury(gone, None);
            }
        }
    }

    /// Returns the number of claims so far.
    fn claims(&self) -> usize {
        self.claimed + self.living.iter().map(|worker| worker.claims).sum::<usize>()
    }

    /// Stops the faults, waits until all runs have ended, and stops all workers. Returns an error
    /// if some runs do not end.
    pub async fn drain(&mut self) -> Result<(), String> {
        self.draining = true;
        for worker in &mut self.living {
            tell_to_drain(&mut worker.child);
        }
        let client = rows::connect(&self.url).await;
        let mut progress = Progress::new();
        // The count must be 0 two times, because a worker may have been about to post.
        let (mut quiet, mut left) = (0, 0);
        while quiet < 2 && !progress.is_stuck(left) {
            left = rows::unended(&client, &self.schema).await.expect("the run table can be read");
            quiet = if left == 0 { quiet + 1 } else { 0 };
            self.look();
            pause(TTL / 4).await;
        }
        for mut worker in std::mem::take(&mut self.living) {
            drop(worker.child.stdin.take());
            // The other workers may end all runs before the end of this worker's pause, so it is
            // resumed here to see that the work is done.
            worker.go_on();
            let status = worker.child.wait().expect("it is a child of this process");
            assert!(status.success(), "a worker failed: {status}");
            worker.read();
            self.stories.push(worker.story(None));
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} runs did not end")) }
    }

    /// Stops sampling; returns the results.
    pub fn samples(&self) -> Seen {
        self.sampling.abort();
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Deletes the journals.
    pub fn clear(&self) {
        fs::remove_dir_all(&self.directory).expect("the rig created the directory");
    }

    /// Returns the directory of the journals.
    pub fn directory(&self) -> String {
        self.directory.display().to_string()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.sampling.abort();
        for worker in &mut self.living {
            // If a worker cannot be killed, there is nothing more to do: the test has failed
            // already.
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

fn tell_to_drain(child: &mut Child) {
    // The write fails if the worker has just stopped, which is fine.
    let _ = child.stdin.as_mut().map(|stdin| stdin.write_all(b"drain\n"));
}

/// Samples the tables from outside until it is aborted.
async fn look_on(url: String, schema: String, contest: Contest, seen: Arc<Mutex<Seen>>) {
    let mut client = rows::connect(&url).await;
    let mut last: Option<(i64, Holders)> = None;
    loop {
        let at = micros();
        // Until the first worker has created the tables, the sample fails.
        if let Ok(sample) = rows::sample(&mut client, &schema, contest).await {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.count += 1;
            seen.most = seen.most.max(sample.most);
            seen.wrong.extend(sample.wrong);
            if let Some((from, holders)) = &last {
                let now = (micros(), &sample.holders);
                let came = limits::entries((*from, holders), now, &mut seen.wrong);
                seen.entries.extend(came);
            }
            last = Some((at, sample.holders));
            seen.last_owned.extend(sample.owners.into_iter().map(|owner| (owner, at)));
        }
        pause(SAMPLE).await;
    }
}

/// Returns for each killed process how long after the kill it still owned runs, by the samples.
pub fn returns(stories: &[Story], seen: &Seen) -> Vec<Duration> {
    let killed = stories.iter().filter_map(|story| Some((story.killed?, &story.engine)));
    let last = killed.filter_map(|(at, engine)| Some(seen.last_owned.get(engine)? - at));
    last.filter_map(|micros| u64::try_from(micros).ok()).map(Duration::from_micros).collect()
}
