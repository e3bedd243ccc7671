//! The plan's scripts as real handlers.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Fault, Result, Retry, Workflow};
use tidegate_testkit::sim::{
    script::{Op, Script},
    task::SIGNAL,
};

use crate::{sessions, world::World};

/// Calls and sends go no deeper than this.
const DEEPEST: u64 = 2;

/// Who executes: a process and the world it is in.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) world: Arc<World>,
    pub(crate) process: usize,
}

impl Host {
    /// Serves all that the plan defines, up to a version.
    pub(crate) fn serve(&self, mut builder: EngineBuilder, newest: u32) -> EngineBuilder {
        let plan = self.world.plan.clone();
        for spec in &plan.specs {
            for version in 1..=newest {
                let script = spec.version(version).1.clone();
                builder = builder.workflow(self.workflow(spec.definition(version), script));
            }
        }
        builder
    }

    /// Serves the definitions of one version without its number. All versions have the code of the
    /// first: what changes is what controls it.
    pub(crate) fn serve_unnumbered(
        &self,
        mut builder: EngineBuilder,
        version: u32,
    ) -> EngineBuilder {
        let plan = self.world.plan.clone();
        for spec in &plan.specs {
            let mut definition = spec.definition(version);
            // Versions can have the same controls; the judge knows them by number.
            definition["compensateTimeoutMs"] = json!(60_000 + version);
            let fields = definition.as_object_mut().expect("a definition is an object");
            fields.remove("version");
            builder = builder.workflow(self.workflow(definition, spec.version(1).1.clone()));
        }
        builder
    }

    fn workflow(&self, definition: Value, script: Script) -> Workflow<Value, Value> {
        let host = self.clone();
        let handler = move |ctx: Ctx, input: Value| {
            let (host, script) = (host.clone(), script.clone());
            async move { host.run(ctx, input, script).await }
        };
        Workflow::from_definition(definition, handler)
    }

    async fn run(&self, ctx: Ctx, input: Value, script: Script) -> Result<Value> {
        let data = if input.is_array() { input[0].clone() } else { input };
        sessions::begin(&ctx).await?;
        for (n, op) in script.ops.iter().enumerate() {
            self.op(&ctx, &data, &script, format!("s{n}"), op).await?;
        }
        sessions::end(&ctx).await?;
        if script.fails {
            return Err(Fault::coded("Scripted", "as scripted").fatal());
        }
        Ok(json!("done"))
    }

    async fn op(
        &self,
        ctx: &Ctx,
        data: &Value,
        script: &Script,
        id: String,
        op: &Op,
    ) -> Result<()> {
        let ms = Duration::from_millis;
        let deep = data["d"].as_u64().unwrap_or(DEEPEST) >= DEEPEST;
        match op {
            Op::Invoke(_) | Op::Send(_) if deep => {}
            // Its versions may stand in each other's way, which no caller can know.
            Op::Invoke(name) if name == ctx.workflow() && self.world.plan.releases > 0 => {}
            Op::Step { ms, fails } => self.step(ctx, script, id, *ms, *fails).await?,
            Op::Send(name) => ctx.send_event(id, name.as_str(), deeper(data)).await?,
            Op::Sleep(time) => ctx.sleep(id, ms(*time)).await?,
            Op::Event { name, own, timeout } => {
                let mut wait = ctx.wait_for_event::<Value>(id, *name);
                if let Some(k) = data.get("k").filter(|_| *own) {
                    wait = wait.matching("k", k);
                }
                if let Some(time) = timeout {
                    wait = wait.timeout(ms(*time));
                }
                wait.await?;
            }
            Op::Signal(timeout) => {
                let wait = ctx.wait_for_signal::<Value>(id, SIGNAL);
                match timeout {
                    Some(time) => wait.timeout(ms(*time)).await?,
                    None => wait.await?,
                };
            }
            // A child that is refused or fails is no failure of this one.
            Op::Invoke(name) => {
                let _ = ctx.invoke::<Value>(id, name.as_str(), deeper(data)).await;
            }
            Op::Both(time) => {
                let nap = ctx.sleep(format!("{id}a"), ms(*time));
                let word = ctx.wait_for_signal::<Value>(format!("{id}b"), SIGNAL);
                tokio::try_join!(nap, word)?;
            }
        }
        Ok(())
    }

    /// A step that takes a while and fails as often as the script says; some can be undone.
    async fn step(
        &self,
        ctx: &Ctx,
        script: &Script,
        id: String,
        ms: u64,
        fails: u32,
    ) -> Result<()> {
        if fails == 1 {
            let (host, run, undo) = (self.clone(), ctx.run_id(), format!("undo:u{id}"));
            let undone = move || async move {
                host.world.note(|| format!("{undo} of run {run} in process {}", host.process));
                host.spend(1).await;
                Ok(())
            };
            ctx.compensate(format!("u{id}"), undone).await?;
        }
        let fails = ctx.attempt(&id) <= fails;
        let retry =
            Retry::attempts(script.attempts).fixed(Duration::from_millis(script.backoff_ms));
        let step = ctx.step(id.clone(), || async {
            let _inside = self.world.enter(self.process, ctx.run_id(), &id);
            self.spend(ms).await;
            if fails { Err(Fault::new("as scripted")) } else { Ok(()) }
        });
        step.retry(retry).await.map_err(Fault::fatal)
    }

    /// Time that a closure takes.
    async fn spend(&self, ms: u64) {
        let timer = &self.world.timer;
        timer.sleep_until(timer.elapsed() + Duration::from_millis(ms)).await;
    }
}

fn deeper(data: &Value) -> Value {
    let mut data = if data.is_object() { data.clone() } else { json!({}) };
    data["d"] = json!(data["d"].as_u64().unwrap_or(0) + 1);
    data
}
