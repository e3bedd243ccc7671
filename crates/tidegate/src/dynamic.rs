//! Finds the code for stored versions, also for versions that other processes register later: those
//! may have newer or older code of a workflow, and the server calls its workflows by URL.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tidegate_core::{
    catalog::Version as StoredVersion,
    command::{Answer, Command, StreamCommand},
    definition::Definition,
    row::Workspace,
    turn::Turn,
    version::Registered,
};

use crate::{
    api::{Engine, unexpected},
    builder::known,
    engine::Shared,
    error::Error,
    handler::{Handler, NoFailureHandler, ServedWorkflow},
    parse, reaction,
    registry::ServedVersion,
    turns::WorkerKind,
};

/// Function that returns the code of a stored definition; `None` if this program has none.
pub(crate) type HandlerResolver = dyn Fn(&Definition) -> Option<Arc<dyn Handler>> + Send + Sync;

/// Code that drives stored versions.
#[derive(Default)]
pub(crate) struct DynamicHandlers {
    pub(crate) workspaces: Vec<Workspace>,
    /// Workflows and actions of this program.
    pub(crate) served: Vec<(Definition, ServedWorkflow)>,
    /// Indexes in `served`, by app and name.
    places: BTreeMap<(String, String), Vec<usize>>,
    /// Finds code for definitions that no workflow of this program serves.
    pub(crate) handler_resolver: Option<Box<HandlerResolver>>,
    /// Epoch of the catalog that was last applied, by workspace.
    taken_up: Mutex<BTreeMap<Workspace, i64>>,
}

impl fmt::Debug for DynamicHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicHandlers")
            .field("workspaces", &self.workspaces)
            .finish_non_exhaustive()
    }
}

impl DynamicHandlers {
    pub(crate) fn new(
        workspaces: Vec<Workspace>,
        served: Vec<(Definition, ServedWorkflow)>,
        handler_resolver: Option<Box<HandlerResolver>>,
    ) -> Self {
        let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, (definition, _)) in served.iter().enumerate() {
            let name = (definition.app.clone(), definition.name.clone());
            places.entry(name).or_default().push(place);
        }
        Self { workspaces, served, places, handler_resolver, taken_up: Mutex::default() }
    }

    /// Returns whether this program may have code for versions that other processes register later.
    pub(crate) fn follows(&self) -> bool {
        let follows = |(definition, served): &(Definition, ServedWorkflow)| {
            definition.version.is_none() || served.also_serves.is_some()
        };
        self.handler_resolver.is_some() || self.served.iter().any(follows)
    }

    /// Returns the code that drives the runs of a version. This is the first of: code with this
    /// version number; code that also serves this number; code without a number, if the version was
    /// registered without one and is not called; the result of the handler resolver.
    fn code(&self, version: &StoredVersion) -> Option<ServedVersion> {
        let stored = version.workflow()?;
        let places = self.places.get(&(stored.app.clone(), stored.name.clone()));
        let find = |fits: &dyn Fn(&Definition, &ServedWorkflow) -> bool| {
            let mut same = places.into_iter().flatten().map(|place| &self.served[*place]);
            same.find(|(definition, served)| fits(definition, served))
        };
        let number = version.number;
        let also = |served: &ServedWorkflow| {
            served.also_serves.as_ref().is_some_and(|it| it.contains(&number))
        };
        let follows = version.is_assigned() && !stored.is_called();
        let own = find(&|definition, _| definition.version == Some(number))
            .or_else(|| find(&|_, served| also(served)))
            .or_else(|| find(&|definition, _| definition.version.is_none() && follows));
        if let Some((_, served)) = own {
            return Some(in_process(stored, served));
        }
        let handler = self.handler_resolver.as_ref()?(stored)?;
        Some(ServedVersion::new(stored.clone(), handler, None, WorkerKind::Call))
    }
}

/// Creates a served version that is driven by code of this program. The code may have been written
/// for another version.
fn in_process(stored: &Arc<Definition>, served: &ServedWorkflow) -> ServedVersion {
    let (definition, handler) = (stored.clone(), served.handler.clone());
    let promised = stored.handles_failure();
    let missing = || promised.then(|| Arc::new(NoFailureHandler) as Arc<dyn Handler>);
    let on_failure = served.on_failure.clone().or_else(missing);
    ServedVersion::new(definition, handler, on_failure, WorkerKind::Handler)
}

/// Applies definitions that other processes register, until the engine stops.
pub(crate) async fn run(shared: &Arc<Shared>) {
    if !shared.stored.follows() {
        return;
    }
    let mut wakes = shared.store.wakes();
    loop {
        if let Err(error) = look(shared).await {
            tracing::warn!(%error, "reading definitions failed");
        }
        // On an idle engine this needs no read of its own: the sweep's reads update the epochs.
        while !shared.rest(&mut wakes, None).await && !has_changed(shared) {}
    }
}

/// Returns whether this process has seen newer catalogs than it has applied.
fn has_changed(shared: &Shared) -> bool {
    let catalogs = shared.store.catalogs();
    let seen = |ws: &Workspace| catalogs.get(ws).map_or(0, |catalog| catalog.epoch);
    let taken_up = shared.stored.taken_up.lock().unwrap_or_else(PoisonError::into_inner);
    shared.stored.workspaces.iter().any(|ws| taken_up.get(ws) != Some(&seen(ws)))
}

/// In workspaces whose definitions have changed, serves the versions that this program has code
/// for, and withdraws the others.
pub(crate) async fn look(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut changed = false;
    let catalogs = known(&*shared.store, &shared.stored.workspaces).await?;
    // The lock is held to the end, so that an older catalog is not applied after a newer one.
    let mut taken_up = shared.stored.taken_up.lock().unwrap_or_else(PoisonError::into_inner);
    for (ws, catalog) in catalogs {
        let before = taken_up.get(&ws).copied().unwrap_or(i64::MIN);
        if catalog.epoch <= before {
            continue;
        }
        taken_up.insert(ws.clone(), catalog.epoch);
        let entries = catalog.changed_after(before);
        for version in entries.flat_map(|entry| entry.versions.values()) {
            let turn = Turn { workflow: version.turn, lane: version.lane };
            let serves = shared.serves(turn.lane);
            // A served version with an assigned number keeps its code. Only a version whose author
            // set the number can lose it.
            if serves && version.is_assigned() {
                continue;
            }
            match (shared.stored.code(version), serves) {
                (Some(code), false) => shared.serve(&ws, turn, code),
                (None, _) => {
                    shared.withdraw(&ws, turn);
                    if !serves {
                        continue;
                    }
                }
                (Some(_), true) => continue,
            }
            changed = true;
        }
    }
    if changed {
        shared.say_what_is_served();
        shared.served.notify_one();
    }
    Ok(())
}

impl Engine {
    /// Registers a definition written as data, whose code is resolved by
    /// [`EngineBuilder::handler_resolver`].
    ///
    /// A definition without a version number gets the next number, unless it equals the last one.
    ///
    /// [`EngineBuilder::handler_resolver`]: crate::EngineBuilder::handler_resolver
    pub async fn define(&self, definition: &Value) -> Result<Registered, Error> {
        let mut registered = self.define_all(std::slice::from_ref(definition)).await?;
        registered.pop().ok_or_else(|| Error::Value("the definition was not answered".to_owned()))
    }

    /// Registers many definitions as [`Engine::define`] does, in as few transactions as possible.
    ///
    /// All of them are checked before the first is registered.
    pub async fn define_all(&self, definitions: &[Value]) -> Result<Vec<Registered>, Error> {
        let (mut workflows, mut problems) = (Vec::new(), Vec::new());
        for definition in definitions {
            match parse::workflow(definition) {
                Ok(parsed) => workflows.push(parsed.value),
                Err(more) => problems.extend(more),
            }
        }
        if !problems.is_empty() {
            return Err(Error::Definition(problems));
        }
        let registered = self.register(workflows, false).await?;
        look(self.shared()).await?;
        Ok(registered)
    }

    /// Registers the actions of a flow as [`Engine::define`] does.
    ///
    /// Returns the name (`flow/action`) and the registration of each.
    pub async fn define_flow(
        &self,
        definition: &Value,
    ) -> Result<Vec<(String, Registered)>, Error> {
        let all = self.register_flow(definition, false).await?;
        look(self.shared()).await?;
        Ok(all)
    }

    /// Returns what [`Engine::define`] would return, without registering anything.
    pub async fn would_define(&self, definition: &Value) -> Result<Registered, Error> {
        let workflow = parse::workflow(definition).map_err(Error::Definition)?.value;
        let mut registered = self.register(vec![workflow], true).await?;
        registered.pop().ok_or_else(|| Error::Value("the definition was not answered".to_owned()))
    }

    /// Returns what [`Engine::define_flow`] would return, without registering anything.
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
        let flow = parse::flow(definition).map_err(Error::Definition)?.value;
        let names: Vec<String> = flow.actions.iter().map(|action| action.name.clone()).collect();
        let registered = self.register(flow.actions, rehearsal).await?;
        Ok(names.into_iter().zip(registered).collect())
    }

    async fn register(
        &self,
        workflows: Vec<Definition>,
        rehearsal: bool,
    ) -> Result<Vec<Registered>, Error> {
        if workflows.iter().any(reaction::asks) && !rehearsal {
            // The reaction is defined before the workflows, so that it misses no event of a stream.
            let command = StreamCommand::Define(reaction::triggers().definition);
            self.ask(Command::Stream { ws: self.ws(), command }).await?;
        }
        let commands = workflows.into_iter().map(|workflow| {
            let workflow = Box::new(workflow);
            Command::Register { ws: self.ws(), workflow, dev: false }
        });
        let mut answers = Vec::new();
        if rehearsal {
            for command in commands {
                answers.push(self.would(command).await?);
            }
        } else {
            // All commands are sent before the first answer is awaited, so that they share a
            // transaction.
            let replies: Vec<_> = commands.map(|command| self.ask(command)).collect();
            for reply in replies {
                answers.push(reply.await?);
            }
            // Wakes other engines, which may have code for the new versions.
            self.store().wake();
        }
        let registered = answers.into_iter().map(|answer| match answer {
            Answer::Registered(registered) => Ok(registered),
            other => Err(unexpected(&other)),
        });
        registered.collect()
    }
}
