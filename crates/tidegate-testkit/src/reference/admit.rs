//! Arrival and creation, in the order of A1, and the folds between the two.

use serde_json::Value;

use super::{
    Fold, Ms, Ordinal, Place, Reference, Run, State, Stop, Told,
    fields::{
        count, key_of, limits, ms, place, policy, policy_name, policy_place, scoped, text, version,
    },
};

impl Reference {
    // ------------------------------------------------------------------ arrival [A1]

    pub(super) fn arrive(&mut self, name: &str, data: &Value) -> Told {
        let def = self.current(name).clone();
        let keyed = def.get("handoff").is_some_and(|handoff| handoff["type"] == "keyed");
        if keyed && key_of(data, &text(&def["handoff"], "keyField").expect("given")).is_none() {
            return told("rejected", None);
        }
        if claim_of(name, &def, data).is_some_and(|claim| self.claimed(&claim)) {
            return told("deduped", None);
        }
        let fold = fold_of(name, &def, data);
        if let Some((control, place)) = &fold
            && let Some(told) = self.join(name, &def, control, place, data)
        {
            return told;
        }
        let meter = def.get("rateLimit").map(|_| scoped(name, "rateLimit", &def, data));
        if meter.as_ref().is_some_and(|meter| !self.conforms(meter, "rateLimit", name, 0)) {
            return told("dropped", None);
        }
        let told = match fold {
            Some((control, place)) => self.open(name, &def, control, place, data),
            None => self.create(name, data, None),
        };
        if let Some(meter) = meter.filter(|_| !matches!(told.outcome, "skipped" | "deduped")) {
            self.spend(&meter, "rateLimit", name);
        }
        told
    }

    /// Joins the open fold of the key, if there is one that still takes events.
    fn join(
        &mut self,
        name: &str,
        def: &Value,
        control: &'static str,
        place: &Place,
        data: &Value,
    ) -> Option<Told> {
        if let Some(run) = self.quiet_and_waiting(control, name, place) {
            self.runs[run].data = data.clone();
            return Some(told("coalesced", Some(run)));
        }
        let at = self.folds.iter().position(|fold| fold.place == *place)?;
        if self.deadline(&self.folds[at]) <= self.now && self.flush(at) {
            self.settle();
            return None;
        }
        let now = self.now;
        let run = self.folds[at].run;
        self.folds[at].items.push((now, data.clone()));
        if control == "batch" {
            self.take(claim_of(name, def, data), def);
            self.flush_if_full(at);
        }
        Some(told(if control == "batch" { "buffered" } else { "coalesced" }, Some(run)))
    }

    fn open(
        &mut self,
        name: &str,
        def: &Value,
        control: &'static str,
        place: Place,
        data: &Value,
    ) -> Told {
        let run = self.new_run(name, data);
        let items = vec![(self.now, data.clone())];
        let workflow = name.to_owned();
        self.folds.push(Fold { place, workflow, control, run, items, blocked: false });
        if control == "batch" {
            self.take(claim_of(name, def, data), def);
            self.flush_if_full(self.folds.len() - 1);
        }
        told(if control == "batch" { "buffered" } else { "coalesced" }, Some(run))
    }

    /// A debounced request that waits for the running one keeps coalescing.
    fn quiet_and_waiting(&self, control: &str, name: &str, place: &Place) -> Option<Ordinal> {
        let waits = |run: &Run| {
            let at = run.way.get(run.passed).map(|(_, at)| at);
            let here = at.is_some_and(|at| at.control == "policy" && at.key == place.key);
            run.state == State::Line && run.workflow == name && here
        };
        self.runs.iter().position(waits).filter(|_| control == "policy")
    }

    fn new_run(&mut self, name: &str, data: &Value) -> Ordinal {
        self.runs.push(Run {
            workflow: name.to_owned(),
            version: 0,
            data: data.clone(),
            admitted: 0,
            rank: (0, 0),
            state: State::Folding,
            way: Vec::new(),
            passed: 0,
            started: false,
            stopping: None,
            after: Vec::new(),
            claim: None,
        });
        self.runs.len() - 1
    }

    // ------------------------------------------------------------------ folds

    /// When a fold is to be flushed, by the current numbers.
    pub(super) fn deadline(&self, fold: &Fold) -> Ms {
        let def = self.current(&fold.workflow);
        let (first, last) = (fold.items[0].0, fold.items.last().expect("never empty").0);
        if fold.control == "batch" {
            let full = fold.items.len() >= count(&def["batch"], "maxSize").expect("given");
            return if full {
                last
            } else {
                first + ms(&def["batch"], "timeoutMs").expect("given")
            };
        }
        let control =
            if fold.control == "policy" { policy(def).expect("given") } else { &def["debounce"] };
        let quiet = last + ms(control, "periodMs").expect("given");
        ms(control, "maxWaitMs").map_or(quiet, |most| quiet.min(first + most))
    }

    fn flush_if_full(&mut self, at: usize) {
        let most = count(&self.current(&self.folds[at].workflow)["batch"], "maxSize");
        if self.folds[at].items.len() >= most.expect("given") {
            self.flush(at);
        }
    }

    /// Flushes a fold, unless a gate would skip it [F4].
    pub(super) fn flush(&mut self, at: usize) -> bool {
        let mut fold = self.folds[at].clone();
        let def = self.current(&fold.workflow).clone();
        let (_, last) = fold.items.last().expect("never empty").clone();
        if fold.control == "debounce" && def.get("batch").is_some() {
            self.folds.remove(at);
            let place = scoped(&fold.workflow, "batch", &def, &last);
            if self.join(&fold.workflow, &def, "batch", &place, &last).is_none() {
                self.open(&fold.workflow, &def, "batch", place, &last);
            }
            return true;
        }
        if self.skipping_holder(&fold.workflow, &def, &last).is_some() {
            self.folds[at].blocked = true;
            return false;
        }
        self.folds.remove(at);
        let most = count(&def["batch"], "maxSize").unwrap_or(usize::MAX).min(fold.items.len());
        let rest =
            fold.items.split_off(if fold.control == "batch" { most } else { fold.items.len() });
        let (_, data) = if fold.control == "batch" {
            &fold.items[0]
        } else {
            fold.items.last().expect("never empty")
        };
        self.create(&fold.workflow, &data.clone(), Some(fold.run));
        if let Some((_, first)) = rest.first() {
            fold.run = self.new_run(&fold.workflow, &first.clone());
            self.folds.push(Fold { items: rest, ..fold });
        }
        true
    }

    // ------------------------------------------------------------------ claims [C1]

    fn claimed(&self, claim: &Place) -> bool {
        self.claims.get(claim).is_some_and(|until| *until > self.now)
    }

    fn take(&mut self, claim: Option<Place>, def: &Value) {
        let period = ms(&def["idempotency"], "periodMs").unwrap_or(24 * 60 * 60 * 1000);
        self.claims.extend(claim.map(|claim| (claim, self.now + period)));
    }

    // ------------------------------------------------------------------ creation [A1]

    fn create(&mut self, name: &str, data: &Value, id: Option<Ordinal>) -> Told {
        let def = self.current(name).clone();
        // The members of a batch took their claims when they joined it.
        let claim = claim_of(name, &def, data).filter(|_| def.get("batch").is_none());
        if claim.as_ref().is_some_and(|claim| self.claimed(claim)) {
            return told("deduped", None);
        }
        if self.skipping_holder(name, &def, data).is_some() {
            return told("skipped", None);
        }
        let run = id.unwrap_or_else(|| self.new_run(name, data));
        let shift = def.get("priority").and_then(|priority| ms(priority, "shiftMs")).unwrap_or(0);
        let way = way(name, &def, data);
        self.runs[run] = Run {
            data: data.clone(),
            version: version(&def),
            admitted: self.now,
            rank: (self.now - shift, run),
            state: State::Line,
            way,
            claim,
            ..self.runs[run].clone()
        };
        let mut old = self.superseded(run, &def);
        old.extend(self.replaced(run, &def));
        for &old in &old {
            self.replace(old, run);
        }
        self.take(self.runs[run].claim.clone(), &def);
        told(if old.is_empty() { "started" } else { "replaced" }, Some(run))
    }

    /// The older runs on the same handoff gate that a newer version cancels; it moves the others.
    fn superseded(&mut self, run: Ordinal, def: &Value) -> Vec<Ordinal> {
        if def.get("handoff").is_none_or(|handoff| handoff["onNewVersion"] != "supersede") {
            return Vec::new();
        }
        let place = self.handoff_of(run).expect("every run of such a workflow has one").clone();
        let older = |other: &Ordinal| {
            self.alive(*other)
                && self.is_older(*other, run)
                && self.handoff_of(*other) == Some(&place)
        };
        let older: Vec<Ordinal> = (0..self.runs.len()).filter(older).collect();
        let (started, unstarted) = older.into_iter().partition(|&other| self.runs[other].started);
        for other in Vec::from_iter::<Vec<Ordinal>>(unstarted) {
            self.runs[other].version = self.runs[run].version;
        }
        started
    }

    /// The runs that `singleton: cancel` or `restart` replaces.
    fn replaced(&self, run: Ordinal, def: &Value) -> Vec<Ordinal> {
        let way = self.runs[run].way.iter().map(|(_, place)| place);
        let cancels = |place: &&Place| match place.control.as_str() {
            "singleton" => def["singleton"]["mode"] != "skip",
            "policy" => policy_name(def) == Some("restart"),
            _ => false,
        };
        let held_by = |place: &Place| {
            let others = (0..self.runs.len()).filter(|&other| other != run);
            let here = others.filter(|&other| self.contends(other, place, self.runs[run].version));
            here.min_by_key(|&other| (!self.holds(other, place), self.runs[other].rank))
        };
        way.filter(cancels).filter_map(held_by).collect()
    }

    /// Cancels `old` for `new`, which inherits the place of one that had not started.
    fn replace(&mut self, old: Ordinal, new: Ordinal) {
        self.cut(old);
        let before = self.runs[old].clone();
        let run = &mut self.runs[new];
        if before.stopping.is_some() {
            run.after.push(old);
        }
        if !before.started {
            run.rank = run.rank.min(before.rank);
            run.after.extend(before.after);
            if let Some(claim) = before.claim {
                self.claims.remove(&claim);
            }
        }
    }

    /// The run whose being there makes a refusing gate skip this event.
    pub(super) fn skipping_holder(&self, name: &str, def: &Value, data: &Value) -> Option<Ordinal> {
        let skips = def.get("singleton").is_some_and(|singleton| singleton["mode"] == "skip");
        let single = skips.then(|| scoped(name, "singleton", def, data));
        let reject = policy_place(def, data).filter(|_| policy_name(def) == Some("reject"));
        let places = single.into_iter().chain(reject);
        let mut holders = places.filter_map(|place| {
            (0..self.runs.len()).find(|&other| self.contends(other, &place, version(def)))
        });
        holders.next()
    }

    /// Whether a live run stands at a place, in the eyes of another: where there is a handoff,
    /// singleton rules within one version.
    fn contends(&self, run: Ordinal, place: &Place, of: i128) -> bool {
        let it = &self.runs[run];
        let within = place.control == "singleton" && self.handoff_of(run).is_some();
        let at = it.way.iter().any(|(_, stop)| stop == place);
        self.alive(run) && at && (!within || it.version == of)
    }
}

/// The stops of a run, in the order of G9.
fn way(name: &str, def: &Value, data: &Value) -> Vec<(Stop, Place)> {
    let mut way = Vec::new();
    if let Some(handoff) = def.get("handoff") {
        let key = text(handoff, "keyField").and_then(|path| key_of(data, &path));
        way.push((Stop::RunGate, place(name, "handoff", key)));
    }
    if def.get("singleton").is_some() {
        way.push((Stop::RunGate, scoped(name, "singleton", def, data)));
    }
    way.extend(policy_place(def, data).map(|place| (Stop::RunGate, place)));
    for (n, limit) in limits(def).into_iter().enumerate() {
        let path = text(limit, "key");
        let key = path.as_ref().and_then(|path| key_of(data, path));
        let stop = match (limit["span"] == "run", path) {
            (true, _) => Stop::RunGate,
            (false, Some(_)) => Stop::Narrow,
            (false, None) => Stop::Wide,
        };
        way.push((stop, place(name, &format!("concurrency {n}"), key)));
    }
    if def.get("throttle").is_some() {
        way.push((Stop::Turn, scoped(name, "throttle", def, data)));
    }
    way.sort_by_key(|(stop, _)| *stop);
    way
}

/// The fold that an event meets first.
fn fold_of(name: &str, def: &Value, data: &Value) -> Option<(&'static str, Place)> {
    if policy_name(def) == Some("debounce")
        && let Some(place) = policy_place(def, data)
    {
        // The gate belongs to the flow; the window belongs to the action.
        return Some(("policy", Place { owner: name.to_owned(), ..place }));
    }
    let control = ["debounce", "batch"].into_iter().find(|control| def.get(control).is_some())?;
    Some((control, scoped(name, control, def, data)))
}

fn claim_of(name: &str, def: &Value, data: &Value) -> Option<Place> {
    def.get("idempotency").map(|_| scoped(name, "idempotency", def, data))
}

fn told(outcome: &'static str, run: Option<Ordinal>) -> Told {
    Told { outcome, run }
}
