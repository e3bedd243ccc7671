//! Several processes on one PostgreSQL are killed at random and replaced. The test checks the
//! results from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, Workflow, new_event};
use tidegate_core::row::{Ending, GateState, Row};

use crate::{
    child::{Me, Role, pause},
    journal::{Line, wait_until},
    place::{Place, block_on},
    process::Scene,
};

const TTL: Duration = Duration::from_secs(1);

const PROCESSES: usize = 3;
const RUNS: usize = 200;
const KILLS: usize = 25;

/// Maximum number of concurrent runs per key, and number of keys.
const LIMIT: u32 = 3;
const KEYS: usize = 4;

const STEPS: [&str; 3] = ["a", "b", "c"];

/// Counter for numbering the activations of a process.
static ACTIVATIONS: AtomicUsize = AtomicUsize::new(0);

fn job(me: &'static Me) -> Workflow<Value, Value> {
    let job = Workflow::new("job", move |ctx: Ctx, input: Value| async move {
        let (run, n) = (ctx.run_id(), ACTIVATIONS.fetch_add(1, Ordering::SeqCst));
        me.note(&format!("begin {run} {n} {}", input["key"]));
        let mut made = Vec::new();
        for step in STEPS {
            let effect = || async {
                me.note(&format!("in {run} {n} {step}"));
                pause(Duration::from_millis(10)).await;
                let value = format!("{}-{n}", me.name());
                me.note(&format!("effect {run} {n} {step} {} {value}", ctx.idempotency_key(step)));
                Ok(value)
            };
            made.push(ctx.step(step, effect).await?);
        }
        ctx.send_event("tell", "told", json!({ "run": run.to_string() })).await?;
        Ok(json!(made))
    });
    job.concurrency(Concurrency::limit(LIMIT).key("key"))
}

/// Drives runs until the process is killed. The first process also sends the events.
pub(crate) async fn live(me: &'static Me) {
    let answer = Workflow::new("told", |_: Ctx, _: Value| async { Ok(()) });
    let builder = me.engine().await.workflow(job(me)).workflow(answer);
    let engine = builder.poll_interval(TTL / 4).start().await.unwrap();
    if me.name() == "p0" {
        let events = (0..RUNS).map(|n| new_event("job", json!({ "key": n % KEYS })).unwrap());
        engine.send_all(events.collect()).await.unwrap();
        me.note("posted");
    }
    pause(Duration::from_mins(10)).await;
}

/// Returns a random number below `below`, and advances the seed.
pub(crate) fn draw(seed: &mut u64, below: usize) -> usize {
    // SplitMix64.
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % below as u64).expect("below is a usize")
}

/// spec B68, B173, B178, B179, B180, B181: processes crash at random. Every run completes once,
/// every step is recorded once, no limit is exceeded, and no live run is left.
pub(crate) fn judge() {
    let Some(place) = Place::postgres() else { return };
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    eprintln!("TIDEGATE_TEST_SEED={seed} repeats who is killed when, by the work done so far");
    let scene = Scene::new();
    let start = |n: usize| scene.start(Role::Crowd, &format!("p{n}"), &place, TTL, None);
    let mut living: Vec<_> = (0..PROCESSES).map(start).collect();
    scene.journal.wait_for("p0", "posted", 1);
    let steps = |lines: &[Line]| lines.iter().filter(|line| line.after("in").is_some()).count();
    let mut next = 0;
    for kill in 0..KILLS {
        // The kills are spread over the work and not over time, so that the speed of the machine
        // does not matter.
        next += 1 + draw(&mut seed, 2 * RUNS * STEPS.len() / KILLS - 2);
        let due = next.min(RUNS * STEPS.len() - 1);
        wait_until(|| steps(&scene.journal.lines()) >= due, || scene.journal.told());
        let victim = draw(&mut seed, living.len());
        living.swap_remove(victim).kill();
        living.push(start(PROCESSES + kill));
    }
    let left = || block_on(place.rows()).iter().filter(|row| row.as_run().is_some()).count();
    wait_until(|| left() == 0, || format!("never ended:\n{}", scene.journal.told()));
    living.into_iter().for_each(crate::process::Process::kill);

    let lines = scene.journal.lines();
    let most = crowded(&lines);
    assert!(most.values().all(|most| *most <= LIMIT as usize), "{most:?}");
    assert!(
        most.values().any(|most| *most == LIMIT as usize),
        "the limit was never reached, so the test shows nothing: {most:?}"
    );
    let effects = judge_lines(&lines);
    judge_rows(&block_on(place.rows()), &effects);
    scene.clear();
}

/// Returns, for each key, the largest number of runs that were certainly executing at once.
///
/// An activation is certainly executing from its start to the last effect that it knows to be
/// recorded, because a step starts only when the previous step is durable. So a process that has
/// lost its lease is never counted wrongly.
fn crowded(lines: &[Line]) -> BTreeMap<String, usize> {
    let mut ends: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(words) = line.after("effect") {
            ends.entry((&line.by, words[1])).or_default().0 = at;
        } else if let Some(words) = line.after("in") {
            let known = ends.entry((&line.by, words[1])).or_default();
            known.1 = known.0;
        }
    }
    let mut inside: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    let mut most: BTreeMap<String, usize> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(words) = line.after("begin") {
            let me = (line.by.as_str(), words[1]);
            let inside = inside.entry(words[2]).or_default();
            inside.retain(|other| ends.get(other).is_some_and(|(_, end)| *end > at));
            inside.insert(me);
            let most = most.entry(words[2].to_owned()).or_default();
            *most = inside.len().max(*most);
        }
    }
    most
}

/// Effects by idempotency key, each with the values that processes produced, in order.
type Effects = BTreeMap<String, Vec<String>>;

/// spec B178–B181: a recorded step is never executed again, and each effect has the same
/// idempotency key in every process.
fn judge_lines(lines: &[Line]) -> Effects {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut effects = Effects::new();
    let mut begun = 0;
    for line in lines {
        if let Some(words) = line.after("in") {
            let (run, step) = (words[0], words[2]);
            begun += 1;
            let before = reached.insert(run, step).unwrap_or(step);
            // When a step starts, all steps before it are recorded.
            assert!(
                before <= step,
                "run {run} executed `{step}` again after `{before}` had started"
            );
        } else if let Some(words) = line.after("effect") {
            assert_eq!(words[3], format!("{}:{}", words[0], words[2]));
            effects.entry(words[3].to_owned()).or_default().push(words[4].to_owned());
        }
    }
    assert_eq!(
        effects.len(),
        RUNS * STEPS.len(),
        "each step of each run must have one idempotency key"
    );
    let done: usize = effects.values().map(Vec::len).sum();
    eprintln!("{} effects, begun {begun} times and done {done} times", effects.len());
    assert!(begun > effects.len(), "no kill interrupted a step");
    effects
}

/// Checks that every run has completed, every step is recorded once, every event is sent once, and
/// all gates are empty.
fn judge_rows(rows: &[Row], effects: &Effects) {
    let (mut jobs, mut tolds, mut steps) = (BTreeMap::new(), 0, BTreeMap::new());
    for row in rows {
        match row {
            Row::Ended(ended) => {
                let Ending::Completed { output } = &ended.ending else { panic!("{ended:?}") };
                if ended.workflow == "job" {
                    assert!(jobs.insert(ended.id, output.clone()).is_none());
                } else {
                    tolds += 1;
                }
            }
            Row::Step(step) => {
                let value = step.result.clone().unwrap();
                assert!(steps.insert((step.run, step.id.clone()), value).is_none());
            }
            Row::Gate(gate) => {
                let GateState::Slots(slots) = &gate.state else { continue };
                assert!(slots.holders.is_empty(), "the gate still has holders: {gate:?}");
            }
            Row::Run(run) => panic!("this run has not ended: {run:?}"),
            _ => {}
        }
    }
    assert_eq!((jobs.len(), tolds), (RUNS, RUNS), "every run must complete and send one event");
    assert_eq!(steps.len(), RUNS * (STEPS.len() + 1));
    for (run, output) in jobs {
        let output: Vec<String> = serde_json::from_str(output.as_str()).unwrap();
        for (step, value) in STEPS.iter().zip(output) {
            let recorded = &steps[&(run.seq, (*step).to_owned())];
            assert_eq!(
                recorded.as_str(),
                json!(value).to_string(),
                "run {run} returned another value than it recorded"
            );
            assert!(
                effects[&format!("{run}:{step}")].contains(&value),
                "no process produced the recorded value {value}"
            );
        }
    }
}
