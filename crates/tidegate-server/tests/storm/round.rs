//! One round: servers on a new store, load, faults, then a phase without load, and the judge.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tidegate_testkit::torture::Dice;
use tokio::task::JoinHandle;

use crate::{
    cluster::Cluster,
    fleet::Fleet,
    journal::{Fault, Journal, Shared, now},
    load::Load,
    look,
    proxy::{Proxy, Traffic},
    service::Service,
};

/// Kind of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// Returns the default leases of the servers in milliseconds.
    pub(crate) fn leases(self) -> &'static [u64] {
        match self {
            Self::Sqlite => &[1500],
            Self::Postgres => &[1500, 3000, 6000],
        }
    }

    /// Returns the faults of a round: of every ten faults, each kind has a fixed number.
    fn faults(self) -> [&'static str; 10] {
        match self {
            Self::Sqlite => [
                "kill", "kill", "kill", "kill", "freeze", "freeze", "term", "term", "deploy",
                "deploy",
            ],
            Self::Postgres => [
                "kill",
                "kill",
                "freeze",
                "freeze",
                "term",
                "cut",
                "cut",
                "crash",
                "promotion",
                "deploy",
            ],
        }
    }
}

/// If a sleep of this process takes this much too long, the machine counts as stalled, and all
/// servers with it.
const STALL: Duration = Duration::from_millis(300);

/// A frozen server, and the time at which it continues.
struct Frozen {
    at: usize,
    until: Instant,
    fault: Fault,
}

/// State of a round.
pub(crate) struct Round {
    fleet: Fleet,
    journal: Arc<Shared>,
    dice: Dice,
    frozen: Vec<Frozen>,
    /// Violations that were found while a fault was injected.
    wrong: Vec<String>,
}

/// Settings of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) store: Store,
    pub(crate) leases: &'a [u64],
    pub(crate) seed: u64,
    pub(crate) faults: usize,
}

/// Plays a round. Returns its journal.
pub(crate) async fn play(
    setup: Setup<'_>,
    cluster: Option<&mut Cluster>,
    folder: &Path,
) -> Journal {
    let mut dice = Dice::new(setup.seed);
    let journal: Arc<Shared> = Arc::default();
    let watch = watch_stalls(journal.clone());
    let service = Service::start(journal.clone()).await;
    let stores = stores(setup, cluster.as_deref(), folder).await;
    let fleet = Fleet::start(folder.to_path_buf(), service, stores).await;
    let load = Load::start(fleet.front.clone(), journal.clone(), &mut dice);
    let front = fleet.front.clone();
    let mut round = Round { fleet, journal, dice, frozen: Vec::new(), wrong: Vec::new() };
    round.storm(setup, cluster).await;
    load.stop().await;
    let world = look::settle(&front, &round.journal).await;
    watch.abort();
    let mut journal = std::mem::take(&mut *round.journal.lock().unwrap());
    journal.world = world;
    journal.world.live.append(&mut round.wrong);
    journal
}

/// Returns the store URL, the lease and the database proxy of each server.
async fn stores(
    setup: Setup<'_>,
    cluster: Option<&Cluster>,
    folder: &Path,
) -> Vec<(String, u64, Option<Arc<Proxy>>)> {
    let Some(cluster) = cluster else {
        let file = folder.join("tidegate.db");
        return vec![(format!("sqlite:{}", file.display()), setup.leases[0], None)];
    };
    let database = cluster.create_database(setup.seed).await;
    let mut stores = Vec::new();
    for ttl in setup.leases {
        let proxy = Arc::new(Proxy::start(cluster.port()).await);
        stores.push((cluster.url(proxy.port, &database), *ttl, Some(proxy)));
    }
    stores
}

/// Records stalls of this process, because the servers on the same machine stalled too.
fn watch_stalls(journal: Arc<Shared>) -> JoinHandle<()> {
    const TICK: Duration = Duration::from_millis(50);
    tokio::spawn(async move {
        loop {
            let (began, from) = (Instant::now(), now());
            tokio::time::sleep(TICK).await;
            if began.elapsed() > TICK + STALL {
                let (kind, server) = ("stall".to_owned(), String::new());
                journal.lock().unwrap().faults.push(Fault { kind, server, from, to: now() });
            }
        }
    })
}

impl Round {
    async fn storm(&mut self, setup: Setup<'_>, mut cluster: Option<&mut Cluster>) {
        let mut bag: Vec<&str> = Vec::new();
        self.pause(1500).await;
        for _ in 0..setup.faults {
            if bag.is_empty() {
                bag = setup.store.faults().to_vec();
            }
            let pick = usize::try_from(self.dice.below(bag.len() as u64)).unwrap();
            let kind = bag.swap_remove(pick);
            match (kind, cluster.as_deref_mut()) {
                ("crash", Some(cluster)) => self.crash(cluster).await,
                ("promotion", Some(cluster)) => self.promote(cluster).await,
                _ => self.strike(kind).await,
            }
            self.pause(2500).await;
        }
        while let Some(frozen) = self.frozen.pop() {
            tokio::time::sleep_until(frozen.until.into()).await;
            self.thaw(frozen);
        }
    }

    /// Waits for 0.3 s plus a random time, and continues frozen servers whose time is over.
    async fn pause(&mut self, most: u64) {
        let until = Instant::now() + Duration::from_millis(300) + self.dice.up_to_ms(most);
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(25)).await;
            let due = |frozen: &mut Frozen| frozen.until <= Instant::now();
            for frozen in self.frozen.extract_if(.., due).collect::<Vec<_>>() {
                self.thaw(frozen);
            }
        }
    }

    fn thaw(&mut self, mut frozen: Frozen) {
        self.fleet.freeze(frozen.at, false);
        frozen.fault.to = now();
        self.journal.lock().unwrap().faults.push(frozen.fault);
    }

    /// Returns a server that is not frozen. If all are, it continues one.
    async fn victim(&mut self) -> usize {
        loop {
            let servers = self.fleet.servers.iter().enumerate();
            let awake: Vec<_> = servers.filter(|it| !it.1.frozen).map(|it| it.0).collect();
            if !awake.is_empty() {
                let pick = self.dice.below(awake.len() as u64);
                return awake[usize::try_from(pick).unwrap()];
            }
            self.pause(100).await;
        }
    }

    fn note(&self, kind: &str, server: &str, from: i64) {
        let (kind, server) = (kind.to_owned(), server.to_owned());
        self.journal.lock().unwrap().faults.push(Fault { kind, server, from, to: now() });
    }

    async fn strike(&mut self, kind: &str) {
        let at = self.victim().await;
        let (name, ttl, from) = (self.fleet.servers[at].name(), self.fleet.servers[at].ttl, now());
        match kind {
            "kill" => {
                self.fleet.kill(at).await;
                self.pause(500).await;
                self.fleet.launch(at).await;
                self.note(kind, &name, from);
            }
            "term" => self.restart(at, &name, kind).await,
            "freeze" => {
                self.fleet.freeze(at, true);
                let time = Duration::from_millis(ttl + ttl / 4) + self.dice.up_to_ms(1000);
                let fault = Fault { kind: kind.to_owned(), server: name, from, ..Fault::default() };
                self.frozen.push(Frozen { at, until: Instant::now() + time, fault });
            }
            "cut" => self.cut(at, &name, ttl).await,
            _ => self.deploy(at, &name).await,
        }
    }

    async fn restart(&mut self, at: usize, name: &str, kind: &str) {
        let from = now();
        if !self.fleet.terminate(at).await {
            self.wrong.push(format!("server {name} did not exit in time after SIGTERM"));
        }
        self.fleet.launch(at).await;
        self.note(kind, name, from);
    }

    /// Cuts or silences the database traffic of one server or of all.
    async fn cut(&mut self, at: usize, name: &str, ttl: u64) {
        let from = now();
        let all = self.dice.one_in(3);
        let traffic = if self.dice.one_in(2) { Traffic::Cut } else { Traffic::Silent };
        let set = |fleet: &Fleet, traffic| {
            let servers = fleet.servers.iter().enumerate().filter(|it| all || it.0 == at);
            servers.filter_map(|it| it.1.proxy.as_ref()).for_each(|proxy| proxy.set(traffic));
        };
        set(&self.fleet, traffic);
        self.pause(ttl + ttl / 4).await;
        set(&self.fleet, Traffic::Flows);
        self.note("cut", if all { "" } else { name }, from);
    }

    /// Changes definitions: over HTTP, by a reload of the config file, or by a restart of one
    /// server while the others keep running.
    async fn deploy(&mut self, at: usize, name: &str) {
        let from = now();
        match self.dice.below(3) {
            0 => {
                let pick = usize::try_from(self.dice.below(100)).unwrap();
                if !self.fleet.put(pick).await {
                    self.wrong.push("PUT of a changed definition is refused".to_owned());
                }
                self.note("deploy", "-", from);
            }
            1 => {
                self.fleet.reload(at);
                self.note("deploy", "-", from);
            }
            _ => {
                self.fleet.revise();
                self.restart(at, name, "deploy").await;
            }
        }
    }

    async fn crash(&mut self, cluster: &mut Cluster) {
        let from = now();
        cluster.crash().await;
        self.note("crash", "", from);
    }

    async fn promote(&mut self, cluster: &mut Cluster) {
        let from = now();
        let port = cluster.promote().await;
        for proxy in self.fleet.servers.iter().filter_map(|server| server.proxy.as_ref()) {
            proxy.lead_to(port);
        }
        self.note("promotion", "", from);
        // Meanwhile, frozen servers whose time is over continue.
        let mut rebuilt = std::pin::pin!(cluster.rebuild_standby());
        loop {
            tokio::select! {
                () = &mut rebuilt => break,
                () = self.pause(0) => {}
            }
        }
    }
}

/// Creates a folder for a round.
pub(crate) fn folder(parent: &Path, store: Store, seed: u64) -> PathBuf {
    let folder = parent.join(format!("{}-{seed}", store.name()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
