//! Versions: registration, release and retirement of definitions, and their effect on older runs.

use serde::{Deserialize, Serialize};

use crate::{
    catalog::{Catalog, Current, Entry, Limit, Pools, REACTIONS, RETIRED, Version},
    command::Refusal,
    definition::Definition,
    draft::{Decided, Draft, Stop},
    flow::{
        CONTROLS, control,
        handoff::OnNewVersion,
        meter::all_of_today,
        plan::{Candidate, Origin, Results},
        pool,
    },
    id::{RunId, Seq},
    json::Payload,
    key::Key,
    reaction::Reaction,
    reads::Scan,
    row::{
        Class, Def, Gate, GateKey, GateState, Hold, Meters, Numbers, Phase, PlannedGate, Purpose,
        Row, RowKey, RowNumbers, Run, Scope, Slots, Span, Work, Workspace,
    },
    run::{chore, lease::served, lifecycle},
    schedule,
};

/// Maximum number of live runs of one older version that a release counts. A release with a handoff
/// reads all of them. If they do not fit into its transaction, the release is refused.
pub const MAX_COUNTED: u32 = 2000;

/// Maximum number of gates of one class that one transaction gives new limits.
const MAX_RENUMBERED: u32 = 400;

/// Result of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The version.
    pub version: u32,
    /// The lane from which engines lease the version's runs.
    pub lane: Seq,
    /// Whether the same definition was already registered. Its description, its schema and the
    /// display names of schedules may be new.
    pub unchanged: bool,
    /// The release, if the registration also released the version.
    pub released: Option<Released>,
}

/// Result of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// The release number, counted over the workspace.
    pub release: i64,
    /// Number of live runs of other versions.
    pub older: u32,
    /// Live runs of other versions whose input does not have the key of the handoff.
    pub lacking: Vec<RunId>,
    /// Number of live runs of other versions that no live engine serves. (An engine that also
    /// serves older versions stores this in its row before it registers a new version.)
    pub stranded: u32,
}

/// Result of a retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retired {
    /// Number of live runs of the workflow. They continue under its controls. At most
    /// [`MAX_COUNTED`] runs of each version are counted.
    pub live: u32,
}

/// Registers a version: stores its definition. Releases it if its number is the highest so far.
///
/// A definition without a number that was registered before gets the same version again, and that
/// version is released, unless a manual release is in force. So deploying an older and a newer
/// build in turn creates no new versions. Registering a retired workflow ends the retirement. With
/// `dev`, a changed definition without a number replaces the last version whose number was
/// assigned.
pub fn register(
    draft: &mut Draft,
    ws: &Workspace,
    workflow: &Definition,
    dev: bool,
) -> Decided<Registered> {
    let catalog = draft.definitions(ws)?;
    pool::check(catalog.pools(), workflow)?;
    let entry = catalog.entry(&workflow.app, &workflow.name);
    let number =
        workflow.version.unwrap_or_else(|| entry.map_or(1, |it| assign(it, workflow, dev)));
    let known = entry.and_then(|entry| entry.versions.get(&number));
    if let Some((entry, known)) = entry.zip(known)
        && is_known(known, workflow, number)
    {
        return register_again(draft, entry, known, workflow);
    }
    pool::check_costs(catalog.pools(), workflow)?;
    if known.is_some() && !dev {
        let (app, name) = (workflow.app.clone(), workflow.name.clone());
        return Err(Stop::Refused(Refusal::VersionChanged { app, name, version: number }));
    }
    let lane = match known {
        Some(known) => {
            draft.row::<Refusal>(&RowKey::Def(known.lane))?;
            known.lane
        }
        None => draft.next_seq()?,
    };
    let def = Def {
        lane,
        ws: ws.clone(),
        app: workflow.app.clone(),
        name: workflow.name.clone(),
        version: number,
        body: body(workflow, number),
        released: known.and_then(|known| known.release),
        assigned: Some(assigned(known, workflow)),
        deployed: known.is_some_and(|known| known.def.deployed),
    };
    // If the definition of the current version has changed, it is released again, so that its new
    // limits apply. A definition without a number is always released, unless a manual release is in
    // force.
    let current = entry.and_then(|entry| entry.current.as_ref());
    let is_current = current.is_some_and(|current| current.version.lane == lane);
    let held = entry.is_some_and(Entry::holds_release);
    let deployed = workflow.version.is_none() && !held;
    let released = if number > entry.map_or(0, Entry::highest) || is_current || deployed {
        Some(release_def(draft, &catalog, def, workflow, By::Registration)?)
    } else {
        draft.define(def)?;
        None
    };
    Ok(Registered { version: number, lane, unchanged: false, released })
}

/// Registers a definition that is already registered with the same number.
fn register_again(
    draft: &mut Draft,
    entry: &Entry,
    known: &Version,
    workflow: &Definition,
) -> Decided<Registered> {
    let (ws, version, lane) = (&known.def.ws, known.number, known.lane);
    let (body, assigned) = (body(workflow, version), Some(assigned(Some(known), workflow)));
    let def = Def { body, assigned, ..Def::clone(&known.def) };
    let changed = def != *known.def;
    if changed {
        draft.row::<Refusal>(&RowKey::Def(lane))?;
    }
    let is_current = entry.open().is_some_and(|current| current.version.lane == lane);
    let released = if workflow.version.is_none() && !is_current && !entry.holds_release() {
        draft.row::<Refusal>(&RowKey::Def(lane))?;
        let catalog = draft.definitions(ws)?;
        Some(release_def(draft, &catalog, def, workflow, By::Registration)?)
    } else {
        if changed {
            draft.define(def)?;
        }
        None
    };
    Ok(Registered { version, lane, unchanged: true, released })
}

/// Returns the version number for a definition without one. If it was registered before, this is
/// the number of that version, preferably of the current one; otherwise the next number.
///
/// The search goes from the newest version back, and ends at a version whose number the author
/// gave, unless that is the highest version.
fn assign(entry: &Entry, workflow: &Definition, dev: bool) -> u32 {
    let newest_first = || entry.versions.values().rev();
    let given = newest_first().position(|version| !version.is_assigned());
    let candidates = newest_first().take(given.map_or(usize::MAX, |given| given.max(1)));
    let current = entry.current.as_ref().map(|current| current.version.number);
    let known = candidates
        .filter(|version| is_known(version, workflow, version.number))
        .max_by_key(|version| (Some(version.number) == current, version.number));
    let replaced = newest_first().next().filter(|version| dev && version.is_assigned());
    known.or(replaced).map_or(entry.highest() + 1, |version| version.number)
}

/// Whether a version counts as registered without a number. This stays true after code without a
/// number has registered it, because such code may be deployed again and has to serve its runs.
fn assigned(known: Option<&Version>, workflow: &Definition) -> bool {
    let before = known.is_some_and(|known| known.def.assigned == Some(true));
    before || workflow.version.is_none()
}

/// Releases a registered version: new runs get it from now on. Also used for a rollback.
pub fn release(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    name: &str,
    number: u32,
) -> Decided<Released> {
    let catalog = draft.definitions(ws)?;
    let version = catalog.entry(app, name).and_then(|entry| entry.versions.get(&number));
    let Some(version) = version else {
        let (app, name) = (app.to_owned(), name.to_owned());
        return Err(Stop::Refused(Refusal::NoVersion { app, name, version: number }));
    };
    let Some(Row::Def(def)) = draft.row(&RowKey::Def(version.lane))?.cloned() else {
        return Err(Stop::Refused(Refusal::NoWorkflow { app: app.into(), name: name.into() }));
    };
    let workflow: Definition = serde_json::from_str(def.body.as_str())
        .map_err(|error| Stop::Refused(Refusal::Unreadable(error.to_string())))?;
    pool::check(catalog.pools(), &workflow)?;
    release_def(draft, &catalog, def, &workflow, By::Hand)
}

/// Retires a workflow: it gets no new runs. Its existing runs, open windows and open buffers
/// continue under its controls. A later release ends the retirement.
pub fn retire(draft: &mut Draft, ws: &Workspace, app: &str, name: &str) -> Decided<Retired> {
    let catalog = draft.definitions(ws)?;
    let entry = catalog.entry(app, name);
    let Some((entry, current)) = entry.and_then(|entry| Some((entry, entry.open()?))) else {
        return Err(Stop::Refused(Refusal::NoWorkflow { app: app.into(), name: name.into() }));
    };
    let lane = match &entry.retired {
        Some(mark) => {
            draft.row::<Refusal>(&RowKey::Def(mark.lane))?;
            mark.lane
        }
        None => draft.next_seq()?,
    };
    let (ws, app, name) = (ws.clone(), app.to_owned(), name.to_owned());
    let (version, body, released) = (RETIRED, Payload::null(), Some(catalog.last_release() + 1));
    let (assigned, deployed) = (None, false);
    let mut live_runs = 0;
    for version in entry.versions.values() {
        let runs = live(draft, version.lane, false)?.len();
        live_runs += u32::try_from(runs).unwrap_or(u32::MAX);
    }
    let unscheduled = Definition { triggers: Vec::new(), ..Definition::clone(&current.workflow) };
    schedule::prune(draft, &ws, &unscheduled)?;
    draft.define(Def { lane, ws, app, name, version, body, released, assigned, deployed })?;
    Ok(Retired { live: live_runs })
}

/// Cause of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Registration,
    Hand,
}

fn release_def(
    draft: &mut Draft,
    catalog: &Catalog,
    mut def: Def,
    workflow: &Definition,
    by: By,
) -> Decided<Released> {
    lifecycle::begin(draft, catalog, &def.ws, workflow)?;
    let release = catalog.last_release() + 1;
    def.released = Some(release);
    def.deployed = by == By::Registration;
    let version = Version::new(def.clone().into());
    let current = Current::new(version, workflow.clone().into());
    let policy = workflow.handoff.as_ref().map(|handoff| handoff.on_new_version);
    let adopts = matches!(policy, Some(OnNewVersion::Supersede | OnNewVersion::Drain));
    let (mut older, mut lacking, mut stranded) = (0, Vec::new(), 0);
    // Code without a version number serves all versions with an assigned number, and will store
    // this in its engine row next.
    let registered = |other: &Version| {
        by == By::Registration && workflow.version.is_none() && other.is_assigned()
    };
    let Some(entry) = catalog.entry(&workflow.app, &workflow.name) else {
        // The workflow is new: there are no runs, gates or schedules that the release could change.
        draft.define(def)?;
        return Ok(Released { release, older, lacking, stranded });
    };
    let served = served(draft)?;
    for other in entry.versions.values() {
        if other.lane == current.version.lane {
            continue;
        }
        for run in live(draft, other.lane, adopts)? {
            older += 1;
            stranded += u32::from(!served.contains(&other.lane) && !registered(other));
            if adopts && !adopt(draft, &def.ws, &current, run.clone())? {
                lacking.push(run.id);
            }
        }
    }
    schedule::prune(draft, &def.ws, workflow)?;
    let numbered = CONTROLS.iter().filter(|control| control.is_numbered);
    let classes = numbered.flat_map(|control| control.classes).filter(|class| !class.is_pooled());
    let prefix = |class: &Class| GateKey::prefix(&def.ws, *class, &workflow.app, &workflow.name);
    renumber(draft, &def.ws, classes.map(prefix).collect(), |scope, own| {
        let numbers = Numbers::Of(own);
        let limit = (control::owner(scope.class).limit)(Some(workflow), scope, numbers);
        catalog.overrides().open(scope, limit)
    })?;
    draft.define(def)?;
    Ok(Released { release, older, lacking, stranded })
}

/// Returns the live runs of a version, including runs written in this transaction.
fn live(draft: &Draft, lane: Seq, adopts: bool) -> Decided<Vec<Run>> {
    let scan = Scan::Lane(lane, Seq(i64::MIN));
    let rows = if draft.is_new(lane) {
        // A new lane has no stored runs. It must not be read, because its number is different if
        // the transaction is retried.
        Vec::new()
    } else if adopts {
        draft.found_all(&scan, MAX_COUNTED)?
    } else {
        draft.found(&scan, MAX_COUNTED)?
    };
    let (from, to) = (RowKey::Run(Seq(i64::MIN)), RowKey::Run(Seq(i64::MAX)));
    let rows = rows.into_iter().chain(draft.written(from, to));
    let mut runs: Vec<Run> =
        rows.filter_map(Row::as_run).filter(|run| run.lane == lane).cloned().collect();
    runs.sort_by_key(|run| run.id.seq);
    runs.dedup_by_key(|run| run.id.seq);
    Ok(runs)
}

/// Gives an older run its hold on the handoff gate of the new definition. The key is read from the
/// run's stored input (spec versions). Returns `false` if the input does not have the key.
fn adopt(draft: &mut Draft, ws: &Workspace, current: &Current, run: Run) -> Decided<bool> {
    if run.purpose != Purpose::Ordinary {
        return Ok(true); // it has no gates of its own, and no run replaces it
    }
    let Some(event) = draft.event(run.source.first())?.cloned() else { return Ok(false) };
    let candidate = Candidate {
        ws: ws.clone(),
        current,
        event: &event,
        // The origin does not matter: only the gate plan is used.
        origin: Origin::Invoke,
        parent: None,
        function_key: Some(Key::Missing),
        batch: run.batch_costs.clone(),
        // Only the gate of the handoff is used.
        pools: Pools::default(),
        results: Results::default(),
    };
    let Ok(steps) = candidate.plan() else { return Ok(false) };
    let mut gates = steps.iter().map(|step| &step.planned.gate);
    let gate = gates.find(|gate| gate.class() == Some(Class::Handoff)).cloned();
    let Some(key) = gate else { return Ok(false) };
    // The scan took no lock, and the run may have changed since: it is read again under lock.
    let Some(mut run) = draft.run(run.id.seq)?.cloned() else { return Ok(true) };
    if run.plan.iter().any(|need| need.gate == key) {
        return Ok(true);
    }
    // Gates are taken in one order, so that no two runs wait for each other, and a hold that is
    // given is no exception: a run that has yet to pass a gate before this one gets none.
    if run.plan.get(run.entered).is_some_and(|next| next.gate.comes_before(&key)) {
        return Ok(true);
    }
    let mut row = match draft.gate(&key)? {
        Some(row) => row.clone(),
        None => Gate {
            key: key.clone(),
            id: draft.next_seq()?,
            at: draft.now(),
            due: None,
            state: GateState::Slots(Slots::default()),
        },
    };
    if let GateState::Slots(slots) = &mut row.state {
        let draining = run.phase == Phase::Stopping;
        slots.holders.push(Hold { draining, ..Hold::new(run.id, 1) });
    }
    draft.put(row);
    // Inserted after the gates that the run holds until its end, and before those that it releases
    // while it waits.
    let held = run.plan.iter().take(run.entered).take_while(|need| need.span == Span::Run).count();
    run.plan.insert(held, PlannedGate::new(key, Span::Run));
    run.entered += 1;
    draft.put(run);
    Ok(true)
}

/// Applies new limits to the existing gates whose keys begin with these prefixes: converts meters to
/// the new rates, and makes gates with a queue due. A chore does so with the gates beyond the first
/// [`MAX_RENUMBERED`] of each prefix.
pub(crate) fn renumber(
    draft: &mut Draft,
    ws: &Workspace,
    prefixes: Vec<Vec<u8>>,
    limit: impl Fn(&Scope, RowNumbers<'_>) -> Limit,
) -> Decided<()> {
    let (mut keys, mut rest) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        // After the prefix comes a length, whose first byte is never 255.
        let last = GateKey::from_bytes(&[&prefix[..], &[u8::MAX]].concat());
        let first = GateKey::from_bytes(&prefix);
        let found = draft.found(&Scan::Gates(prefix), MAX_RENUMBERED)?;
        let full = found.len() >= MAX_RENUMBERED as usize;
        let found: Vec<GateKey> = found.into_iter().filter_map(key_of).collect();
        rest.extend(found.last().filter(|_| full).map(|key| (key.clone(), last.clone())));
        let written = draft.written(RowKey::Gate(first), RowKey::Gate(last)).filter_map(key_of);
        keys.extend(found.into_iter().chain(written));
    }
    keys.sort();
    keys.dedup();
    for key in keys {
        renumber_gate(draft, &key, &limit)?;
    }
    if !rest.is_empty() {
        chore::leave(draft, ws, None, Work::Renumber { rest })?;
    }
    Ok(())
}

fn key_of(row: &Row) -> Option<GateKey> {
    row.as_gate().map(|gate| gate.key.clone())
}

/// Applies the current limits to gates beyond those that [`renumber`] has processed, as many as fit
/// into the transaction. Returns the ranges that are left: after one key, up to another.
pub(crate) fn renumber_rest(
    draft: &mut Draft,
    ws: &Workspace,
    mut rest: Vec<(GateKey, GateKey)>,
) -> Decided<Vec<(GateKey, GateKey)>> {
    let Some((after, to)) = rest.first().cloned() else { return Ok(rest) };
    let catalog = draft.catalog(ws)?;
    let from = [after.as_bytes(), &[0]].concat();
    let scan = Scan::GatesBetween(from, to.as_bytes().to_vec());
    let found = draft.found(&scan, MAX_RENUMBERED)?.into_iter();
    let found: Vec<GateKey> = found.filter_map(key_of).collect();
    for key in &found {
        renumber_gate(draft, key, &|scope, own| catalog.open_limit(scope, own))?;
    }
    match found.last().filter(|_| found.len() >= MAX_RENUMBERED as usize) {
        Some(last) => rest[0].0 = last.clone(),
        None => drop(rest.remove(0)),
    }
    Ok(rest)
}

fn renumber_gate(
    draft: &mut Draft,
    key: &GateKey,
    limit: &impl Fn(&Scope, RowNumbers<'_>) -> Limit,
) -> Decided<()> {
    let now = draft.now();
    let Some(before) = draft.gate(key)?.cloned() else { return Ok(()) };
    let Some(scope) = key.scope() else { return Ok(()) };
    let limit = limit(&scope, before.state.numbers());
    let renumber = |meters: &mut Meters| {
        if let Limit::Rates(rates) = &limit {
            *meters = all_of_today(meters, rates, now);
        }
    };
    let mut gate = before.clone();
    let waiting = match &mut gate.state {
        GateState::Slots(slots) => slots.head.is_some() || !slots.folds.is_empty(),
        GateState::Turns(turns) => {
            renumber(&mut turns.meters);
            turns.head.is_some()
        }
        GateState::Meter(meters) => {
            renumber(meters);
            false
        }
        GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => false,
    };
    gate.due = if waiting { Some(now) } else { gate.due };
    if gate != before {
        draft.put(gate);
    }
    Ok(())
}

/// Defines or changes a reaction. An unchanged definition is not written again.
pub fn define_reaction(draft: &mut Draft, ws: &Workspace, reaction: &Reaction) -> Decided<()> {
    let catalog = draft.definitions(ws)?;
    let value = serde_json::to_value(reaction).expect("a reaction is serializable");
    let body = Payload::from_value(&value);
    let known = catalog.reaction_def(&reaction.name);
    if known.is_some_and(|known| known.body == body) {
        return Ok(());
    }
    let lane = match known {
        Some(known) => {
            draft.row::<Refusal>(&RowKey::Def(known.lane))?;
            known.lane
        }
        None => draft.next_seq()?,
    };
    let (ws, name) = (ws.clone(), reaction.name.clone());
    let (app, version) = (REACTIONS.to_owned(), 1);
    let (released, assigned, deployed) = (None, None, false);
    draft.define(Def { lane, ws, app, name, version, body, released, assigned, deployed })
}

/// Whether a version has this definition. A changed description or schema makes no new version,
/// because these fields have no effect on runs.
fn is_known(version: &Version, workflow: &Definition, number: u32) -> bool {
    let workflow = Definition { version: Some(number), ..workflow.clone() };
    version.workflow().is_some_and(|known| known.works_like(&workflow))
}

/// Returns the stored form of a definition, with its given or assigned version number.
fn body(workflow: &Definition, version: u32) -> Payload {
    let workflow = Definition { version: Some(version), ..workflow.clone() };
    let value = serde_json::to_value(&workflow).expect("a definition is serializable");
    Payload::from_value(&value)
}
