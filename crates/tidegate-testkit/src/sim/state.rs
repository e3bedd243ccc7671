//! Expected content of the store: the simulator applies every committed change to a map of rows.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{
    id::Seq,
    overrides::OVERRIDES,
    reads::Change,
    row::{
        Chore, Class, Def, Ended, Engine, EngineId, Gate, GateKey, GateState, Row, RowKey, Run,
        Work, Workspace,
    },
};

use super::controls::Range;

/// The change of one row.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The key of the row.
    pub key: RowKey,
    /// The row before the commit.
    pub before: Option<Row>,
    /// The row after the commit.
    pub after: Option<Row>,
}

/// All rows as of the last commit.
#[derive(Clone, Debug, Default)]
pub struct State {
    rows: BTreeMap<RowKey, Row>,
    /// Engines that have ever sent a heartbeat.
    known: BTreeSet<EngineId>,
}

impl State {
    /// Applies the changes of one transaction.
    pub fn apply(&mut self, changes: Vec<Change>) -> Vec<Delta> {
        let mut deltas = Vec::with_capacity(changes.len());
        for change in changes {
            let key = change.key();
            let (before, after) = match change {
                Change::Insert(row) | Change::Update(row) => {
                    (self.rows.insert(key.clone(), row.clone()), Some(row))
                }
                Change::Delete(_) => (self.rows.remove(&key), None),
            };
            deltas.push(Delta { key, before, after });
        }
        deltas
    }

    /// Applies the heartbeat of an engine, which is not a transaction.
    pub fn heartbeat(&mut self, id: EngineId, lease_ms: u32) {
        // A heartbeat does not create the row of an engine that was deleted.
        if self.known.insert(id) {
            self.rows.insert(RowKey::Engine(id), Engine::new(id, lease_ms).into());
        } else if let Some(Row::Engine(engine)) = self.rows.get_mut(&RowKey::Engine(id)) {
            engine.beat += i64::from(!engine.dead);
        }
    }

    /// Returns every row, in key order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Returns one row.
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Returns the runs that have not ended, by number.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        let range = RowKey::Run(Seq(i64::MIN))..=RowKey::Run(Seq(i64::MAX));
        self.rows.range(range).filter_map(|(_, row)| row.as_run())
    }

    /// Returns all gates, by key.
    pub fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.rows.range(..RowKey::Run(Seq(i64::MIN))).filter_map(|(_, row)| row.as_gate())
    }

    /// Returns all schedules, by key.
    pub fn schedules(&self) -> impl Iterator<Item = &Row> {
        let rows = self.rows.range(RowKey::Chore(Seq(i64::MAX))..).map(|(_, row)| row);
        rows.skip_while(|row| matches!(row, Row::Chore(_)))
            .take_while(|row| matches!(row, Row::Schedule(_)))
    }

    /// Returns a run that has not ended.
    pub fn run(&self, seq: Seq) -> Option<&Run> {
        self.row(&RowKey::Run(seq)).and_then(Row::as_run)
    }

    /// Returns a gate.
    pub fn gate(&self, key: &GateKey) -> Option<&Gate> {
        self.row(&RowKey::Gate(key.clone())).and_then(Row::as_gate)
    }

    /// Returns a run that has ended.
    pub fn ended(&self, seq: Seq) -> Option<&Ended> {
        if let Some(Row::Ended(ended)) = self.row(&RowKey::Ended(seq)) { Some(ended) } else { None }
    }

    /// Returns an engine.
    pub fn engine(&self, id: EngineId) -> Option<&Engine> {
        if let Some(Row::Engine(row)) = self.row(&RowKey::Engine(id)) { Some(row) } else { None }
    }

    /// Returns all definitions of workflows and reactions.
    pub fn defs(&self) -> impl Iterator<Item = &Def> {
        self.all_defs().filter(|def| def.app != OVERRIDES)
    }

    /// Whether a chore still takes runs back because of a pause.
    pub fn takes_back(&self) -> bool {
        let range = RowKey::Chore(Seq(i64::MIN))..=RowKey::Chore(Seq(i64::MAX));
        let is_one =
            |row: &Row| matches!(row, Row::Chore(Chore { work: Work::HoldBack { .. }, .. }));
        self.rows.range(range).any(|(_, row)| is_one(row))
    }

    /// Whether an override pauses the first starts of the run's workflow.
    pub fn is_paused(&self, run: &Run) -> bool {
        self.pauses(&run.ws, &run.workflow)
    }

    /// Whether an override closes the gate: it keeps paused runs, is a throttle of a paused
    /// workflow, or belongs to a pool that is paused or closed until a time.
    pub fn is_closed(&self, gate: &GateKey) -> bool {
        let Some(scope) = gate.scope() else { return false };
        match scope.class {
            Class::Pause | Class::Throttle => self.pauses(&scope.ws, &scope.name),
            Class::PoolLimit | Class::PoolRunLimit => {
                self.overrides(&scope.ws).any(|(target, over)| {
                    let closes = over["paused"] == true || !over["closedUntil"].is_null();
                    target["pool"] == scope.name && closes
                })
            }
            _ => false,
        }
    }

    fn pauses(&self, ws: &Workspace, workflow: &str) -> bool {
        let mut overrides = self.overrides(ws);
        overrides.any(|(target, over)| target["workflow"] == workflow && over["paused"] == true)
    }

    /// Returns the pools that are paused, with their workspaces.
    pub fn paused_pools(&self) -> Vec<(Workspace, String)> {
        let spaces: BTreeSet<&Workspace> = self.all_defs().map(|def| &def.ws).collect();
        let pools = spaces.into_iter().flat_map(|ws| {
            let paused = self.overrides(ws).filter(|(_, over)| over["paused"] == true);
            paused.filter_map(|(of, _)| Some((ws.clone(), of["pool"].as_str()?.to_owned())))
        });
        pools.collect()
    }

    /// Returns the targets and the overrides of a workspace, as they are stored.
    fn overrides(
        &self,
        ws: &Workspace,
    ) -> impl Iterator<Item = (serde_json::Value, serde_json::Value)> {
        let rows = self.all_defs().filter(move |def| def.app == OVERRIDES && def.ws == *ws);
        rows.map(|def| {
            let mut body: serde_json::Value =
                serde_json::from_str(def.body.as_str()).expect("JSON");
            (body["target"].take(), body["over"].take())
        })
    }

    fn all_defs(&self) -> impl Iterator<Item = &Def> {
        let range = RowKey::Def(Seq(i64::MIN))..=RowKey::Def(Seq(i64::MAX));
        self.rows.range(range).filter_map(
            |(_, row)| {
                if let Row::Def(def) = row { Some(def) } else { None }
            },
        )
    }

    /// Returns the limit of a pool, read from its row; `None` if it has none.
    pub fn pool_limit(&self, ws: &Workspace, name: &str) -> Option<u64> {
        let mut rows = self.defs().filter(|def| def.app == "$pools" && def.ws == *ws);
        let body = &rows.find(|def| def.name == name)?.body;
        let body: serde_json::Value = serde_json::from_str(body.as_str()).expect("JSON");
        body["pool"]["concurrency"]["limit"].as_u64()
    }

    /// Returns the range of a pool's limit, read from its row; `None` if it is fixed.
    pub fn pool_range(&self, ws: &Workspace, name: &str) -> Option<Range> {
        let mut rows = self.defs().filter(|def| def.app == "$pools" && def.ws == *ws);
        let body = &rows.find(|def| def.name == name)?.body;
        let body: serde_json::Value = serde_json::from_str(body.as_str()).expect("JSON");
        Range::read(&body["pool"]["concurrency"]["adaptive"])
    }

    /// Returns the released definition of a workflow.
    pub fn current(&self, ws: &Workspace, name: &str) -> Option<&Def> {
        let released = self.defs().filter(|def| def.released.is_some());
        released.filter(|def| def.ws == *ws && def.name == name).max_by_key(|def| def.released)
    }

    /// Returns the number of the last release of a lane; 0 before the first.
    pub fn release_of(&self, lane: Seq) -> i64 {
        match self.row(&RowKey::Def(lane)) {
            Some(Row::Def(def)) => def.released.unwrap_or(0),
            _ => 0,
        }
    }

    /// Whether no run is live and no window or buffer is open.
    pub fn is_at_rest(&self) -> bool {
        // A fold that has fired is deleted by a later sweep, so it does not count.
        let open = |gate: &Gate| matches!(&gate.state, GateState::Fold(it) if !it.fired);
        let waits =
            |row: &Row| matches!(row, Row::Chore(it) if matches!(it.work, Work::Deliver(_)));
        self.runs().next().is_none() && !self.gates().any(open) && !self.rows().any(waits)
    }
}
