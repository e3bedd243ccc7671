//! Gates: holders, queues, and the handover of a slot.
//!
//! A run enters its gates one after another in one fixed order (spec G9). While it waits for the
//! next gate, it holds the gates that it has entered. The transaction that frees a slot gives it to
//! the next run in the queue; no run polls for a slot. Invariant after every decision: a gate with
//! room and a queue has a due time at which the sweep processes it.

use crate::{
    catalog::Limit,
    draft::{Decided, Draft},
    flow::{
        adaptive,
        meter::{self, Ahead, stamp_all, stamp_turn},
        pause, queue, share,
    },
    id::{RunId, Seq},
    reads::Scan,
    row::{
        Class, Costs, Gate, GateKey, GateState, Hold, Phase, Place, PlannedGate, Rank, Row, RowKey,
        Run, Slots, Span, Turn, Turns,
    },
    time::Timestamp,
};

/// Time after which the row of an empty gate is deleted. It is not deleted at once, because a busy
/// key would create it again and again.
pub const IDLE_MS: u64 = 60_000;

/// Maximum number of runs that a gate admits in one transaction, so that a transaction does not
/// grow with the length of a queue. The sweep admits the next ones.
const SERVED_AT_ONCE: usize = 256;

/// Enters the remaining gates of a run's plan, up to the first full one. Past the last gate the run
/// is ready.
pub fn advance<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    while let Some(need) = run.plan.get(run.entered).cloned() {
        if (run.pausing || run.is_after()) && need.span != Span::Run {
            break;
        }
        if need.span == Span::Start && run.started && !need.is_of_steps() {
            run.entered += 1;
            continue;
        }
        if need.span != Span::Run
            && let Some(pause) = pause::of(draft, &run)?
        {
            return pause::wait(draft, run, &pause);
        }
        if need.gate.class() == Some(Class::Pause) {
            pause::leave(&mut run); // the pause is over
            continue;
        }
        let mut gate = gate_of(draft, &need)?;
        let limit = limit(draft, &gate)?;
        gate.at = gate.at.max(draft.now());
        cut_off(&mut gate.state, &limit, draft.now());
        // A run that is before the whole queue may fit where the head, which costs more, does not.
        // At a fair gate its place is known only when it joins.
        let is_behind = |head| need.share.is_some() || head < place(&need, run.rank);
        let waiting = head(&gate.state).is_some_and(is_behind);
        let offered = if waiting {
            Err(None)
        } else {
            offer(&mut gate.state, run.id, &need.costs, &limit, draft.now())
        };
        match offered {
            Ok(()) => {
                move_up(draft, &gate, &mut run)?;
                adaptive::enter(draft, &gate, &mut run)?;
                draft.put(gate);
                run.entered += 1;
            }
            Err(due) => {
                join(draft, &mut gate, &mut run, &need)?;
                // A queue at a gate with room is a transient state; the sweep must process it.
                let due = if waiting { first_due(&gate.state, &limit, draft.now()) } else { due };
                gate.due = earlier(gate.due, due);
                draft.put(gate);
                draft.put(run);
                // The run may be the next one by its tag, and cost less than the first run before.
                let enters = waiting && need.share.is_some() && due == Some(draft.now());
                return if enters { settle(draft, &need.gate) } else { Ok(()) };
            }
        }
    }
    if !run.pausing
        && !run.is_after()
        && let Some(pause) = pause::of(draft, &run)?
    {
        return pause::wait(draft, run, &pause);
    }
    run.phase = match (run.pausing, run.is_after()) {
        (true, _) => Phase::Paused,
        (false, true) => Phase::Waiting,
        (false, false) => Phase::Ready,
    };
    draft.put(run);
    Ok(())
}

/// Returns a run's position in a queue. Queues are ordered by rank; the queue of a session or a
/// schedule is ordered only by arrival (spec policies).
fn place(need: &PlannedGate, rank: Rank) -> Place {
    let by_arrival = Rank { at: Timestamp::default(), ..rank };
    let arbitrated = need.gate.class().is_some_and(Class::is_arbitrated);
    Place { tier: need.tier, rank: if arbitrated { by_arrival } else { rank } }
}

/// Releases all gates of a run except the first `keep` of its plan, and hands the slots on.
///
/// If the run is queued, it leaves the queue.
pub fn release<E>(draft: &mut Draft, run: &mut Run, keep: usize) -> Decided<(), E> {
    let freed = vacate(draft, run, keep)?;
    hand_on(draft, freed)
}

/// Releases the slots and the throttle turn of a run that must not start or continue yet. Returns
/// `false` if the run is queued at a run gate: it has none of them yet. It stays in that queue,
/// because a second run of a singleton must find it there.
pub fn hold_back<E>(draft: &mut Draft, run: &mut Run) -> Decided<bool, E> {
    let queued = matches!(run.phase, Phase::Queued { .. });
    if queued && run.plan.get(run.entered).is_some_and(|need| need.span == Span::Run) {
        return Ok(false);
    }
    let keep = run.kept().min(run.entered);
    release(draft, run, keep)?;
    Ok(true)
}

/// Releases the executing gates of a run that will continue later, and queues it for them again.
///
/// The run is queued before the slots are handed on. So it gets its slot back if no run with a
/// better rank waits.
pub fn requeue<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    let keep = run.executing().min(run.entered);
    let freed = vacate(draft, &mut run, keep)?;
    if run.plan.len() == run.entered {
        return advance(draft, run);
    }
    queue_up(draft, run)?;
    settle_all(draft, freed)
}

/// Adds a run to the queue of its next gate.
pub(super) fn queue_up<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    let need = run.plan.get(run.entered).cloned().expect("the run has another gate to enter");
    let mut gate = gate_of(draft, &need)?;
    join(draft, &mut gate, &mut run, &need)?;
    draft.put(gate);
    draft.put(run);
    Ok(())
}

/// As [`release`], but does not hand the slots on: returns the gates for which the caller does it.
pub fn vacate<E>(draft: &mut Draft, run: &mut Run, keep: usize) -> Decided<Vec<GateKey>, E> {
    let mut touched: Vec<GateKey> = Vec::new();
    if let (Phase::Queued { place, .. }, Some(need)) = (run.phase, run.plan.get(run.entered)) {
        let (key, shared) = (need.gate.clone(), need.share.is_some());
        let changes = |gate: &&Gate| shared || is_counted(&gate.state);
        if let Some(mut gate) = draft.gate(&key)?.filter(changes).cloned() {
            leave_queue(draft, &mut gate, run, place)?;
            draft.put(gate);
        }
        touched.push(key);
    }
    for need in run.plan.iter().take(run.entered).skip(keep) {
        if let Some(gate) = draft.gate(&need.gate)? {
            let mut gate = gate.clone();
            gate.at = gate.at.max(draft.now());
            adaptive::leave(draft, &mut gate, need)?;
            leave(&mut gate.state, run.id);
            draft.put(gate);
        }
        touched.push(need.gate.clone());
    }
    run.plan.iter_mut().take(run.entered).skip(keep).for_each(|need| need.calls.clear());
    run.entered = run.entered.min(keep);
    run.phase = Phase::Waiting;
    draft.put(run.clone());
    Ok(touched)
}

/// Admits the next runs at each of the gates, in the order in which runs take them: a run that is
/// admitted at one gate and has the best rank at the next one is not passed over there. So the
/// gates that the command has set aside are among them.
pub fn hand_on<E>(draft: &mut Draft, mut gates: Vec<GateKey>) -> Decided<(), E> {
    gates.extend(draft.take_aside());
    settle_all(draft, gates)
}

/// Admits the next runs at each of the gates, without those that are set aside: a run that is queued
/// again gets its own slots back before runs of a worse rank come from other gates.
pub(super) fn settle_all<E>(draft: &mut Draft, mut gates: Vec<GateKey>) -> Decided<(), E> {
    gates.sort_by_cached_key(|gate| (gate.scope().map(|scope| scope.order()), gate.clone()));
    gates.dedup();
    gates.into_iter().try_for_each(|gate| settle(draft, &gate))
}

/// Adds a run to a gate's queue, at its position.
fn join<E>(
    draft: &mut Draft,
    gate: &mut Gate,
    run: &mut Run,
    need: &PlannedGate,
) -> Decided<(), E> {
    let joined = share::join(draft, gate, run, need)?;
    if joined.as_ref().is_some_and(|joined| joined.swapped) {
        // The first run of the queue may be another one now, for which there is room.
        gate.due = Some(draft.now());
    }
    let place = joined.map_or_else(|| place(need, run.rank), |joined| joined.place);
    let from_queue = matches!(run.phase, Phase::Queued { gate: earlier, .. } if earlier != gate.id);
    if from_queue && need.span == Span::Run {
        run.plan[run.entered].after_queue = true;
    }
    run.phase = Phase::Queued { gate: gate.id, place };
    count_up(&mut gate.state, need.bounded);
    lower_head(&mut gate.state, Some((place, need.costs.clone())));
    Ok(())
}

/// Removes a run that will not be admitted from a gate's queue. The caller changes its phase.
fn leave_queue<E>(draft: &mut Draft, gate: &mut Gate, run: &Run, place: Place) -> Decided<(), E> {
    count_down(&mut gate.state);
    let next = share::leave(draft, gate, run, place)?;
    lower_head(&mut gate.state, next);
    Ok(())
}

/// Marks the holds of a cancelled run as draining: its worker has not confirmed the stop yet.
pub fn drain<E>(draft: &mut Draft, run: &Run) -> Decided<(), E> {
    for need in run.plan.iter().take(run.entered) {
        let Some(gate) = draft.gate(&need.gate)? else { continue };
        let mut gate = gate.clone();
        if let GateState::Slots(slots) = &mut gate.state {
            let holds = slots.holders.iter_mut().filter(|hold| hold.run == run.id);
            holds.for_each(|hold| hold.draining = true);
            // Folds that waited for the end of this run can be flushed now. Their runs start when
            // it has stopped.
            if !slots.folds.is_empty() {
                gate.due = Some(draft.now());
            }
        }
        draft.put(gate);
    }
    Ok(())
}

/// Admits the next runs while there is room, and sets the gate's due time.
pub fn settle<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    draft.expect_queue(key);
    let mut is_left_over = None;
    for _ in 0..SERVED_AT_ONCE {
        let Some(gate) = draft.gate(key)? else { return Ok(()) };
        let mut gate = gate.clone();
        gate.state.reopen(draft.now());
        if is_left_over.map_or_else(|| share::is_left_over(draft, &gate), Ok)? {
            let best = share::give_up(draft, &mut gate)?;
            lower_head(&mut gate.state, best);
            draft.put(gate);
            if draft.is_crowded() {
                break;
            }
            continue;
        }
        is_left_over = Some(false);
        let first = if head(&gate.state).is_some() { draft.head_of_queue(&gate)? } else { None };
        let Some((place, seq)) = first else {
            set_head(&mut gate.state, None);
            return rest(draft, gate);
        };
        let run = draft.run(seq)?.cloned();
        let mut run = run.expect("a run in a queue has a row");
        let limit = limit(draft, &gate)?;
        let costs = run.plan.get(run.entered).map(|need| need.costs.clone()).unwrap_or_default();
        set_head(&mut gate.state, Some((place, &costs)));
        if let Some(pause) = pause::displaces(draft, &run, &limit)? {
            leave_queue(draft, &mut gate, &run, place)?;
            draft.put(gate);
            pause::wait(draft, run, &pause)?;
            continue;
        }
        if key.class() == Some(Class::Pause) && limit == Limit::Open {
            draft.put(gate);
            pause::leave(&mut run);
            advance(draft, run)?;
            continue;
        }
        cut_off(&mut gate.state, &limit, draft.now());
        if let Err(due) = offer(&mut gate.state, run.id, &costs, &limit, draft.now()) {
            gate.due = due;
            // A run may have left the full queue that has refused a fold.
            if queue::flushable(draft, &gate)?.is_some() {
                gate.due = Some(draft.now());
            }
            // The sweep compares `at` with the clock, to detect that the clock stepped back.
            gate.at = gate.at.max(draft.now());
            draft.put(gate);
            return Ok(());
        }
        move_up(draft, &gate, &mut run)?;
        adaptive::enter(draft, &gate, &mut run)?;
        count_down(&mut gate.state);
        let next = share::serve(draft, &mut gate, &run, place)?;
        lower_head(&mut gate.state, next);
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

/// Spends the throttle turns of a run that is leased: its own at the first lease, that of a step
/// at the lease for which the run has queued for the step.
pub fn start<E>(draft: &mut Draft, run: &Run) -> Decided<(), E> {
    let turns = run.plan.iter().take(run.entered).filter(|need| need.span == Span::Start);
    let turns = turns.filter(|need| !run.started || need.is_of_steps());
    for (gate, costs) in turns.map(|need| (need.gate.clone(), need.costs.clone())) {
        let Some(row) = draft.gate(&gate)? else { continue };
        let mut row = row.clone();
        // A pool that is paused counts the runs that have their turn.
        let catalog = draft.catalog(&run.ws)?;
        let limit = gate.scope().map(|scope| catalog.open_limit(&scope, row.state.numbers()));
        let now = draft.now();
        if let GateState::Turns(turns) = &mut row.state {
            turns.pending.retain(|turn| turn.run != run.id.seq);
            if let Some(Limit::Rates(rates)) = limit {
                turns.meters = stamp_all(&turns.meters, &rates, &costs, now, stamp_turn);
            }
        }
        row.at = row.at.max(now);
        draft.put(row);
        settle(draft, &gate)?;
    }
    Ok(())
}

/// Processes a gate that is due: admits the next runs, and deletes an idle gate.
pub fn sweep<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    let Some(gate) = draft.gate(key)? else { return Ok(()) };
    // `settle` computes the next due time.
    let gate = Gate { due: None, ..gate.clone() };
    draft.put(gate);
    settle(draft, key)?;
    let idle_until = draft.gate(key)?.and_then(idle_until);
    if idle_until.is_some_and(|until| until <= draft.now()) {
        draft.delete(RowKey::Gate(key.clone()));
    }
    Ok(())
}

/// Returns the run because of which a new run is skipped or replaces: a holder that is not
/// draining, or else the head of the queue.
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

/// Adjusts a throttle's meter to the current rate and clock, and opens a gate whose closing is over.
/// Stored also where no run is admitted: a meter that is too far ahead is capped once; otherwise it
/// would stay as far ahead of the clock.
pub(super) fn cut_off(state: &mut GateState, limit: &Limit, now: Timestamp) {
    state.reopen(now);
    if let (GateState::Turns(turns), Limit::Rates(rates)) = (state, limit) {
        turns.meters = meter::all_of_today(&turns.meters, rates, now);
    }
}

/// Admits a run if there is room. Otherwise returns the time at which there will be room, or `None`
/// if that depends on a holder.
fn offer(
    state: &mut GateState,
    run: RunId,
    costs: &Costs,
    limit: &Limit,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    room(state, costs, limit, now)?;
    match state {
        GateState::Slots(slots) => {
            slots.holders.push(Hold::new(run, costs.one()));
        }
        GateState::Turns(turns) => {
            turns.pending.push(Turn { run: run.seq, costs: costs.clone() });
        }
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {}
    }
    Ok(())
}

/// Checks for room. Otherwise returns the time at which there will be, or `None` if that depends on
/// a holder.
pub(super) fn room(
    state: &GateState,
    costs: &Costs,
    limit: &Limit,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    if *limit == Limit::Closed {
        return Err(None);
    }
    if let Some(closed) = state.closed(now) {
        return Err(Some(closed.until));
    }
    match (state, limit) {
        (GateState::Slots(slots), Limit::Slots(limit)) if !slots.fits(costs.one(), *limit) => {
            Err(None)
        }
        (GateState::Turns(turns), Limit::Rates(rates)) => {
            let ahead = Ahead { through: &turns.pending, queued: 0 };
            meter::all_conform(&turns.meters, rates, ahead, costs, now)
        }
        (_, Limit::Slots(_) | Limit::Rates(_) | Limit::Open | Limit::Closed) => Ok(()),
    }
}

/// Returns when there is room for the first run of the queue; none if that depends on a holder.
fn first_due(state: &GateState, limit: &Limit, now: Timestamp) -> Option<Timestamp> {
    let costs = match state {
        GateState::Slots(slots) => &slots.wanted,
        GateState::Turns(turns) => &turns.wanted,
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {
            return None;
        }
    };
    room(state, costs, limit, now).map_or_else(|due| due, |()| Some(now))
}

pub(super) fn leave(state: &mut GateState, run: RunId) {
    match state {
        GateState::Slots(slots) => slots.holders.retain(|hold| hold.run != run),
        GateState::Turns(turns) => turns.pending.retain(|turn| turn.run != run.seq),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {}
    }
}

pub(super) fn head(state: &GateState) -> Option<Place> {
    match state {
        GateState::Slots(slots) => slots.head,
        GateState::Turns(turns) => turns.head,
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {
            None
        }
    }
}

/// Counts a run that joins the queue. Counting begins with the first run of a queue, if the run's
/// limit has a bound. A queue that was not counted from its first run on is counted when the bound
/// is checked.
fn count_up(state: &mut GateState, bounded: bool) {
    if let GateState::Slots(slots) = state {
        let first = bounded && slots.head.is_none();
        slots.waiting = slots.waiting.or(first.then_some(0)).map(|waiting| waiting + 1);
    }
}

/// Counts a run that leaves the queue.
fn count_down(state: &mut GateState) {
    if let GateState::Slots(Slots { waiting: Some(waiting), .. }) = state {
        *waiting = waiting.saturating_sub(1);
    }
}

fn is_counted(state: &GateState) -> bool {
    matches!(state, GateState::Slots(Slots { waiting: Some(_), .. }))
}

/// Whether a run that takes one unit would get a slot.
pub fn has_room<E>(draft: &Draft, gate: &Gate) -> Decided<bool, E> {
    let limit = limit(draft, gate)?;
    Ok(room(&gate.state, &Costs::default(), &limit, draft.now()).is_ok())
}

/// Whether runs are queued at the gate.
pub fn has_queue(gate: &Gate) -> bool {
    head(&gate.state).is_some()
}

/// Returns how many of the first `most` runs in a gate's queue would enter under a limit now.
pub fn would_enter<E>(draft: &Draft, gate: &Gate, limit: &Limit, most: usize) -> Decided<u32, E> {
    let now = draft.now();
    let mut state = gate.state.clone();
    cut_off(&mut state, limit, now);
    if first_due(&state, limit, now) != Some(now) {
        return Ok(0);
    }
    let rows = draft.found(&Scan::Queue(gate.key.clone()), u32::try_from(most).unwrap_or(1))?;
    let mut entered = 0;
    for run in rows.into_iter().filter_map(Row::as_run).take(most) {
        let costs = run.plan.get(run.entered).map(|need| need.costs.clone());
        if offer(&mut state, run.id, &costs.unwrap_or_default(), limit, now).is_err() {
            break;
        }
        entered += 1;
    }
    Ok(entered)
}

/// Whether an override or a run has closed the gate, so that no run enters.
pub fn is_closed<E>(draft: &Draft, gate: &Gate) -> Decided<bool, E> {
    Ok(gate.state.closed(draft.now()).is_some() || limit(draft, gate)? == Limit::Closed)
}

/// Sets the first position of the queue to this one, if it is earlier.
fn lower_head(state: &mut GateState, at: Option<(Place, Costs)>) {
    if let Some((place, costs)) = at
        && head(state).is_none_or(|head| place < head)
    {
        set_head(state, Some((place, &costs)));
    }
}

/// Sets the first position of the queue and the cost of the run there. An empty queue is not
/// counted, and forgets the turns of values.
fn set_head(state: &mut GateState, first: Option<(Place, &Costs)>) {
    let (place, costs) = first.unzip();
    let costs = costs.cloned().unwrap_or_default();
    if place.is_none() {
        state.set_served(None);
    }
    match state {
        GateState::Slots(slots) => {
            slots.waiting = slots.waiting.filter(|_| place.is_some());
            (slots.head, slots.wanted) = (place, costs);
        }
        GateState::Turns(turns) => (turns.head, turns.wanted) = (place, costs),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {}
    }
}

/// Sets the due time of a gate without a queue: now if folds wait for the gate, or else the time at
/// which it opens again, or its row may be deleted.
fn rest<E>(draft: &mut Draft, mut gate: Gate) -> Decided<(), E> {
    let idle_until = idle_until(&gate);
    if queue::flushable(draft, &gate)?.is_some() {
        gate.due = Some(draft.now());
    } else if let Some(closed) = gate.state.closed(draft.now()) {
        gate.due = Some(closed.until);
    } else if gate.due.is_none() {
        gate.due = idle_until;
    }
    draft.put(gate);
    Ok(())
}

/// Returns when the row of an unused gate may be deleted; none if the gate is in use.
fn idle_until(gate: &Gate) -> Option<Timestamp> {
    match &gate.state {
        GateState::Slots(Slots { holders, head: None, folds, closed, .. })
            if holders.is_empty() && folds.is_empty() && closed.is_none() =>
        {
            Some(gate.at.plus_ms(IDLE_MS))
        }
        GateState::Turns(Turns { meters, pending, head: None, closed, .. })
            if pending.is_empty() && closed.is_none() =>
        {
            let forgets_at = meter::all_forget_at(meters).unwrap_or(gate.at);
            let kept = meters.given.as_ref().map(|_| gate.at.plus_ms(IDLE_MS));
            Some(kept.map_or(forgets_at, |until| until.max(forgets_at)))
        }
        GateState::Slots(_)
        | GateState::Turns(_)
        | GateState::Meter(_)
        | GateState::Fold(_)
        | GateState::Claim(_)
        | GateState::Share(_) => None,
    }
}

/// Moves a run that was superseded before it started to the version that superseded it. If that
/// version has a new release number since, the run gets the current version.
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

/// Returns the gate's limit under the current release, with the numbers that an event has set.
pub(super) fn limit<E>(draft: &Draft, gate: &Gate) -> Decided<Limit, E> {
    match gate.key.scope() {
        Some(scope) => Ok(draft.catalog(&scope.ws)?.limit(&scope, gate.state.numbers())),
        None => Ok(Limit::Open),
    }
}

/// Returns a gate to which a run comes, with the run's numbers from data unless it has newer ones.
fn gate_of<E>(draft: &mut Draft, need: &PlannedGate) -> Decided<Gate, E> {
    let mut gate = gate_or_new(draft, &need.gate)?;
    gate.state.give(need.given.as_ref());
    Ok(gate)
}

/// Returns a gate; a new one if it has no row.
pub(super) fn gate_or_new<E>(draft: &mut Draft, key: &GateKey) -> Decided<Gate, E> {
    if let Some(gate) = draft.gate(key)? {
        return Ok(gate.clone());
    }
    let state = match key.class() {
        Some(class) if class.is_throttle() => GateState::Turns(Turns::default()),
        _ => GateState::Slots(Slots::default()),
    };
    Ok(Gate { key: key.clone(), id: draft.next_seq()?, at: draft.now(), due: None, state })
}

/// Sets the limits of the gates of an admitted run's plan by its data (spec L12). Returns the gates,
/// at which the caller admits the next runs.
pub(super) fn give<E>(draft: &mut Draft, plan: &[PlannedGate]) -> Decided<Vec<GateKey>, E> {
    let mut keys = Vec::new();
    for need in plan.iter().filter(|need| need.given.is_some()) {
        let gate = gate_of(draft, need)?;
        let at = gate.at.max(draft.now());
        draft.put(Gate { at, ..gate });
        keys.push(need.gate.clone());
    }
    Ok(keys)
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Returns the sequence numbers of all holders of a gate, or of all runs with a turn.
pub fn holders(gate: &Gate) -> Vec<Seq> {
    match &gate.state {
        GateState::Slots(slots) => slots.holders.iter().map(|hold| hold.run.seq).collect(),
        GateState::Turns(turns) => turns.pending.iter().map(|turn| turn.run).collect(),
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {
            Vec::new()
        }
    }
}
