//! A process that deletes what is over and old, part by part, while everything else goes on.

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    retention::Past,
    time::Timestamp,
};

use super::{Actor, world::World};
use crate::workload::Chance;

/// How retention is set in a world.
#[derive(Clone, Debug)]
pub struct RetentionPlan {
    /// How long what is over is kept.
    pub kept_ms: u64,
    /// How many rows of one kind a transaction looks at.
    pub part: u32,
    /// The longest pause between two passes, in microseconds.
    pub pause: u64,
    /// How often the store's clock steps back before a pass, in a thousand passes.
    pub steps: u64,
}

impl RetentionPlan {
    /// The retention that chance gives.
    pub fn draw(chance: &mut Chance) -> Self {
        Self {
            kept_ms: chance.one(&[0, 5, 50, 200]),
            part: chance.one(&[1, 3, 50]),
            pause: chance.one(&[6000, 20_000, 150_000]),
            steps: chance.one(&[0, 0, 150]),
        }
    }
}

/// A pass over one kind of rows.
#[derive(Clone, Copy, Debug)]
struct Pass {
    past: Past,
    before: Timestamp,
    after: Seq,
}

/// The process.
#[derive(Debug, Default)]
pub struct Cleaner {
    pass: Option<Pass>,
}

impl Actor for Cleaner {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        let plan = world.plan.retention.clone().expect("a world with retention");
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
            Ok(other) => world.judge.report("I51", format!("retention was answered {other:?}")),
            // The pass ends, or the same part is tried again: what is gone is gone.
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
