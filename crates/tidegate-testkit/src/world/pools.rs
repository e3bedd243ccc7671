//! Pools in a [`World`].

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    explain::Why,
    flow::step_pool::{PoolAnswer, PoolAsk, key_of},
    id::RunId,
    pool::{Pool, PoolCommand},
    row::{Class, GateState, Row, Run, Scope},
    run::record::{NewAsk, NewStep, NewWait, NewWaitOn, Record, Recorded, Then},
};

use super::World;

impl World {
    /// Creates or changes a pool as an operator does.
    pub async fn put_pool(&self, declaration: Value) {
        let pool = Pool::parse(&declaration).expect("a good pool").value;
        let changed = self.pool(PoolCommand::Put(Box::new(pool))).await;
        assert!(changed.is_ok(), "{declaration}: {changed:?}");
    }

    /// Declares a pool as code does. Returns whether this changed it.
    pub async fn declare_pool(&self, declaration: Value) -> bool {
        let pool = Pool::parse(&declaration).expect("a good pool").value;
        self.pool(PoolCommand::Declare(Box::new(pool))).await.expect("a declaration")
    }

    /// Executes a command on pools.
    pub async fn pool(&self, command: PoolCommand) -> Result<bool, Refusal> {
        match self.run(Command::Pool { ws: self.ws.clone(), command }).await? {
            Answer::Changed(changed) => Ok(changed),
            other => panic!("unexpected answer to a command on pools: {other:?}"),
        }
    }

    /// Lets steps of a leased run ask for their pools, in the report that records `steps` and says
    /// that the attempts of `over` ended without a record.
    pub async fn ask_with(
        &self,
        run: &Run,
        steps: Vec<NewStep>,
        over: &[&str],
        asks: Vec<NewAsk>,
    ) -> Result<Recorded, Refusal> {
        let engine = run.owner.expect("the run is leased");
        let over = over.iter().map(|step| (*step).to_owned()).collect();
        let report = Record::new(run.id.seq, engine, run.fence, Then::Continue);
        let report = Record { steps, over, asks, ..report };
        let known = Box::new(run.clone());
        match self.run(Command::Record { known, report }).await? {
            Answer::Recorded(recorded) => Ok(recorded),
            other => panic!("unexpected answer to a report: {other:?}"),
        }
    }

    /// Lets a step of a leased run ask for its pools.
    pub async fn enter(&self, run: &Run, step: &str, pools: &[PoolAsk]) -> PoolAnswer {
        let ask = NewAsk { step: step.to_owned(), pools: pools.to_vec() };
        match self.ask_with(run, Vec::new(), &[], vec![ask]).await {
            Ok(Recorded::Asked(mut answers)) => answers.pop().expect("one answer").1,
            other => panic!("unexpected answer to a step that asks: {other:?}"),
        }
    }

    /// Ends the attempt of a step of a leased run without a record.
    pub async fn leave(&self, run: &Run, step: &str) {
        let left = self.ask_with(run, Vec::new(), &[step], Vec::new()).await;
        assert_eq!(left, Ok(Recorded::GoOn));
    }

    /// Returns the units that are taken of a pool's `concurrency`, over all keys.
    pub async fn units_in(&self, pool: &str) -> u64 {
        let is_it = |scope: Scope| scope.class == Class::PoolLimit && scope.name == pool;
        let rows = self.dump().await;
        let gates = rows.iter().filter_map(Row::as_gate);
        let gates = gates.filter(|gate| gate.key.scope().is_some_and(is_it));
        let units = gates.map(|gate| match &gate.state {
            GateState::Slots(slots) => slots.used(),
            _ => 0,
        });
        units.sum()
    }

    /// Explains a run.
    pub async fn why(&self, run: RunId) -> Why {
        self.serve().await;
        let why = tidegate_store::why(&*self.store, &self.ws, run).await.expect("the store works");
        why.expect("the run exists")
    }

    /// Parks a leased run for the pools of a step.
    pub async fn park(&self, run: &Run, step: &str, pools: &[PoolAsk]) {
        let on = NewWaitOn::Pools(pools.to_vec());
        let wait = NewWait { step: step.to_owned(), on, until: None };
        let parked = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(parked, Ok(Recorded::LetGo));
    }
}

/// Builds the use of a whole pool by a step.
pub fn whole(pool: &str, cost: u32) -> PoolAsk {
    PoolAsk { pool: pool.to_owned(), key: None, cost, fair_by: None }
}

/// Builds the use of a pool by a step, with a key.
pub fn keyed(pool: &str, key: &str, cost: u32) -> PoolAsk {
    PoolAsk { key: key_of(&key.into()), ..whole(pool, cost) }
}

/// Builds the use of a whole pool by a step, with its value of `fair`.
pub fn fair(pool: &str, value: &str, cost: u32) -> PoolAsk {
    PoolAsk { fair_by: key_of(&value.into()), ..whole(pool, cost) }
}
