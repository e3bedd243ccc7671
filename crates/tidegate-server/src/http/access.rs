//! Access control: API keys, workspaces and request limits.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use tidegate::{Engine, Error};
use tidegate_core::{
    access::AccessCommand,
    row::{ApiKey, Workspace},
    time::Timestamp,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{operation::Needs, problem::Problem};
use crate::keys;

/// Header that names the workspace.
const WORKSPACE: HeaderName = HeaderName::from_static("tidegate-workspace");

/// Lifetime of the cached keys: a revoked key is accepted for this long at most.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Minimum age of the cache before it is refreshed for an unknown key.
const LOOKED_AGAIN: Duration = Duration::from_millis(100);

/// Interval at which the last use of a key is recorded.
const NOTED: Duration = Duration::from_secs(60);

/// Maximum number of concurrent requests, per API key and in total. More than that is an error of a
/// client or a slow server, and further requests would only wait longer.
const AT_ONCE: (usize, usize) = (1000, 4000);

/// Access control of a server: its workspaces, its cached API keys and its request limits.
#[derive(Debug)]
pub(crate) struct Access {
    workspaces: Vec<Workspace>,
    /// Whether the server is reachable from this machine only.
    loopback: bool,
    /// Whether requests come from this process itself, which has the store open and needs no API
    /// key.
    inside: bool,
    cache: Mutex<KeyCache>,
    /// Locked by the request that reads the keys from the store; other requests wait for its
    /// result.
    turn: tokio::sync::Mutex<()>,
    room: Arc<Semaphore>,
    rooms: Mutex<HashMap<String, Arc<Semaphore>>>,
}

#[derive(Debug, Default)]
struct KeyCache {
    at: Option<Instant>,
    keys: HashMap<String, ApiKey>,
    now: Timestamp,
    /// Number of reads of the keys so far. `error` is the error of the last read.
    looks: u64,
    error: Option<Error>,
}

/// An accepted request: its workspace's engine and its API key.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) engine: Engine,
    /// The API key of the request; `None` if the server requires none.
    pub(super) key: Option<ApiKey>,
}

impl Access {
    pub(crate) fn new(workspaces: Vec<Workspace>, loopback: bool) -> Self {
        let room = Arc::new(Semaphore::new(AT_ONCE.1));
        Self {
            workspaces,
            loopback,
            inside: false,
            cache: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            room,
            rooms: Mutex::default(),
        }
    }

    /// Access control for requests of this process, which do not use the network.
    pub(crate) fn inside(workspace: &str) -> Self {
        Self { inside: true, ..Self::new(vec![workspace.into()], true) }
    }

    /// Returns the workspaces that this server serves.
    pub(super) fn workspaces(&self) -> Vec<String> {
        self.workspaces.iter().map(|ws| (**ws).to_owned()).collect()
    }

    /// Authenticates and authorizes a request.
    pub(super) async fn admit(
        &self,
        engine: &Engine,
        needs: Needs,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Admitted, Problem> {
        let given = bearer(headers);
        let key = self.key(engine, given).await?;
        let named = text(headers, &WORKSPACE);
        let ws = match &key {
            Some(key) => {
                if needs == Needs::Full {
                    may_change(Some(key))?;
                }
                self.note(engine, key);
                (*key.ws).to_owned()
            }
            None => {
                if !self.inside {
                    check_host(headers)?;
                }
                named.map_or_else(|| engine.workspace().to_owned(), str::to_owned)
            }
        };
        if given.is_none() && method != Method::GET {
            check_origin(headers)?;
        }
        if !self.serves(&ws) || named.is_some_and(|named| named != ws) {
            let detail = format!("this server has no workspace `{}`", named.unwrap_or(&ws));
            return Err(Problem::not_found("no_workspace", detail));
        }
        Ok(Admitted { engine: engine.in_workspace(ws.as_str()), key })
    }

    /// Whether this server serves a workspace.
    pub(crate) fn serves(&self, workspace: &str) -> bool {
        self.workspaces.iter().any(|it| **it == *workspace)
    }

    /// Admits a request of another protocol that has no API key: only to a server that requires
    /// none, from this machine. With `pages`, pages of other servers of this machine may send it.
    pub(crate) async fn admit_local(
        &self,
        engine: &Engine,
        method: &Method,
        headers: &HeaderMap,
        pages: bool,
    ) -> Result<(), Problem> {
        self.key(engine, None).await?;
        if !self.inside {
            check_host(headers)?;
        }
        if *method == Method::GET || pages && has_local_origin(headers) {
            return Ok(());
        }
        check_origin(headers)
    }

    /// Returns the API key of a request; `None` if the server requires none.
    async fn key(&self, engine: &Engine, given: Option<&str>) -> Result<Option<ApiKey>, Problem> {
        if self.inside {
            return Ok(None);
        }
        self.look(engine, REMEMBERED).await?;
        if self.cache().keys.is_empty() && self.loopback {
            return Ok(None);
        }
        let Some(given) = given else {
            let detail = "the request has no API key: send `Authorization: Bearer tg_…`";
            return Err(Problem::unauthorized("key_missing", detail));
        };
        let id = keys::public_part(given).unwrap_or_default();
        let is_cached = self.cache().keys.contains_key(id);
        if !is_cached {
            self.look(engine, LOOKED_AGAIN).await?;
        }
        let cache = self.cache();
        let key = cache.keys.get(id).filter(|key| keys::is(given, key));
        let good = |key: &&ApiKey| {
            key.revoked_at.is_none() && key.expires_at.is_none_or(|end| cache.now < end)
        };
        let bad = || Problem::unauthorized("bad_key", "the API key is unknown, expired or revoked");
        key.filter(good).cloned().map(Some).ok_or_else(bad)
    }

    fn cache(&self) -> MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the keys from the store if the cache is too old. One request reads, and all requests
    /// that wait meanwhile share its result or its error. If each read for itself, each would wait
    /// for the timeout of a store that does not answer.
    async fn look(&self, engine: &Engine, remembered: Duration) -> Result<(), Problem> {
        let looks = {
            let cache = self.cache();
            if cache.at.is_some_and(|at| at.elapsed() < remembered) {
                return Ok(());
            }
            cache.looks
        };
        let _turn = self.turn.lock().await;
        {
            let cache = self.cache();
            if cache.looks != looks {
                return cache.error.clone().map_or(Ok(()), |error| Err(error.into()));
            }
        }
        let read = keys::all(&**engine.store()).await;
        let mut cache = self.cache();
        cache.looks += 1;
        match read {
            Ok((keys, now)) => {
                cache.keys = keys.into_iter().map(|key| (key.id.clone(), key)).collect();
                (cache.now, cache.at, cache.error) = (now, Some(Instant::now()), None);
                Ok(())
            }
            Err(error) => {
                cache.error = Some(error.clone());
                Err(error.into())
            }
        }
    }

    /// Invalidates the cache after this server has created or revoked a key.
    pub(super) async fn forget_keys(&self) {
        // Waits for a read in progress: it may have begun before the change.
        let _turn = self.turn.lock().await;
        self.cache().at = None;
    }

    /// Takes the permits for one request whose body has arrived. An incomplete request takes none:
    /// otherwise a client without a key could use up all permits.
    pub(crate) fn room(&self, key: Option<&ApiKey>) -> Result<[OwnedSemaphorePermit; 2], Problem> {
        let own = {
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            let name = key.map(|key| key.id.clone()).unwrap_or_default();
            rooms.entry(name).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE.0))).clone()
        };
        let full = |status, code, what: &str, most: usize| {
            let detail = format!("{most} requests {what} are in progress; retry later");
            Problem::new(status, code, detail).retry_after(1)
        };
        let own = own.try_acquire_owned().map_err(|_| {
            let status = StatusCode::TOO_MANY_REQUESTS;
            full(status, "too_many_requests", "under this key", AT_ONCE.0)
        })?;
        let all = self.room.clone().try_acquire_owned().map_err(|_| {
            full(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "of all clients", AT_ONCE.1)
        })?;
        Ok([own, all])
    }

    /// Records the last use of a key, at most once per interval, in the background.
    fn note(&self, engine: &Engine, key: &ApiKey) {
        let now = engine.now();
        let old = |at: Timestamp| at.micros() + i64::try_from(NOTED.as_micros()).unwrap_or(0);
        if key.used_at.is_some_and(|at| now.micros() < old(at)) {
            return;
        }
        // The cache is updated first: otherwise the requests of the next second would write the
        // same row.
        if let Some(cached) = self.cache().keys.get_mut(&key.id) {
            cached.used_at = Some(now);
        }
        let (store, id) = (engine.store().clone(), key.id.clone());
        tokio::spawn(async move {
            let used = AccessCommand::Used { id, at: now };
            if let Err(error) = keys::change(&*store, used, None).await {
                tracing::warn!(%error, "recording the use of an API key failed");
            }
        });
    }
}

/// Rejects a read-only key.
pub(super) fn may_change(key: Option<&ApiKey>) -> Result<(), Problem> {
    let Some(key) = key.filter(|key| key.read_only) else { return Ok(()) };
    let detail = format!("API key `{}` is read-only", key.name);
    Err(Problem::new(StatusCode::FORBIDDEN, "read_only_key", detail))
}

/// Returns the API key in a request's headers.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = text(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Checks the `Host` header. A server without API keys accepts only names of this machine:
/// otherwise a web page in this machine's browser could reach it through a domain name that
/// resolves to this machine (DNS rebinding).
fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, &header::HOST).unwrap_or_default();
    if is_local(name_of(host)) {
        return Ok(());
    }
    let detail = format!(
        "host `{host}` is not this machine; without API keys only `localhost` and loopback \
         addresses are accepted"
    );
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail))
}

/// Returns the host name in `name:port`.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let address = name.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback());
    address || name == "localhost" || name.ends_with(".localhost")
}

/// Whether a request comes from a page of this machine.
fn has_local_origin(headers: &HeaderMap) -> bool {
    let origin = text(headers, &header::ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, authority)| is_local(name_of(authority)))
}

/// Checks the origin: a page of another site must not send requests through its reader's browser.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, &header::HOST);
    let origin = text(headers, &header::ORIGIN);
    let same = |origin: &str| origin.split_once("://").map(|(_, rest)| rest) == host;
    let cross = text(headers, &HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
    if cross || origin.is_some_and(|origin| !same(origin)) {
        let detail = format!("cross-site request from `{}`", origin.unwrap_or("unknown"));
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use async_trait::async_trait;
    use tidegate::testing::TestHarness;
    use tidegate_core::{
        catalog::Catalog,
        reads::{ReadSet, Snapshot},
        row::{EngineId, Row},
    };
    use tidegate_store::{Decide, Store, StoreError};
    use tokio::sync::watch;

    use super::*;

    /// Test store whose reads do not answer until a permit makes them fail.
    #[derive(Debug)]
    struct Silent {
        reads: AtomicUsize,
        fails: Semaphore,
    }

    fn gone() -> StoreError {
        StoreError::Unavailable("gone".into())
    }

    #[async_trait]
    impl Store for Silent {
        async fn transact(&self, _: ReadSet, _: Decide) -> Result<(), StoreError> {
            Err(gone())
        }

        async fn read(&self, _: ReadSet) -> Result<Snapshot, StoreError> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.fails.acquire().await.unwrap().forget();
            Err(gone())
        }

        async fn heartbeat(&self, _: EngineId, _: u32) -> Result<bool, StoreError> {
            Err(gone())
        }

        fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
            BTreeMap::new()
        }

        fn wakes(&self) -> watch::Receiver<u64> {
            watch::channel(0).1
        }

        fn wake(&self) {}

        async fn dump(&self) -> Result<Vec<Row>, StoreError> {
            Err(gone())
        }
    }

    /// Requests that wait for the keys at the same time all get the error of one read.
    #[tokio::test]
    async fn one_request_reads_the_keys_for_all() {
        let store = Arc::new(Silent { reads: AtomicUsize::new(0), fails: Semaphore::new(0) });
        let engine = Engine::builder(store.clone()).read_only();
        let access = Arc::new(Access::new(vec!["default".into()], true));
        let ask = || {
            let (access, engine) = (access.clone(), engine.clone());
            tokio::spawn(async move { access.key(&engine, None).await.is_err() })
        };
        let requests: Vec<_> = (0..10).map(|_| ask()).collect();
        while store.reads.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // The runtime has one thread, so all other requests are waiting by now. With 20 permits,
        // none can hang.
        store.fails.add_permits(20);
        for request in requests {
            assert!(request.await.unwrap(), "each request must get the error of the store");
        }
        assert_eq!(store.reads.load(Ordering::SeqCst), 1);
        // A later request reads the keys again.
        assert!(ask().await.unwrap());
        assert_eq!(store.reads.load(Ordering::SeqCst), 2);
    }

    /// The last use of a key is recorded at most once per minute, not with every request.
    #[tokio::test]
    async fn the_use_of_a_key_is_noted_once_a_minute() {
        let harness = TestHarness::new();
        let engine = harness.engine().start().await.unwrap();
        let ws: Workspace = "default".into();
        let wanted = keys::Wanted {
            ws: ws.clone(),
            name: "a".to_owned(),
            read_only: false,
            expires_at: None,
        };
        let (key, _) = keys::make(&**harness.store(), wanted, None).await.unwrap();
        let access = Access::new(vec![ws], false);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        let start = harness.now();
        for (after, noted) in [(0, 0), (59, 0), (1, 60), (30, 60), (31, 121)] {
            harness.advance(Duration::from_secs(after)).await;
            access.admit(&engine, Needs::Read, &Method::GET, &headers).await.unwrap();
            // A separate task records the use in the background.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let used = keys::all(&**harness.store()).await.unwrap().0[0].used_at;
            assert_eq!(used, Some(start.plus_ms(noted * 1000)), "{after} s later");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in
            ["localhost", "LOCALHOST:1", "a.localhost.", "127.0.0.1:80", "[::1]:80", "127.9.9.9"]
        {
            assert!(is_local(name_of(host)), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.0.0.1", "[fe80::1]", "0.0.0.0"]
        {
            assert!(!is_local(name_of(host)), "{host}");
        }
    }
}
