//! Retention process of the simulator: deletes old rows, chunk by chunk, while all other actors
//! continue.

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    retention::Past,
    time::Timestamp,
};

use super::{Actor, world::World};
use crate::workload::Chance;

/// Retention settings of a world.
#[derive(Clone, Debug)]
pub struct RetentionPlan {
    /// How long rows are kept after their end, in milliseconds.
    pub kept_ms: u64,
    /// Maximum number of rows of one kind per transaction.
    pub part: u32,
    /// The longest pause between two deletions, in microseconds.
    pub pause: u64,
    /// How often the store's clock steps back before a deletion, per thousand.
    pub steps: u64,
}

impl RetentionPlan {
    /// Draws the retention settings.
    pub fn draw(chance: &mut Chance) -> Self {
        Self {
            kept_ms: chance.one(&[0, 5, 50, 200]),
            part: chance.one(&[1, 3, 50]),
            pause: chance.one(&[6000, 20_000, 150_000]),
            steps: chance.one(&[0, 0, 150]),
        }
    }
}

/// A deletion of all old rows of one kind.
#[derive(Clone, Copy, Debug)]
struct Pass {
    past: Past,
    before: Timestamp,
    after: Seq,
}

/// The retention process.
#[derive(Debug, Default)]
pub struct Cleaner {
    pass: Option<Pass>,
}

impl Actor for Cleaner {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        let plan = world.plan.retention.clone().expect("the world has retention");
        let Some(pass) = self.pass else {
            if world.strikes(plan.steps) {
                let ms = i64::from(world.faults.one(&[1, 15, 40]));
                world.step_clock(-ms * 1000);
            }
            let past = chance.one(&[Past::Runs, Past::Runs, Past::Events, Past::Receipts]);
            let before = world.store_time().minus_ms(plan.kept_ms);
            self.pass = Some(Pass { past, before, after: Seq(i64::MIN) });
            return chance.between(50, 2000);
        };
        let Pass { past, before, after } = pass;
        let command = Command::Forget { past, before, after, most: plan.part };
        let salted = (command, world.salt());
        match world.submit("cleaner", &[salted]).map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(Answer::Forgotten(forgotten)))) => {
                self.pass = forgotten.next.map(|after| Pass { after, ..pass });
            }
            Ok(other) => {
                world.judge.report("I51", format!("unexpected answer to a deletion: {other:?}"));
            }
            // After an error the deletion is given up or the same chunk is retried; deleted rows
            // stay deleted.
            Err(_) if chance.percent(30) => self.pass = None,
            Err(_) => {}
        }
        if self.pass.is_some() {
            chance.between(50, 4000)
        } else {
            chance.between(5000, plan.pause)
        }
    }

    fn is_process(&self) -> bool {
        true
    }
}
