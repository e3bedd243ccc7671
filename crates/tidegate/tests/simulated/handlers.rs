//! Executes the scripts of the plan as real handlers.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, PooledStep, Result, Retry, StepError, Workflow};
use tidegate_core::flow::step_pool::{PoolAsk, key_of};
use tidegate_testkit::sim::{
    script::{Op, StepUse},
    task::SIGNAL,
};

use crate::{
    code::{Code, Edit, Named, Part, groups},
    history::{Asked, Drive},
    sessions,
    world::World,
};

/// Maximum depth of calls and sent events.
const DEEPEST: u64 = 2;

/// Environment of a handler: its process and the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) world: Arc<World>,
    pub(crate) process: usize,
    /// Edits of the process's build.
    pub(crate) edits: Vec<Edit>,
}

/// One call of a handler.
struct Call {
    ctx: Ctx,
    data: Value,
    drive: Drive,
    asked: Asked,
}

impl Host {
    /// Serves all definitions of the plan, up to this version.
    pub(crate) fn serve(&self, mut builder: EngineBuilder, newest: u32) -> EngineBuilder {
        let plan = self.world.plan.clone();
        for spec in &plan.specs {
            for version in 1..=newest {
                let code = Code::new(&spec.version(version).1, Some(version), &self.edits);
                builder = builder.workflow(self.workflow(spec.definition(version), code));
            }
        }
        builder
    }

    /// Serves the definitions of one version without its number. All versions have the code of the
    /// first; only their controls differ.
    pub(crate) fn serve_unnumbered(
        &self,
        mut builder: EngineBuilder,
        version: u32,
    ) -> EngineBuilder {
        let plan = self.world.plan.clone();
        for spec in &plan.specs {
            let mut definition = spec.definition(version);
            // Versions can have equal controls. This number makes their definitions different, so
            // that the judge can distinguish them.
            definition["compensateTimeoutMs"] = json!(60_000 + version);
            let fields = definition.as_object_mut().expect("a definition is an object");
            fields.remove("version");
            let code = Code::new(&spec.version(1).1, None, &self.edits);
            builder = builder.workflow(self.workflow(definition, code));
        }
        builder
    }

    fn workflow(&self, definition: Value, code: Code) -> Workflow<Value, Value> {
        let (host, code) = (self.clone(), Arc::new(code));
        let handler = move |ctx: Ctx, input: Value| {
            let (host, code) = (host.clone(), code.clone());
            async move { host.run(ctx, input, code).await }
        };
        Workflow::from_definition(definition, handler)
    }

    async fn run(&self, ctx: Ctx, input: Value, code: Arc<Code>) -> Result<Value> {
        let data = if input.is_array() { input[0].clone() } else { input };
        let deep = data["d"].as_u64().unwrap_or(DEEPEST) >= DEEPEST;
        let (workflow, session) = (ctx.workflow().to_owned(), ctx.session().is_ok());
        let drive = Drive { code: code.clone(), workflow, deep, session };
        self.world.drives(self.process, ctx.run_id(), drive.clone());
        let call = Call { ctx, data, drive, asked: Asked::default() };
        call.asked.add(["begin", "count"]);
        sessions::begin(&call.ctx).await?;
        for part in &code.parts {
            let named = match part {
                Part::Plain(named) => Some(named),
                Part::Patched { patch, new, old } => {
                    let patched = call.ctx.patched(patch).await?;
                    self.world.meets(if patched { "patched" } else { "not patched" });
                    if patched { Some(new) } else { old.as_ref() }
                }
            };
            if let Some(named) = named.filter(|(_, op)| call.drive.does(&self.world.plan, op)) {
                self.op(&call, named).await?;
            }
        }
        call.asked.add(["end"]);
        sessions::end(&call.ctx).await?;
        if code.script.fails {
            return Err(StepError::coded("Scripted", "as scripted").fatal());
        }
        Ok(json!("done"))
    }

    async fn op(&self, call: &Call, (id, op): &Named) -> Result<()> {
        let ms = Duration::from_millis;
        let (Call { ctx, data, asked, .. }, id) = (call, id.clone());
        match op {
            // This operation requests two ids, one after another.
            Op::Step { ms, fails, pools } => {
                return self.step(call, id, (*ms, *fails), pools).await;
            }
            op => asked.add(groups(&id, op).into_iter().flatten()),
        }
        match op {
            Op::Step { .. } => {}
            Op::Send(name) => ctx.send_event(id, name.as_str(), deeper(data)).await?,
            Op::Sleep(time) => ctx.sleep(id, ms(*time)).await?,
            // Real waits begin beside steps by themselves, so `early` makes no difference.
            Op::Event { name, own, timeout, when, early: _ } => {
                let mut wait = ctx.wait_for_event::<Value>(id, *name);
                if let Some(when) = when {
                    wait = wait.only_if(&when.text(&when.constant().to_string()));
                }
                if let Some(k) = data.get("k").filter(|_| *own) {
                    wait = wait.matching("k", k);
                }
                if let Some(time) = timeout {
                    wait = wait.timeout(ms(*time));
                }
                wait.await?;
            }
            // If another run waits for the name, this run continues.
            Op::Named { name, replace, timeout } => {
                let wait = ctx.wait_for_signal_by_name::<Value>(id, *name);
                let wait = if *replace { wait.replacing() } else { wait };
                let _ = match timeout {
                    Some(time) => wait.timeout(ms(*time)).await,
                    None => wait.await,
                };
            }
            Op::Signal(timeout) => {
                let wait = ctx.wait_for_signal::<Value>(id, SIGNAL);
                match timeout {
                    Some(time) => wait.timeout(ms(*time)).await?,
                    None => wait.await?,
                };
            }
            // If the child is refused or fails, this run continues.
            Op::Invoke(name) => {
                let _ = ctx.invoke::<_, Value>(id, name.as_str(), deeper(data)).await;
            }
            Op::Both(time) => {
                let nap = ctx.sleep(format!("{id}a"), ms(*time));
                let word = ctx.wait_for_signal::<Value>(format!("{id}b"), SIGNAL);
                tokio::try_join!(nap, word)?;
            }
        }
        Ok(())
    }

    /// Executes a step that takes some time and fails as often as the script says. Some steps have
    /// a compensation.
    async fn step(
        &self,
        call: &Call,
        id: String,
        (ms, fails): (u64, u32),
        pools: &[StepUse],
    ) -> Result<()> {
        let Call { ctx, asked, drive, data } = call;
        let script = &drive.code.script;
        if fails == 1 {
            let (host, run, undo) = (self.clone(), ctx.run_id(), format!("undo:u{id}"));
            let undone = move || async move {
                host.world.note(|| format!("{undo} of run {run} in process {}", host.process));
                host.spend(1).await;
                Ok(())
            };
            asked.add([format!("u{id}")]);
            ctx.compensate(format!("u{id}"), undone).await?;
        }
        asked.add([id.clone()]);
        let fails = ctx.attempt(&id) <= fails;
        let retry =
            Retry::attempts(script.attempts).fixed(Duration::from_millis(script.backoff_ms));
        let asks: Vec<PoolAsk> = pools.iter().map(|it| it.ask(data)).collect();
        let step = ctx.step(id.clone(), || async {
            let _inside = self.world.enter((self.process, ctx.run_id()), (&id, &asks), asked);
            self.spend(ms).await;
            if fails { Err(StepError::new("as scripted")) } else { Ok(()) }
        });
        let step = step.retry(retry);
        let Some((first, rest)) = pools.split_first() else {
            return step.await.map_err(StepError::fatal);
        };
        let step = with_use(step.pool(first.pool), first, data);
        let step = rest.iter().fold(step, |step, it| with_use(step.pool(it.pool), it, data));
        step.await.map_err(StepError::fatal)
    }

    /// Waits inside of a closure, for this many virtual milliseconds.
    async fn spend(&self, ms: u64) {
        let timer = &self.world.timer;
        timer.sleep_until(timer.elapsed() + Duration::from_millis(ms)).await;
    }
}

/// Gives the last pool of a step its cost, its value of `fair` and its key.
fn with_use<'a>(step: PooledStep<'a, ()>, it: &StepUse, data: &Value) -> PooledStep<'a, ()> {
    // Values that are no key are none, as in the data of runs.
    let value = it.value(data).filter(|value| key_of(value).is_some());
    let step = step.cost(it.cost).fair_by(value);
    match data.get("k").filter(|_| it.keyed) {
        Some(key) => step.key(key.clone()),
        None => step,
    }
}

fn deeper(data: &Value) -> Value {
    let mut data = if data.is_object() { data.clone() } else { json!({}) };
    data["d"] = json!(data["d"].as_u64().unwrap_or(0) + 1);
    data
}
