//! A crowd: several processes on one PostgreSQL, killed at random and replaced, and a judge who
//! was not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Workflow,
    core::row::{Ending, GateState, Row},
    new_event,
};

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

/// How many runs of a key are inside at once, and how many keys there are.
const LIMIT: u32 = 3;
const KEYS: usize = 4;

const STEPS: [&str; 3] = ["a", "b", "c"];

/// Tells two activations of a process apart.
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

/// Works until it is killed; the first one also brings the work.
pub(crate) async fn live(me: &'static Me) {
    let told = Workflow::new("told", |_: Ctx, _: Value| async { Ok(()) });
    let builder = me.engine().await.workflow(job(me)).workflow(told);
    let engine = builder.poll_interval(TTL / 4).start().await.unwrap();
    if me.name() == "p0" {
        let events = (0..RUNS).map(|n| new_event("job", json!({ "key": n % KEYS })).unwrap());
        engine.send_all(events.collect()).await.unwrap();
        me.note("posted");
    }
    pause(Duration::from_mins(10)).await;
}

/// A random number below another, from a seed that changes with every draw.
pub(crate) fn draw(seed: &mut u64, below: usize) -> usize {
    // SplitMix64.
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % below as u64).expect("below is a usize")
}

/// spec B68, B173, B178, B179, B180, B181: under any placement of crashes every run completes once,
/// every step is recorded once, no limit is exceeded and nothing is left behind.
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
        // Spread over the work, so that how fast the machine is does not matter.
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
    assert!(most.values().any(|most| *most == LIMIT as usize), "nothing was tried: {most:?}");
    let effects = judge_lines(&lines);
    judge_rows(&block_on(place.rows()), &effects);
    scene.clear();
}

/// The most runs of each key that were surely inside at once.
///
/// An activation is surely inside from its beginning to the last effect whose record it knows to
/// be durable: a step begins only then. So a process that was late is never counted wrongly.
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

/// What was done, by key: who did it, in the order in which it was done.
type Effects = BTreeMap<String, Vec<String>>;

/// spec B178–B181: a recorded step is never run again; one key for each effect, whoever has it.
fn judge_lines(lines: &[Line]) -> Effects {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut effects = Effects::new();
    let mut begun = 0;
    for line in lines {
        if let Some(words) = line.after("in") {
            let (run, step) = (words[0], words[2]);
            begun += 1;
            let before = reached.insert(run, step).unwrap_or(step);
            // That it once began says that all before it are recorded.
            assert!(before <= step, "{run} ran `{step}` again after `{before}` had begun");
        } else if let Some(words) = line.after("effect") {
            assert_eq!(words[3], format!("{}:{}", words[0], words[2]));
            effects.entry(words[3].to_owned()).or_default().push(words[4].to_owned());
        }
    }
    assert_eq!(effects.len(), RUNS * STEPS.len(), "one effect for each key");
    let done: usize = effects.values().map(Vec::len).sum();
    eprintln!("{} effects, begun {begun} times and done {done} times", effects.len());
    assert!(begun > effects.len(), "no kill has hit anything");
    effects
}

/// Every run complete, every step once, everything said once, and nobody inside of a gate.
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
                assert!(slots.holders.is_empty(), "somebody is still inside: {gate:?}");
            }
            Row::Run(run) => panic!("left behind: {run:?}"),
            _ => {}
        }
    }
    assert_eq!((jobs.len(), tolds), (RUNS, RUNS), "every run completes once, and says so once");
    assert_eq!(steps.len(), RUNS * (STEPS.len() + 1));
    for (run, output) in jobs {
        let output: Vec<String> = serde_json::from_str(output.as_str()).unwrap();
        for (step, value) in STEPS.iter().zip(output) {
            let recorded = &steps[&(run.seq, (*step).to_owned())];
            assert_eq!(recorded.as_str(), json!(value).to_string(), "{run} saw something else");
            assert!(effects[&format!("{run}:{step}")].contains(&value), "nobody did it: {value}");
        }
    }
}
