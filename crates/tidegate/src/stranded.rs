//! Stranded runs: logs workflow versions that have live runs but that no live engine serves.

use std::{collections::BTreeSet, sync::Arc};

use tidegate_core::{
    catalog::{Catalog, Version},
    id::Seq,
    reads::{ReadSet, Scan, Snapshot},
    row::{Row, Workspace},
    version::Registered,
};

use crate::{api::Engine, engine::Shared, error::Error};

/// Maximum number of engines that are read.
const ENGINES: u32 = 1000;

/// Maximum number of runs of a version that are counted.
const COUNTED: u32 = 1000;

/// Maximum number of unserved versions checked at a time, newest first. Each one needs a scan.
const VERSIONS: usize = 256;

const WAYS_OUT: &str = "start code that serves the version, let newer code continue its runs \
                        (`also_serves`), or cancel them";

/// Logs stranded versions when the engine starts, and later each version that becomes stranded. A
/// crashed engine counts as live until its lease ends.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let mut listed = BTreeSet::new();
    loop {
        if let Err(error) = list(shared, &mut listed).await {
            tracing::warn!(%error, "cannot check for runs that no live engine serves");
        }
        shared.timer.sleep_until(shared.timer.elapsed() + shared.options.lease_ttl).await;
    }
}

/// Logs each unserved version that has live runs, unless it was logged before.
async fn list(shared: &Shared, listed: &mut BTreeSet<Seq>) -> Result<(), Error> {
    let reads = ReadSet::default().scan(Scan::Engines, ENGINES);
    let reads = shared.stored.workspaces.iter().fold(reads, ReadSet::catalog);
    let snapshot = shared.store.read(reads).await?;
    let served = served(shared, &snapshot);
    let unserved = |catalog: &Arc<Catalog>| -> Vec<Version> {
        let versions = catalog.entries().flat_map(|(_, entry)| entry.versions.values());
        versions.filter(|version| !served.contains(&version.lane)).cloned().collect()
    };
    let mut versions: Vec<(&Workspace, Version)> = snapshot
        .catalogs
        .iter()
        .flat_map(|(ws, catalog)| unserved(catalog).into_iter().map(move |version| (ws, version)))
        .collect();
    versions.sort_by_key(|(_, version)| std::cmp::Reverse(version.lane));
    versions.truncate(VERSIONS);
    // First read one run of each version, to find the versions with runs. All runs of a version are
    // counted only when it is logged.
    versions = live(shared, versions, 1).await?.into_iter().map(|(found, _)| found).collect();
    let stranded = versions.iter().map(|(_, version)| version.lane).collect();
    versions.retain(|(_, version)| !listed.contains(&version.lane));
    for ((ws, version), runs) in live(shared, versions, COUNTED).await? {
        let (workflow, version) = (&version.def.name, version.number);
        tracing::warn!(
            workspace = %ws, workflow, version, runs, fix = WAYS_OUT,
            "no live engine serves these runs"
        );
    }
    *listed = stranded;
    Ok(())
}

/// Returns the lanes of the versions that this engine or another live engine serves.
fn served(shared: &Shared, snapshot: &Snapshot) -> BTreeSet<Seq> {
    let mut served: BTreeSet<Seq> = shared.lanes().into_iter().collect();
    for row in snapshot.found(&Scan::Engines) {
        let Row::Engine(engine) = row else { continue };
        served.extend(engine.serves.iter().filter(|_| !engine.dead));
    }
    served
}

impl Engine {
    /// Returns whether a live engine has code for a registered version.
    pub async fn is_served(&self, registered: &Registered) -> Result<bool, Error> {
        let reads = ReadSet::default().scan(Scan::Engines, ENGINES);
        let snapshot = self.store().read(reads).await?;
        Ok(served(self.shared(), &snapshot).contains(&registered.lane))
    }
}

/// Returns the versions that have live runs, each with the number of these runs, counted up to
/// `limit`.
async fn live<'a>(
    shared: &Shared,
    versions: Vec<(&'a Workspace, Version)>,
    limit: u32,
) -> Result<Vec<((&'a Workspace, Version), usize)>, Error> {
    if versions.is_empty() {
        return Ok(Vec::new());
    }
    let scan = |version: &Version| Scan::Lane(version.lane, Seq(i64::MIN));
    let reads = versions
        .iter()
        .fold(ReadSet::default(), |reads, (_, version)| reads.scan(scan(version), limit));
    let snapshot = shared.store.read(reads).await?;
    let counted = versions.into_iter().map(|found| {
        let runs = snapshot.found(&scan(&found.1)).len();
        (found, runs)
    });
    Ok(counted.filter(|(_, runs)| *runs > 0).collect())
}
