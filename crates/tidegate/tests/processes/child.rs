//! The child side of a process: its orders, and how it reports its progress.

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

/// The job of a process.
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

/// The orders of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) role: Role,
    /// The name that signs its journal lines.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) folder: PathBuf,
    pub(crate) ttl: Duration,
    /// The point at which it stops, to be killed there.
    pub(crate) stop_at: Option<String>,
}

impl Orders {
    /// The environment variable that holds the orders.
    pub(crate) const VARIABLE: &str = "TIDEGATE_TEST_ORDERS";
}

/// A child process, from the inside.
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

    /// A point at which the orders may stop the process for good: nothing else of this task
    /// happens.
    pub(crate) fn point(&self, name: &str) {
        self.note(name);
        while self.orders.stop_at.as_deref() == Some(name) {
            thread::park();
        }
    }

    /// The path of the file that the test creates to let processes continue.
    pub(crate) fn door(&self, name: &str) -> PathBuf {
        self.orders.folder.join(name)
    }

    /// An engine on the test's store.
    pub(crate) async fn engine(&self) -> EngineBuilder {
        Engine::builder(self.orders.place.open().await).lease_ttl(self.orders.ttl)
    }
}

/// Waits for the test to open a door.
pub(crate) async fn wait_for_door(door: &Path) {
    while !door.exists() {
        pause(Duration::from_millis(5)).await;
    }
}

/// Sleeps in real time, because other real processes are waited for.
#[expect(clippy::disallowed_methods, reason = "real processes need real time")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Carries out the orders, until it is killed or done.
pub(crate) fn live() {
    let Ok(orders) = env::var(Orders::VARIABLE) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    thread::spawn(|| {
        // The test holds the other end. When the test is gone, there is nothing left to do.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        process::exit(1);
    });
    let me = Me { journal: journal_of(&orders.folder), orders };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if matches!(me.orders.role, Role::Zombie) {
        builder = zombie::runtime();
    }
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    // Leaked, because a blocked handler would keep the runtime from ending.
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
