//! Definitions that come from the store and not from this program, such as workflows that are
//! called by URL: every stored version is driven, as soon as it is there.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;
use tidegate_core::{
    action::Flow as FlowDefinition,
    command::{Answer, Command, StreamCommand},
    row::Workspace,
    version::Registered,
    workflow::Workflow as Definition,
};
use tidegate_store::dry_run;

use crate::{
    api::{Engine, unexpected},
    builder::{check_schedules, known},
    engine::Shared,
    error::Error,
    handler::Handler,
    reaction,
    registry::Version,
};

/// The code of a stored definition, if this program has any.
pub(crate) type CodeFor = dyn Fn(&Definition) -> Option<Arc<dyn Handler>> + Send + Sync;

/// What an engine needs to drive what others have defined.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) workspaces: Vec<Workspace>,
    pub(crate) code_for: Option<Box<CodeFor>>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("workspaces", &self.workspaces).finish_non_exhaustive()
    }
}

/// Drives what others define, for as long as the engine lives.
pub(crate) async fn run(shared: &Arc<Shared>) {
    if shared.stored.code_for.is_none() {
        return;
    }
    let mut epochs = BTreeMap::new();
    loop {
        if let Err(error) = look(shared, &mut epochs).await {
            tracing::warn!(%error, "definitions could not be looked at");
        }
        shared.timer.sleep_until(shared.timer.elapsed() + shared.options.poll).await;
    }
}

/// Takes up versions that have no code here yet, in workspaces whose definitions have changed.
pub(crate) async fn look(
    shared: &Arc<Shared>,
    epochs: &mut BTreeMap<Workspace, i64>,
) -> Result<(), Error> {
    let Stored { workspaces, code_for: Some(code_for) } = &shared.stored else { return Ok(()) };
    let mut found = false;
    for (ws, catalog) in known(&*shared.store, workspaces).await? {
        if epochs.insert(ws.clone(), catalog.epoch) == Some(catalog.epoch) {
            continue;
        }
        for version in catalog.entries().flat_map(|(_, entry)| entry.versions.values()) {
            let definition = version.workflow().filter(|_| !shared.serves(version.lane));
            let Some(definition) = definition else { continue };
            if let Some(handler) = code_for(definition) {
                let definition = definition.clone();
                let served = Version { definition, handler, on_failure: None };
                shared.serve(&ws, version.lane, served);
                found = true;
            }
        }
    }
    if found {
        shared.say_what_is_served();
    }
    Ok(())
}

impl Engine {
    /// Registers a definition as data, whose code is found as [`EngineBuilder::code_for`] says. A
    /// definition without a version gets the next number, unless nothing has changed.
    ///
    /// [`EngineBuilder::code_for`]: crate::EngineBuilder::code_for
    pub async fn define(&self, definition: &Value) -> Result<Registered, Error> {
        let registered = self.register(parsed(definition)?, false).await?;
        look(self.shared(), &mut BTreeMap::new()).await?;
        Ok(registered)
    }

    /// As [`Engine::define`], for the actions of a flow: what each is called (`flow/action`), and
    /// how it was registered.
    pub async fn define_flow(
        &self,
        definition: &Value,
    ) -> Result<Vec<(String, Registered)>, Error> {
        let all = self.register_flow(definition, false).await?;
        look(self.shared(), &mut BTreeMap::new()).await?;
        Ok(all)
    }

    /// What [`Engine::define`] would come to, without any effect.
    pub async fn would_define(&self, definition: &Value) -> Result<Registered, Error> {
        self.register(parsed(definition)?, true).await
    }

    /// What [`Engine::define_flow`] would come to, without any effect.
    pub async fn would_define_flow(
        &self,
        definition: &Value,
    ) -> Result<Vec<(String, Registered)>, Error> {
        self.register_flow(definition, true).await
    }

    async fn register_flow(
        &self,
        definition: &Value,
        rehearsal: bool,
    ) -> Result<Vec<(String, Registered)>, Error> {
        let parsed = FlowDefinition::parse(definition);
        let flow = parsed.map_err(|errors| Error::Definition(errors.0))?.value;
        for action in &flow.actions {
            check_schedules(action).map_err(Error::Definition)?;
        }
        let mut all = Vec::new();
        for action in flow.actions {
            let name = action.name.clone();
            all.push((name, self.register(action, rehearsal).await?));
        }
        Ok(all)
    }

    async fn register(&self, workflow: Definition, rehearsal: bool) -> Result<Registered, Error> {
        if reaction::asks(&workflow) && !rehearsal {
            // First, so that no event of a stream falls between the two.
            let command = StreamCommand::Define(reaction::triggers().definition);
            self.ask(Command::Stream { ws: self.ws(), command }).await?;
        }
        let workflow = Box::new(workflow);
        let command = Command::Register { ws: self.ws(), workflow, dev: false };
        let answer = if rehearsal {
            dry_run(&**self.store(), (command, 0)).await??
        } else {
            self.ask(command).await?
        };
        match answer {
            Answer::Registered(registered) => Ok(registered),
            other => Err(unexpected(&other)),
        }
    }
}

fn parsed(definition: &Value) -> Result<Definition, Error> {
    let parsed = Definition::parse(definition).map_err(|errors| Error::Definition(errors.0))?;
    check_schedules(&parsed.value).map_err(Error::Definition)?;
    Ok(parsed.value)
}
