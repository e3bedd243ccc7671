//! Code of the child processes: their orders, and how they report their progress.

use std::{
    env,
    io::Read,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tidegate::{Engine, EngineBuilder};

use crate::{
    crowd, handover, journal::Journal, matrix, place::Place, process::journal_of, readers, writers,
    zombie,
};

/// Job of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Order,
    Zombie,
    Heir,
    Leaver,
    Crowd,
    Committer { commits: usize, streams: usize },
    Actor { acts: usize },
    Follower,
    Reader,
}

/// Orders of a process, written by the test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) role: Role,
    /// Name of the process in the journal.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) folder: PathBuf,
    pub(crate) ttl: Duration,
    /// Point at which the process stops, so that the test can kill it there.
    pub(crate) stop_at: Option<String>,
}

impl Orders {
    /// Environment variable with the orders.
    pub(crate) const VARIABLE: &str = "TIDEGATE_TEST_ORDERS";
}

/// A child process, as its own code sees it.
#[derive(Debug)]
pub(crate) struct Me {
    pub(crate) orders: Orders,
    journal: Journal,
}

impl Me {
    pub(crate) fn name(&self) -> &str {
        &self.orders.name
    }

    pub(crate) fn note(&self, what: &str) {
        self.journal.note(&self.orders.name, what);
    }

    /// Point at which the orders may stop the process. Its task then blocks forever.
    pub(crate) fn point(&self, name: &str) {
        self.note(name);
        while self.orders.stop_at.as_deref() == Some(name) {
            thread::park();
        }
    }

    /// Returns the path of a door: a file that the test creates to let waiting processes continue.
    pub(crate) fn door(&self, name: &str) -> PathBuf {
        self.orders.folder.join(name)
    }

    /// Returns a builder for an engine on the test's store.
    pub(crate) async fn engine(&self) -> EngineBuilder {
        Engine::builder(self.orders.place.open().await).lease_ttl(self.orders.ttl)
    }
}

/// Waits until the test opens a door.
pub(crate) async fn wait_for_door(door: &Path) {
    while !door.exists() {
        pause(Duration::from_millis(5)).await;
    }
}

/// Sleeps in real time, because other real processes are involved.
#[expect(clippy::disallowed_methods, reason = "real processes need real time")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Executes the orders of this process, until it is killed or done.
pub(crate) fn live() {
    let Ok(orders) = env::var(Orders::VARIABLE) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    thread::spawn(|| {
        // The test holds the other end of this pipe. If the test ends, this process ends, too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        process::exit(1);
    });
    let me = Me { journal: journal_of(&orders.folder), orders };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if matches!(me.orders.role, Role::Zombie) {
        builder = zombie::runtime();
    }
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    // Leaked on purpose: dropping it could block on a handler that never ends.
    let me: &'static Me = Box::leak(Box::new(me));
    runtime.block_on(async {
        match me.orders.role {
            Role::Order => matrix::live(me).await,
            Role::Zombie => zombie::live(me).await,
            Role::Heir => zombie::inherit(me).await,
            Role::Leaver => handover::live(me).await,
            Role::Crowd => crowd::live(me).await,
            Role::Committer { commits, streams } => writers::commit(me, commits, streams).await,
            Role::Actor { acts } => writers::act(me, acts).await,
            Role::Follower => writers::follow(me).await,
            Role::Reader => readers::live(me).await,
        }
    });
    process::exit(0);
}
