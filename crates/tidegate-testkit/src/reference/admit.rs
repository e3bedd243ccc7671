//! Arrival and creation of runs, in the order of spec A1, and the windows and buffers between the
//! two.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Fold, Item, Ordinal, Place, Reference, Run, State, Stop, Time, Told,
    events::listeners,
    fields::{
        cost, count, entries, from_data, holds, key_from, limit_name, limits, meter_place, metered,
        meters, ms, place, policy, policy_name, policy_place, pool_place, scoped, source, text,
        uses, version,
    },
};

/// A meter, and the costs of one event at its limits.
type Metered = (Place, Vec<i128>);

impl Reference {
    // ------------------------------------------------------------------ arrival (spec A1)

    /// Decides on one event. A run that finds a full queue displaces another one, or is refused
    /// with all its effects (spec L19).
    pub(super) fn arrive(&mut self, name: &str, data: &Value) -> Told {
        self.flush_overdue(name, data);
        let before = self.clone();
        let verdict = self.arrive_unbounded(name, data);
        let fresh = matches!(verdict.outcome, "started" | "replaced");
        match verdict.run.filter(|_| fresh) {
            Some(run) if !self.fits_queue(run) => {
                *self = before;
                told("rejected", None)
            }
            // A refused event has no effect of its own (spec A2).
            _ if matches!(verdict.outcome, "skipped" | "deduped") => {
                *self = before;
                verdict
            }
            _ => verdict,
        }
    }

    fn arrive_unbounded(&mut self, name: &str, data: &Value) -> Told {
        let def = self.current(name).clone();
        let meters = match self.check(name, &def, data) {
            Ok(meters) => meters,
            Err(refused) => return refused,
        };
        let fold = fold_of(name, &def, data);
        if let Some((control, place)) = &fold
            && let Some(told) = self.join(&def, control, place, data)
        {
            return told;
        }
        if meters.iter().any(|(meter, costs)| !self.conforms(meter, &[], costs)) {
            return told("dropped", None);
        }
        let told = match fold {
            Some((control, place)) if edge(&def, control) != "trailing" => {
                self.lead(name, &def, place, data)
            }
            Some((control, place)) => self.open(name, &def, control, place, data, None),
            None => self.create(name, data, None),
        };
        if !matches!(told.outcome, "skipped" | "deduped") {
            for (meter, costs) in &meters {
                self.spend(meter, costs);
            }
        }
        told
    }

    /// Refuses an event before it reaches a fold. Returns the meters that it has to pass, with its
    /// costs.
    fn check(&self, name: &str, def: &Value, data: &Value) -> Result<Vec<Metered>, Told> {
        let keyed = def.get("handoff").is_some_and(|handoff| handoff["type"] == "keyed");
        if keyed && key_from(data, &source(&def["handoff"], "keyField").expect("given")).is_none() {
            return Err(told("rejected", None));
        }
        let unread = limits(def).iter().any(|it| from_data(&it["limit"], data).is_none());
        if unread || shift(def, data).is_none() {
            return Err(told("rejected", None));
        }
        if self.never_fits(def, data, std::slice::from_ref(data)) {
            return Err(told("rejected", None));
        }
        let mut meters = Vec::new();
        for meter in meters_of(name, def, "rateLimit", data) {
            match costs(def, &meter.control, std::slice::from_ref(data)) {
                Some(costs) if !self.exceeds_burst(&meter, &costs) => meters.push((meter, costs)),
                _ => return Err(told("rejected", None)),
            }
        }
        if claim_of(name, def, data).is_some_and(|claim| self.claimed(&claim)) {
            return Err(told("deduped", None));
        }
        Ok(meters)
    }

    /// Adds an event to the open fold of its key, if there is one that still accepts events.
    fn join(&mut self, def: &Value, control: &str, place: &Place, data: &Value) -> Option<Told> {
        if let Some(run) = self.quiet_and_waiting(place) {
            // The run gets the claim of its last event.
            self.claims.retain(|_, (_, of)| *of != run);
            self.take(claim_of(&self.runs[run].workflow, def, data), def, run);
            self.runs[run].events = vec![data.clone()];
            for at in self.runs[run].passed..self.runs[run].way.len() {
                // The gates are those of the first event, the costs those of the last.
                let place = self.runs[run].way[at].1.clone();
                let first = place.clone();
                self.runs[run].costs[at] =
                    costs_at(def, &first, data, std::slice::from_ref(data)).expect("checked");
            }
            self.give(run, def, data);
            return Some(told("coalesced", Some(run)));
        }
        let at = self.folds.iter().position(|fold| fold.place == *place)?;
        let overdue = self.deadline(&self.folds[at]) <= self.now;
        let full = self.is_full(at, def, control, data);
        if (overdue || full) && self.folds[at].blocked.is_none() && self.flush(at) {
            self.settle();
            return match self.quiet_and_waiting(place) {
                Some(_) => self.join(def, control, place, data),
                None => None,
            };
        }
        let at = self.folds.iter().position(|fold| fold.place == *place)?;
        Some(self.add(at, def, data, None))
    }

    /// Flushes the fold of an event that comes after its deadline, or for which a window that makes
    /// a run of its first event has no room. The run of the flush is then before the event, so a
    /// refusal of the event does not undo that (spec A2).
    fn flush_overdue(&mut self, name: &str, data: &Value) {
        let def = self.current(name).clone();
        let Some((control, place)) = fold_of(name, &def, data) else { return };
        if self.quiet_and_waiting(&place).is_some() {
            return;
        }
        let Some(at) = self.folds.iter().position(|fold| fold.place == place) else { return };
        let overdue = self.deadline(&self.folds[at]) <= self.now;
        let leads = edge(&def, control) != "trailing";
        // A refused event flushes no window for lack of room (spec A2).
        let full =
            leads && self.is_full(at, &def, control, data) && self.check(name, &def, data).is_ok();
        if (overdue || full) && self.folds[at].blocked.is_none() && self.flush(at) {
            self.settle();
        }
    }

    /// Whether a fold has no room for one more event.
    fn is_full(&self, at: usize, def: &Value, control: &str, data: &Value) -> bool {
        // After a release with a smaller size, the buffer may be full already.
        let collects = collects(def, control);
        let most = count(&def[control], "maxSize").filter(|_| collects);
        let led = usize::from(self.folds[at].led);
        let items = self.folds[at].items.iter().skip(led).map(|item| item.data.clone());
        let together: Vec<Value> = items.chain([data.clone()]).collect();
        let full = most.is_some_and(|most| together.len() > most)
            || (collects && self.never_fits(def, data, &together));
        full && !self.folds[at].led_only()
    }

    /// Makes a run of an event, or adds it to a buffer, and opens a window for the events after it
    /// (spec L22).
    fn lead(&mut self, name: &str, def: &Value, place: Place, data: &Value) -> Told {
        let told = if def.get("batch").is_some() && is_collected(def, data) {
            let buffer = scoped(name, "batch", def, data);
            let joined = self.join(def, "batch", &buffer, data);
            joined.unwrap_or_else(|| self.open(name, def, "batch", buffer, data, None))
        } else {
            self.create(name, data, None)
        };
        if let Some(run) = told.run {
            let items = vec![Item { at: self.now, data: data.clone(), run }];
            let (workflow, control) = (name.to_owned(), "debounce");
            self.folds.push(Fold { place, workflow, control, items, led: true, blocked: None });
        }
        told
    }

    fn open(
        &mut self,
        name: &str,
        def: &Value,
        control: &'static str,
        place: Place,
        data: &Value,
        run: Option<Ordinal>,
    ) -> Told {
        let workflow = name.to_owned();
        let (items, led) = (Vec::new(), false);
        self.folds.push(Fold { place, workflow, control, items, led, blocked: None });
        self.add(self.folds.len() - 1, def, data, run)
    }

    /// Adds one event to a fold. The fold opens for `run` if one is given; a full batch is flushed
    /// at once.
    fn add(&mut self, at: usize, def: &Value, data: &Value, run: Option<Ordinal>) -> Told {
        let led_only = self.folds[at].led_only();
        let Fold { workflow: name, control, items, .. } = self.folds[at].clone();
        if led_only && edge(def, control) == "leading" {
            let run = items[0].run;
            self.folds[at].items.push(Item { at: self.now, data: data.clone(), run });
            return told("coalesced", Some(run));
        }
        let batch = collects(def, control);
        let most = count(&def[control], "maxSize").filter(|_| batch).unwrap_or(usize::MAX);
        let full = |run: Ordinal| {
            let items = items.iter().filter(|item| item.run == run);
            let mut events: Vec<Value> = items.map(|item| item.data.clone()).collect();
            let count = events.len();
            events.push(data.clone());
            count >= most || (batch && self.never_fits(def, data, &events))
        };
        let run = match items.last() {
            Some(last) if !led_only && !full(last.run) => last.run,
            _ => run.unwrap_or_else(|| self.new_run(&name)),
        };
        let item = Item { at: self.now, data: data.clone(), run };
        self.folds[at].items.push(item);
        if !batch {
            if self.runs[run].events.is_empty() || def[control]["keep"] != "first" {
                self.runs[run].events = vec![data.clone()];
            }
            return told("coalesced", Some(run));
        }
        self.runs[run].events.push(data.clone());
        self.take(claim_of(&name, def, data), def, run);
        let full = self.runs[run].events.len() >= most;
        if full && self.folds[at].blocked.is_none() {
            self.flush(at);
        }
        if self.runs[run].state != State::Folding {
            return self.admitted(run);
        }
        told(if control == "batch" { "buffered" } else { "coalesced" }, Some(run))
    }

    /// Returns the run of a fired window that is queued at its gate: it takes newer requests until
    /// it starts.
    fn quiet_and_waiting(&self, window: &Place) -> Option<Ordinal> {
        let waits = |&run: &Ordinal| {
            let it = &self.runs[run];
            let waits = self.alive(run) && !it.started && !it.is_expired(self.now);
            it.window.as_ref() == Some(window) && waits
        };
        (0..self.runs.len()).find(waits)
    }

    fn new_run(&mut self, name: &str) -> Ordinal {
        self.runs.push(Run {
            workflow: name.to_owned(),
            version: 0,
            release: 0,
            events: Vec::new(),
            admitted: 0,
            rank: (0, 0),
            state: State::Folding,
            way: Vec::new(),
            costs: Vec::new(),
            calls: BTreeMap::new(),
            step: None,
            passed: 0,
            values: BTreeMap::new(),
            stood: 0,
            started: false,
            stopping: None,
            expires: None,
            listeners: Vec::new(),
            inbox: Vec::new(),
            awaits: None,
            answers: Vec::new(),
            replaced: false,
            in_place: false,
            window: None,
        });
        self.runs.len() - 1
    }

    // ------------------------------------------------------------------ folds

    /// Returns the time at which a fold is flushed, by the current definition.
    pub(super) fn deadline(&self, fold: &Fold) -> Time {
        let def = self.current(&fold.workflow);
        let (first, last) = (fold.items[0].at, fold.items.last().expect("never empty").at);
        if fold.control == "batch" {
            return first + ms(&def["batch"], "timeoutMs").expect("given");
        }
        let policy = policy(def).filter(|_| fold.control == "policy");
        let control = policy.unwrap_or(&def["debounce"]);
        let quiet = last + ms(control, "periodMs").expect("given");
        ms(control, "maxWaitMs").map_or(quiet, |most| quiet.min(first + most))
    }

    /// Flushes a fold, or as many chunks of it as no gate skips (spec F4). Returns `false` if
    /// nothing was flushed.
    pub(super) fn flush(&mut self, at: usize) -> bool {
        let mut fold = self.folds[at].clone();
        let def = self.current(&fold.workflow).clone();
        let name = fold.workflow.clone();
        if fold.led_only() {
            self.folds.remove(at);
            return true;
        }
        if fold.led {
            fold.items.remove(0);
            fold.led = false;
        }
        let batch = collects(&def, fold.control);
        let run = fold.items.last().expect("never empty").run;
        let last = self.runs[run].events[0].clone();
        if fold.control == "debounce" && def.get("batch").is_some() && is_collected(&def, &last) {
            self.folds.remove(at);
            let place = scoped(&name, "batch", &def, &last);
            let deduped = claim_of(&name, &def, &last).is_some_and(|claim| self.claimed(&claim));
            if deduped || self.join(&def, "batch", &place, &last).is_some() {
                // Another run gets the event. This run was named in answers, so it ends as
                // cancelled.
                self.runs[run].state = State::Ended("cancelled");
            } else {
                self.runs[run].events.clear();
                self.open(&name, &def, "batch", place, &last, Some(run));
            }
            return true;
        }
        let run = fold.items[0].run;
        let data = self.runs[run].events[0].clone();
        let claim = claim_of(&name, &def, &data).filter(|_| !batch);
        let deduped = claim.is_some_and(|claim| self.claimed(&claim));
        if let Some(place) = self.skipped_at(&name, &def, &data).filter(|_| !deduped) {
            // The fold goes behind those that have been held for longer.
            self.folds.remove(at);
            fold.blocked = Some((place, version(&def)));
            self.folds.push(fold);
            return false;
        }
        let before = self.clone();
        self.folds.remove(at);
        self.create(&name, &data, Some(run));
        if !self.fits_queue(run) {
            let (_, place) = self.runs[run].way[self.runs[run].passed].clone();
            *self = before;
            self.folds.remove(at);
            fold.blocked = Some((place, version(&def)));
            self.folds.push(fold);
            return false;
        }
        self.settle();
        if fold.control == "policy" && self.runs[run].state == State::Line {
            self.runs[run].window = Some(fold.place.clone());
        }
        fold.items.retain(|item| item.run != run && batch);
        if !fold.items.is_empty() {
            self.folds.push(fold);
            self.flush(self.folds.len() - 1);
        }
        true
    }

    // ------------------------------------------------------------------ claims (spec C1)

    fn claimed(&self, claim: &Place) -> bool {
        self.claims.get(claim).is_some_and(|(until, _)| *until > self.now)
    }

    fn take(&mut self, claim: Option<Place>, def: &Value, run: Ordinal) {
        let period = ms(&def["idempotency"], "periodMs").unwrap_or(24 * 60 * 60 * 1_000_000);
        self.claims.extend(claim.map(|claim| (claim, (self.now + period, run))));
    }

    // ------------------------------------------------------------------ creation (spec A1)

    fn create(&mut self, name: &str, data: &Value, id: Option<Ordinal>) -> Told {
        let def = self.current(name).clone();
        // Collected events took their claims when they joined.
        let collected =
            (collects(&def, "batch") && is_collected(&def, data)) || collects(&def, "debounce");
        let claim = claim_of(name, &def, data).filter(|_| id.is_none() || !collected);
        if claim.as_ref().is_some_and(|claim| self.claimed(claim)) {
            if let Some(run) = id {
                self.runs[run].state = State::Ended("cancelled");
            }
            return told("deduped", None);
        }
        if self.skipped_at(name, &def, data).is_some() {
            return told("skipped", None);
        }
        let run = id.unwrap_or_else(|| self.new_run(name));
        let shift = shift(&def, data).expect("checked at the arrival");
        self.arrivals += 1;
        self.take(claim, &def, run);
        let way = self.way(name, &def, data);
        let values = way.iter().filter_map(|(_, at)| Some((at.clone(), self.value_at(at, data)?)));
        let values = values.collect();
        let it = &mut self.runs[run];
        it.version = version(&def);
        it.release = self.releases[name].len();
        it.rank = (self.now - shift, self.arrivals);
        it.way = way;
        it.values = values;
        let events = if id.is_none() { vec![data.clone()] } else { it.events.clone() };
        let each = it.way.iter().map(|(_, place)| costs_at(&def, place, data, &events));
        it.costs = each.collect::<Option<_>>().expect("checked at the arrival");
        it.admitted = self.now;
        it.expires = ms(&def, "startWithinMs").map(|ms| self.now + ms);
        it.listeners = listeners(&def, data, self.now);
        it.state = State::Line;
        it.in_place = policy_name(&def) == Some("restart");
        if id.is_none() {
            it.events = vec![data.clone()];
        }
        self.give(run, &def, data);
        let superseded = self.supersede(run, &def);
        self.runs[run].replaced = superseded;
        let mut inherited = Vec::new();
        for (_, place) in self.runs[run].way.clone() {
            for old in self.replaced_at(&place, run, &def) {
                // `latest` inherits a slot, or the position before all other runs (spec L21).
                let first = self.holds(old, &place) || self.runs[old].in_place;
                let latest = place.control == "policy" && policy_name(&def) == Some("latest");
                self.runs[run].in_place |= first && latest;
                inherited.extend(self.replace(old));
                self.runs[run].replaced = true;
            }
        }
        self.runs[run].rank = inherited.into_iter().min().unwrap_or(self.runs[run].rank);
        self.admitted(run)
    }

    fn admitted(&self, run: Ordinal) -> Told {
        told(if self.runs[run].replaced { "replaced" } else { "started" }, Some(run))
    }

    /// Lets a run of a newer version cancel the started older runs on its handoff gate; the others
    /// get the newer version.
    fn supersede(&mut self, run: Ordinal, def: &Value) -> bool {
        if def.get("handoff").is_none_or(|handoff| handoff["onNewVersion"] != "supersede") {
            return false;
        }
        let mut replaced = false;
        let place = self.handoff_of(run).cloned();
        for other in 0..self.runs.len() {
            let here = self.alive(other) && self.handoff_of(other) == place.as_ref();
            if here && self.is_older(other, run) && self.runs[other].started {
                self.cut(other);
                replaced = true;
            } else if here && self.is_older(other, run) {
                self.runs[other].version = self.runs[run].version;
            }
        }
        replaced
    }

    /// Returns the runs at a gate that a new run replaces.
    fn replaced_at(&self, place: &Place, run: Ordinal, def: &Value) -> Vec<Ordinal> {
        let mode = match place.control.as_str() {
            "singleton" => def["singleton"]["mode"].as_str().unwrap_or("cancel"),
            "policy" => policy_name(def).unwrap_or_default(),
            _ => return Vec::new(),
        };
        let it = &self.runs[run];
        let here = |&other: &Ordinal| other != run && self.contends(other, place, it.version);
        let here = self.by_rank(|_| true).into_iter().filter(here);
        match mode {
            "cancel" | "restart" => {
                // `restart` replaces the holder of a session, not the queued runs.
                let in_the_way = here.filter(|&other| {
                    mode == "cancel" || self.holds(other, place) || self.runs[other].in_place
                });
                in_the_way.min_by_key(|&other| !self.holds(other, place)).into_iter().collect()
            }
            // `latest` replaces all runs that have not started (spec L21).
            "latest" => {
                let own = |other: &Run| other.workflow == it.workflow && !other.started;
                here.filter(|&other| own(&self.runs[other])).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Cancels a run that a new one replaces. Returns its rank for the new run if it had not
    /// started (spec G4).
    fn replace(&mut self, old: Ordinal) -> Option<(Time, u64)> {
        self.cut(old);
        if self.runs[old].started {
            return None;
        }
        self.claims.retain(|_, (_, run)| *run != old);
        Some(self.runs[old].rank)
    }

    /// Returns the gate that refuses a new run, because it has a holder or a queue. The policy does
    /// not count runs that the singleton, which is decided first, will replace.
    pub(super) fn skipped_at(&self, name: &str, def: &Value, data: &Value) -> Option<Place> {
        let single = def.get("singleton").map(|_| scoped(name, "singleton", def, data));
        let skips = def["singleton"]["mode"] == "skip";
        if let Some(place) = single.as_ref().filter(|place| skips && self.busy(place, version(def)))
        {
            return Some(place.clone());
        }
        let latest = def["singleton"]["mode"] == "latest";
        let replaced = |run: Ordinal| {
            let here = |place: &Place| self.contends(run, place, version(def));
            single.as_ref().is_some_and(here) && !(latest && self.runs[run].started)
        };
        policy_place(def, data).filter(|_| policy_name(def) == Some("reject")).filter(|place| {
            let mut others = (0..self.runs.len()).filter(|&run| !replaced(run));
            others.any(|run| self.contends(run, place, version(def)))
        })
    }

    /// Whether a live run holds a gate or is queued at it.
    pub(super) fn busy(&self, place: &Place, version: i128) -> bool {
        (0..self.runs.len()).any(|other| self.contends(other, place, version))
    }

    /// Whether a live run holds a gate or is queued at it, as seen by a run of version `of`: with a
    /// handoff, a singleton applies within one version.
    fn contends(&self, run: Ordinal, place: &Place, of: i128) -> bool {
        let it = &self.runs[run];
        let within = place.control == "singleton" && self.handoff_of(run).is_some();
        // A run that is still queued at an earlier gate does not count here yet.
        let at = it.way.iter().take(it.passed + 1).any(|(_, stop)| stop == place);
        self.alive(run) && at && (!within || it.version == of)
    }
}

/// Pools.
impl Reference {
    /// Returns the gates of a run, in the order of spec G9 and spec L5.
    fn way(&self, name: &str, def: &Value, data: &Value) -> Vec<(Stop, Place)> {
        let mut way = way(name, def, data);
        let mut pools: Vec<Place> = uses(def).into_iter().map(|it| pool_place(it, data)).collect();
        pools.sort_by(|a, b| (&a.owner, kind(a), &a.key).cmp(&(&b.owner, kind(b), &b.key)));
        pools.dedup();
        for place in pools {
            let narrow = place.control == "pool keyed";
            let stop = match (self.pools[&place.owner].span_run, narrow) {
                (true, true) => Stop::RunLimit,
                (true, false) => Stop::WideRunLimit,
                (false, true) => Stop::Narrow,
                (false, false) => Stop::Wide,
            };
            way.push((stop, place));
        }
        // The sort keeps the order of gates in one group: the workflow's own come first.
        way.sort_by_key(|(stop, _)| *stop);
        way
    }

    /// Whether a run with these events could never enter one of its gates.
    fn never_fits(&self, def: &Value, data: &Value, events: &[Value]) -> bool {
        self.too_costly(def, data, events) || self.too_costly_for_pools(def, data, events)
    }

    /// Whether a run with these events could never enter a gate of a pool.
    fn too_costly_for_pools(&self, def: &Value, data: &Value, events: &[Value]) -> bool {
        let places = uses(def).into_iter().map(|it| pool_place(it, data));
        let mut each = places.map(|place| (costs_at(def, &place, data, events), place));
        each.any(|(costs, place)| {
            costs.is_none_or(|costs| costs[0] > 1 && costs[0] > self.limit_of_pool(&place))
        })
    }

    /// Whether a run with these events could never enter one of its own gates (spec L8), or has a
    /// value that is no cost.
    fn too_costly(&self, def: &Value, data: &Value, events: &[Value]) -> bool {
        let name = owner(def);
        let limits = limits(def).into_iter();
        // The newest event has the number that would apply.
        let own = |limit: &Value| {
            let key = source(limit, "key").and_then(|key| key_from(data, &key));
            let limit_name = limit_name(limit);
            let number = from_data(&limit["limit"], events.last()?)?;
            Some(self.highest_limit(&place(&name, &limit_name, key), number))
        };
        let exceeds = |limit: &Value| {
            cost(limit, events)
                .is_none_or(|cost| limit.get("cost").is_some() && Some(cost) > own(limit))
        };
        let unread = |limit: &Value| cost(limit, events).is_none();
        limits.into_iter().any(exceeds) || entries(def, "throttle").into_iter().any(unread)
    }
}

/// Returns the name of a workflow, or of an action with its flow.
fn owner(def: &Value) -> String {
    let name = text(def, "name").expect("a name");
    text(def, "flow").map_or(name.clone(), |flow| format!("{flow}/{name}"))
}

/// Returns the costs of a run at a gate: two uses of one gate of a pool are one of summed cost
/// (spec L5).
fn costs_at(def: &Value, gate: &Place, data: &Value, events: &[Value]) -> Option<Vec<i128>> {
    if !gate.control.starts_with("pool") {
        return costs(def, &gate.control, events);
    }
    let mut alike: Vec<&Value> =
        uses(def).into_iter().filter(|it| pool_place(it, data) == *gate).collect();
    if alike.is_empty() {
        // A newer event joins a run, which keeps its keys.
        let of_pool = |it: &&Value| text(it, "pool").as_ref() == Some(&gate.owner);
        alike = uses(def).into_iter().filter(of_pool).take(1).collect();
    }
    let each: Option<Vec<i128>> = alike.into_iter().map(|it| cost(it, events)).collect();
    each.map(|each| vec![each.into_iter().sum()])
}

/// Returns the gates of a run that belong to its workflow.
fn way(name: &str, def: &Value, data: &Value) -> Vec<(Stop, Place)> {
    let mut way = Vec::new();
    if def.get("singleton").is_some() {
        way.push((Stop::Singleton, scoped(name, "singleton", def, data)));
    }
    if let Some(handoff) = def.get("handoff") {
        let key = source(handoff, "keyField").and_then(|key| key_from(data, &key));
        way.push((Stop::Handoff, place(name, "handoff", key)));
    }
    way.extend(policy_place(def, data).map(|place| (Stop::Session, place)));
    let mut limits = limits(def);
    limits.sort_by_key(|limit| {
        let key = source(limit, "key");
        // In the order of gate keys, in which a text follows its length.
        key.map(|key| (key.len(), key))
    });
    for limit in limits {
        let key = source(limit, "key").and_then(|key| key_from(data, &key));
        let stop = match (limit["span"] == "run", limit.get("key")) {
            (true, Some(_)) => Stop::RunLimit,
            (true, None) => Stop::WideRunLimit,
            (false, Some(_)) => Stop::Narrow,
            (false, None) => Stop::Wide,
        };
        way.push((stop, place(name, &limit_name(limit), key)));
    }
    // Narrow throttles come before wide ones (spec L5).
    let mut throttles = meters_of(name, def, "throttle", data);
    throttles.sort_by_key(|place| place.control.ends_with(' '));
    way.extend(throttles.into_iter().map(|place| (Stop::Turn, place)));
    way.sort_by_key(|(stop, _)| *stop);
    way
}

/// Returns the meters of a control that an event or run has to pass.
fn meters_of(name: &str, def: &Value, control: &str, data: &Value) -> Vec<Place> {
    let names = meters(def, control).into_iter();
    names.map(|meter| meter_place(name, &meter, data)).collect()
}

/// Returns the costs of a run at a gate by its name; `None` if an event has a value that is no
/// cost.
fn costs(def: &Value, gate: &str, events: &[Value]) -> Option<Vec<i128>> {
    let limits = if gate.starts_with("throttle") || gate.starts_with("rateLimit") {
        metered(def, gate)
    } else {
        limits(def).into_iter().filter(|limit| limit_name(limit) == gate).collect()
    };
    let costs: Option<Vec<i128>> = limits.iter().map(|limit| cost(limit, events)).collect();
    costs.map(|costs| if costs.is_empty() { vec![1] } else { costs })
}

/// Returns the shift of the rank; `None` if the event has a value that is none (spec L14).
fn shift(def: &Value, data: &Value) -> Option<Time> {
    let Some(priority) = def.get("priority") else { return Some(0) };
    from_data(&priority["shiftMs"], data).map(|ms| ms * 1000)
}

/// Returns the window or buffer that an event enters first.
fn fold_of(name: &str, def: &Value, data: &Value) -> Option<(&'static str, Place)> {
    if policy_name(def) == Some("debounce")
        && let Some(place) = policy_place(def, data)
    {
        // The gate belongs to the flow; the window belongs to the action.
        return Some(("policy", Place { owner: name.to_owned(), ..place }));
    }
    let takes = |control: &&'static str| {
        def.get(control).is_some() && (*control != "batch" || is_collected(def, data))
    };
    let control = ["debounce", "batch"].into_iter().find(takes)?;
    Some((control, scoped(name, control, def, data)))
}

/// Returns the kind of a key, in the order of gate keys: none, a number, a text, a boolean, several.
pub(super) fn kind(place: &Place) -> u8 {
    match place.key.as_deref().and_then(|key| key.chars().next()) {
        None => 0,
        Some('"') => 2,
        Some('t') => 3,
        Some('[') => 4,
        Some(_) => 1,
    }
}

/// Whether a batch collects the event (spec L15).
fn is_collected(def: &Value, data: &Value) -> bool {
    def["batch"].get("if").is_none_or(|it| holds(it, data).expect("a boolean"))
}

/// Returns whether the run of a fold gets all its events.
fn collects(def: &Value, control: &str) -> bool {
    match control {
        "batch" => def.get("batch").is_some(),
        "debounce" => def["debounce"]["keep"] == "all",
        _ => false,
    }
}

/// Returns when the runs of a window start (spec L22).
fn edge<'a>(def: &'a Value, control: &str) -> &'a str {
    let edge = def[control]["edge"].as_str().filter(|_| control == "debounce");
    edge.unwrap_or("trailing")
}

impl Fold {
    /// Whether no run but the one of the first event is promised.
    fn led_only(&self) -> bool {
        self.led && self.items.iter().all(|item| item.run == self.items[0].run)
    }
}

fn claim_of(name: &str, def: &Value, data: &Value) -> Option<Place> {
    def.get("idempotency").map(|_| scoped(name, "idempotency", def, data))
}

fn told(outcome: &'static str, run: Option<Ordinal>) -> Told {
    Told { outcome, run }
}
