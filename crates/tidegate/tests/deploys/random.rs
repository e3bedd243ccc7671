//! Executes random programs with crashes at random times. None is reported as changed code.

use std::time::Duration;

use serde_json::json;
use tidegate::testing::TestHarness;
use tidegate_core::row::Ending;

use crate::program::{
    All, Code, Event, Fails, Flaky, Invoke, Join, Loop, Now, Outside, Patch, Select, Send, Signal,
    Sleep, Step, Swallow, Undo, Unordered, World, Yield,
};

/// A small random number generator that gives the same numbers for a seed on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn code(&mut self, depth: u64, next: &mut u32) -> Code {
        *next += 1;
        let id = format!("{next}");
        let times = [0, 10, 40, 100, 400];
        let kinds = if depth == 0 { 13 } else { 20 };
        match self.roll(kinds) {
            0 | 1 => {
                let takes = times[self.index(3)];
                Step(id, takes)
            }
            2 => Now(id),
            3 => Send(id),
            4 => Sleep(id, times[self.index(5)]),
            5 => Event(id, times[self.index(5)]),
            6 => Signal(id, times[self.index(5)]),
            7 => Flaky(id),
            8 => Undo(id),
            // What an await outside of the operations decides may differ on replay, so a step
            // follows.
            9 => All(vec![Yield, Step(id, 0)]),
            10 => All(vec![Outside(times[self.index(4)]), Step(id, 0)]),
            11 => Invoke(id),
            12 => Swallow(Box::new(Fails(id))),
            13 | 14 => Join(self.parts(depth, next)),
            15 => Unordered(self.parts(depth, next)),
            16 | 17 => Select(self.parts(depth, next)),
            18 => Loop(id, Box::new(self.code(depth - 1, next))),
            _ => {
                let new = Box::new(self.code(depth - 1, next));
                Patch(id, new, Box::new(self.code(depth - 1, next)))
            }
        }
    }

    fn index(&mut self, of: u64) -> usize {
        usize::try_from(self.roll(of)).unwrap()
    }

    fn parts(&mut self, depth: u64, next: &mut u32) -> Vec<Code> {
        let count = 2 + self.roll(2);
        (0..count)
            .map(|_| {
                let length = 1 + self.roll(3);
                All((0..length).map(|_| self.code(depth - 1, next)).collect())
            })
            .collect()
    }
}

/// Number of programs, maximum number of crashes and shutdowns of a program, and maximum number of
/// rounds of a program. The number of crashes is limited because an engine that crashes before a
/// lease has expired never detects that the previous engine is dead.
const PROGRAMS: u64 = 300;
const STOPS: u32 = 8;
const LONGEST: u64 = 4_000;

#[tokio::test]
async fn no_program_that_is_the_same_is_taken_for_changed() {
    let one = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let programs = std::env::var("TIDEGATE_PROGRAMS").ok().and_then(|count| count.parse().ok());
    let seeds = one.map_or(0..programs.unwrap_or(PROGRAMS), |seed: u64| seed..seed + 1);
    for seed in seeds {
        play(seed).await;
    }
}

async fn play(seed: u64) {
    let mut dice = Dice(seed);
    let (depth, length, mut next) = (1 + dice.roll(3), 2 + dice.roll(4), 0);
    let code = All((0..length).map(|_| dice.code(depth, &mut next)).collect());
    let repeat = format!(
        "repeat with TIDEGATE_SEED={seed} cargo test -p tidegate --test deploys \
         no_program_that_is_the_same -- --nocapture\n{code:?}"
    );
    let harness = TestHarness::new().seeded(seed);
    let world = World::new(&harness);
    let serve = || {
        let (second, tick) = (Duration::from_secs(1), Duration::from_millis(100));
        let child = tidegate::Workflow::new("child", async |_: tidegate::Ctx, _: u64| Ok(()));
        let engine = harness.engine().lease_ttl(second).poll_interval(tick);
        engine.workflow(world.job(&code)).workflow(child).start()
    };
    let mut engine = serve().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    let mut stops = STOPS;
    for _ in 0..LONGEST {
        harness.advance(Duration::from_millis(dice.roll(30))).await;
        match dice.roll(12) {
            0 if stops > 0 => {
                stops -= 1;
                harness.crash(&engine).await;
                engine = serve().await.unwrap();
            }
            1 if stops > 0 => {
                stops -= 1;
                engine.shutdown().await;
                engine = serve().await.unwrap();
            }
            2 => drop(engine.send("go", json!(null)).await.unwrap()),
            // A signal to an ended run is refused, which is ignored here.
            3 => drop(engine.signal(run, "go", json!(null)).await),
            _ => {}
        }
        let (_, ended) = engine.look_up(run).await.unwrap();
        if let Some(ended) = ended {
            let completed = matches!(ended.ending, Ending::Completed { .. });
            assert!(completed, "{:?}\n{repeat}", ended.ending);
            return;
        }
    }
    panic!("the run has not ended: {:?}\n{repeat}", engine.why(run).await);
}
