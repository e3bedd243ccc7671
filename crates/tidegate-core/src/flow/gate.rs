//! Gates: holders, queues, and the handover of a slot.
//!
//! A run passes its gates one after another in one fixed order (spec G9) and keeps what it has
//! while it waits for the next. The transaction that frees a place names the next holder; nothing
//! polls for a slot. What always holds after a decision: a gate with room and a line has a due
//! time at which the sweep looks at it.

use crate::{
    catalog::Limit,
    draft::{Decided, Draft},
    flow::meter,
    id::{RunId, Seq},
    row::{
        Class, Gate, GateKey, GateState, Hold, Phase, Place, PlannedGate, Rank, RowKey, Run, Slots,
        Span, Turns,
    },
    time::Timestamp,
};

/// How long an empty gate is kept, so that a busy key does not create and delete its row.
pub const IDLE_MS: u64 = 60_000;

/// How many a gate lets in at one look. The sweep goes on with the others, so that no transaction
/// grows with the length of a line.
const SERVED_AT_ONCE: usize = 256;

/// Takes the gates that a run still needs, as far as they let it in; then it is ready.
pub fn advance<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    while let Some(need) = run.plan.get(run.entered).cloned() {
        if (run.pausing || run.is_after()) && need.span != Span::Run {
            break;
        }
        if need.span == Span::Start && run.started {
            run.entered += 1;
            continue;
        }
        let mut gate = gate_or_new(draft, &need.gate)?;
        let limit = limit(draft, &gate)?;
        gate.at = gate.at.max(draft.now());
        cut_off(&mut gate.state, limit, draft.now());
        let waiting = head(&gate.state).is_some();
        let offered =
            if waiting { Err(None) } else { offer(&mut gate.state, run.id, limit, draft.now()) };
        match offered {
            Ok(()) => {
                move_up(draft, &gate, &mut run)?;
                draft.put(gate);
                run.entered += 1;
            }
            Err(due) => {
                join(&mut gate, &mut run, &need);
                // A line with room is only seen in passing; the sweep must not miss it.
                let room = waiting && room(&gate.state, limit, draft.now()).is_ok();
                gate.due = earlier(gate.due, if room { Some(draft.now()) } else { due });
                draft.put(gate);
                draft.put(run);
                return Ok(());
            }
        }
    }
    run.phase = match (run.pausing, run.is_after()) {
        (true, _) => Phase::Paused,
        (false, true) => Phase::Waiting,
        (false, false) => Phase::Ready,
    };
    draft.put(run);
    Ok(())
}

/// Where a run stands in a line: by its rank, in that of a session or a schedule by arrival alone
/// (spec policies).
fn place(need: &PlannedGate, rank: Rank) -> Place {
    let by_arrival = Rank { at: Timestamp::default(), ..rank };
    let arbitrated = need.gate.class().is_some_and(Class::is_arbitrated);
    Place { tier: need.tier, rank: if arbitrated { by_arrival } else { rank } }
}

/// Gives back all that a run has beyond its first `keep` needs, and hands the places on.
///
/// A run that stands in a line leaves it.
pub fn release<E>(draft: &mut Draft, run: &mut Run, keep: usize) -> Decided<(), E> {
    let freed = vacate(draft, run, keep)?;
    hand_on(draft, freed)
}

/// Takes the slots and the throttle turn back from a run that must not start or go on yet. `false`
/// means that it has none: it is in the queue of a gate that it keeps to its end, and stays there
/// because others look for it there: a second run of a singleton must find it.
pub fn hold_back<E>(draft: &mut Draft, run: &mut Run) -> Decided<bool, E> {
    let queued = matches!(run.phase, Phase::Queued { .. });
    if queued && run.plan.get(run.entered).is_some_and(|need| need.span == Span::Run) {
        return Ok(false);
    }
    let keep = run.kept().min(run.entered);
    release(draft, run, keep)?;
    Ok(true)
}

/// Gives back the executing gates of a run that has to go on, and lets it stand in line again.
///
/// It stands there before the places are handed on, so that they go by rank, and to itself if no
/// older one waits.
pub fn requeue<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    let keep = run.executing().min(run.entered);
    let freed = vacate(draft, &mut run, keep)?;
    let Some(need) = run.plan.get(run.entered).cloned() else { return advance(draft, run) };
    let mut gate = gate_or_new(draft, &need.gate)?;
    join(&mut gate, &mut run, &need);
    draft.put(gate);
    draft.put(run);
    hand_on(draft, freed)
}

/// As [`release`], but hands nothing on yet: says which gates have to.
pub fn vacate<E>(draft: &mut Draft, run: &mut Run, keep: usize) -> Decided<Vec<GateKey>, E> {
    let mut touched: Vec<GateKey> = Vec::new();
    if let (Phase::Queued { .. }, Some(need)) = (run.phase, run.plan.get(run.entered)) {
        touched.push(need.gate.clone());
    }
    for need in run.plan.iter().take(run.entered).skip(keep) {
        if let Some(gate) = draft.gate(&need.gate)? {
            let mut gate = gate.clone();
            gate.at = gate.at.max(draft.now());
            leave(&mut gate.state, run.id);
            draft.put(gate);
        }
        touched.push(need.gate.clone());
    }
    run.entered = run.entered.min(keep);
    run.phase = Phase::Waiting;
    draft.put(run.clone());
    Ok(touched)
}

/// Lets in the next run at each of the gates.
pub fn hand_on<E>(draft: &mut Draft, mut gates: Vec<GateKey>) -> Decided<(), E> {
    gates.sort();
    gates.into_iter().try_for_each(|gate| settle(draft, &gate))
}

/// Puts a run into a gate's line, at its place.
fn join(gate: &mut Gate, run: &mut Run, need: &PlannedGate) {
    let place = place(need, run.rank);
    run.phase = Phase::Queued { gate: gate.id, place };
    let first = head(&gate.state).map_or(place, |head| head.min(place));
    set_head(&mut gate.state, Some(first));
}

/// Marks a run's holds as draining: it is cancelled, and its worker has not stopped yet.
pub fn drain<E>(draft: &mut Draft, run: &Run) -> Decided<(), E> {
    for need in run.plan.iter().take(run.entered) {
        let Some(gate) = draft.gate(&need.gate)? else { continue };
        let mut gate = gate.clone();
        if let GateState::Slots(slots) = &mut gate.state {
            let holds = slots.holders.iter_mut().filter(|hold| hold.run == run.id);
            holds.for_each(|hold| hold.draining = true);
            // The run has ended for the folds that it held up; theirs begins when it has stopped.
            if !slots.folds.is_empty() {
                gate.due = Some(draft.now());
            }
        }
        draft.put(gate);
    }
    Ok(())
}

/// Lets in the next runs, as far as there is room, and sets the time of the next look.
pub fn settle<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    draft.expect_queue(key);
    for _ in 0..SERVED_AT_ONCE {
        let Some(gate) = draft.gate(key)? else { return Ok(()) };
        let mut gate = gate.clone();
        let first = if head(&gate.state).is_some() { draft.head_of_queue(&gate)? } else { None };
        let Some((place, seq)) = first else {
            set_head(&mut gate.state, None);
            rest(draft, gate);
            return Ok(());
        };
        let run = draft.run(seq)?.cloned();
        let mut run = run.expect("a run in a line has a row");
        let limit = limit(draft, &gate)?;
        set_head(&mut gate.state, Some(place));
        cut_off(&mut gate.state, limit, draft.now());
        if let Err(due) = offer(&mut gate.state, run.id, limit, draft.now()) {
            gate.due = due;
            // The sweep tells by it that the clock has stepped back since.
            gate.at = gate.at.max(draft.now());
            draft.put(gate);
            return Ok(());
        }
        move_up(draft, &gate, &mut run)?;
        draft.put(gate);
        run.entered += 1;
        advance(draft, run)?;
    }
    if let Some(gate) = draft.gate(key)? {
        let gate = Gate { due: Some(draft.now()), ..gate.clone() };
        draft.put(gate);
    }
    Ok(())
}

/// Spends a run's throttle turn: it has been leased for the first time.
pub fn start<E>(draft: &mut Draft, run: &Run) -> Decided<(), E> {
    let turns = run.plan.iter().take(run.entered).filter(|need| need.span == Span::Start);
    for gate in turns.map(|need| need.gate.clone()) {
        let Some(row) = draft.gate(&gate)? else { continue };
        let mut row = row.clone();
        let limit = limit(draft, &row)?;
        let now = draft.now();
        if let GateState::Turns(turns) = &mut row.state {
            turns.pending.retain(|pending| *pending != run.id.seq);
            if let Limit::Rate(rate) = limit {
                turns.meter = Some(meter::stamp_turn(turns.meter, rate, now));
            }
        }
        row.at = row.at.max(now);
        draft.put(row);
        settle(draft, &gate)?;
    }
    Ok(())
}

/// Sweeps a gate that is due: lets in the next runs, and deletes a gate that is not used.
pub fn sweep<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    let Some(gate) = draft.gate(key)? else { return Ok(()) };
    // What is still to be done, and when, is found out anew.
    let gate = Gate { due: None, ..gate.clone() };
    draft.put(gate);
    settle(draft, key)?;
    let idle_until = draft.gate(key)?.and_then(idle_until);
    if idle_until.is_some_and(|until| until <= draft.now()) {
        draft.delete(RowKey::Gate(key.clone()));
    }
    Ok(())
}

/// Who keeps others out: somebody inside who has not been cancelled, else the first in line.
pub fn busy<E>(draft: &Draft, key: &GateKey) -> Decided<Option<RunId>, E> {
    let Some(gate) = draft.gate(key)? else { return Ok(None) };
    let GateState::Slots(slots) = &gate.state else { return Ok(None) };
    if let Some(hold) = slots.holders.iter().find(|hold| !hold.draining) {
        return Ok(Some(hold.run));
    }
    if slots.head.is_none() {
        return Ok(None);
    }
    let Some((_, seq)) = draft.head_of_queue(gate)? else { return Ok(None) };
    Ok(draft.run(seq)?.map(|run| run.id))
}

/// Brings a throttle's meter to the rate and the clock of today. Kept also where nobody is let in:
/// a meter that is too far ahead is cut off once, or it would stay as far ahead of the clock.
fn cut_off(state: &mut GateState, limit: Limit, now: Timestamp) {
    if let (GateState::Turns(turns), Limit::Rate(rate)) = (state, limit) {
        turns.meter = turns.meter.map(|meter| meter::of_today(meter, rate, now));
    }
}

/// Lets a run in if there is room; otherwise says when there will be, where time alone decides.
fn offer(
    state: &mut GateState,
    run: RunId,
    limit: Limit,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    room(state, limit, now)?;
    match state {
        GateState::Slots(slots) => slots.holders.push(Hold { run, draining: false }),
        GateState::Turns(turns) => turns.pending.push(run.seq),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) => {}
    }
    Ok(())
}

/// Whether one more can be let in; otherwise when, where time alone decides.
fn room(state: &GateState, limit: Limit, now: Timestamp) -> Result<(), Option<Timestamp>> {
    match (state, limit) {
        (GateState::Slots(slots), Limit::Slots(limit)) if slots.holders.len() >= limit as usize => {
            Err(None)
        }
        (GateState::Turns(turns), Limit::Rate(rate)) => {
            meter::conforms(turns.meter, rate, turns.pending.len(), now)
        }
        (_, Limit::Slots(_) | Limit::Rate(_) | Limit::Open) => Ok(()),
    }
}

fn leave(state: &mut GateState, run: RunId) {
    match state {
        GateState::Slots(slots) => slots.holders.retain(|hold| hold.run != run),
        GateState::Turns(turns) => turns.pending.retain(|pending| *pending != run.seq),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) => {}
    }
}

fn head(state: &GateState) -> Option<Place> {
    match state {
        GateState::Slots(slots) => slots.head,
        GateState::Turns(turns) => turns.head,
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) => None,
    }
}

fn set_head(state: &mut GateState, head: Option<Place>) {
    match state {
        GateState::Slots(slots) => slots.head = head,
        GateState::Turns(turns) => turns.head = head,
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) => {}
    }
}

/// Nobody waits: folds that were held get their chance, and an empty gate its end.
fn rest(draft: &mut Draft, mut gate: Gate) {
    let idle_until = idle_until(&gate);
    if let GateState::Slots(slots) = &gate.state
        && !slots.folds.is_empty()
        && !slots.holders.iter().any(|hold| !hold.draining)
    {
        gate.due = Some(draft.now());
    } else if gate.due.is_none() {
        gate.due = idle_until;
    }
    draft.put(gate);
}

/// When a gate that nobody uses may go; none while somebody does.
fn idle_until(gate: &Gate) -> Option<Timestamp> {
    match &gate.state {
        GateState::Slots(Slots { holders, head: None, folds, .. })
            if holders.is_empty() && folds.is_empty() =>
        {
            Some(gate.at.plus_ms(IDLE_MS))
        }
        GateState::Turns(Turns { meter, pending, head: None }) if pending.is_empty() => {
            Some(meter.map_or(gate.at, meter::forgets_at))
        }
        GateState::Slots(_)
        | GateState::Turns(_)
        | GateState::Meter(_)
        | GateState::Fold(_)
        | GateState::Claim(_) => None,
    }
}

/// A run that was superseded before it started starts on the version that did so, or on the
/// current one where that was released anew since.
fn move_up<E>(draft: &Draft, gate: &Gate, run: &mut Run) -> Decided<(), E> {
    let GateState::Slots(Slots { moved_to: Some(release), .. }) = &gate.state else {
        return Ok(());
    };
    let catalog = draft.catalog(&run.ws)?;
    let own = catalog.lane(run.lane).and_then(|version| version.release).unwrap_or(0);
    if run.keeps_version() || own >= *release {
        return Ok(());
    }
    let Some(entry) = catalog.entry(&run.app, &run.workflow) else { return Ok(()) };
    let moved_to = entry.versions.values().find(|version| version.release == Some(*release));
    let current = || entry.current.as_ref().map(|current| &current.version);
    if let Some(version) = moved_to.or_else(current) {
        run.set_version(version);
    }
    Ok(())
}

/// What the current release allows at this gate.
fn limit<E>(draft: &Draft, gate: &Gate) -> Decided<Limit, E> {
    match gate.key.scope() {
        Some(scope) => Ok(draft.catalog(&scope.ws)?.limit(&scope)),
        None => Ok(Limit::Open),
    }
}

fn gate_or_new<E>(draft: &mut Draft, key: &GateKey) -> Decided<Gate, E> {
    if let Some(gate) = draft.gate(key)? {
        return Ok(gate.clone());
    }
    let state = match key.class() {
        Some(Class::Throttle) => GateState::Turns(Turns::default()),
        _ => GateState::Slots(Slots::default()),
    };
    Ok(Gate { key: key.clone(), id: draft.next_seq()?, at: draft.now(), due: None, state })
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The sequence numbers of all who are inside.
pub fn holders(gate: &Gate) -> Vec<Seq> {
    match &gate.state {
        GateState::Slots(slots) => slots.holders.iter().map(|hold| hold.run.seq).collect(),
        GateState::Turns(turns) => turns.pending.clone(),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) => Vec::new(),
    }
}
