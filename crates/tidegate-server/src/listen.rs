//! Connection handling: accept loop, limits and graceful shutdown.
//!
//! This is not `axum::serve`, because that has no timeout for request headers: a client that sends
//! its headers slowly, or never, would hold a connection forever.

mod strict;

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use axum::{Router, body::Body, extract::Request};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore, watch},
};

use self::strict::Strict;

/// Timeout for the headers of the first request of a connection. Later requests have the idle
/// timeout.
const FIRST_HEADERS: Duration = Duration::from_secs(10);

/// Default idle timeout of a connection. It is longer than the 60 seconds for which common proxies
/// keep idle connections. So the proxy closes first, and never sends a request into a connection
/// that the server is closing.
pub(crate) const IDLE: Duration = Duration::from_secs(75);

/// Time for open requests to end after the drain. With the default of `drainMs` the server exits
/// within 30 seconds, which most supervisors allow.
const GRACE: Duration = Duration::from_secs(4);

/// Maximum number of open connections. Further connections wait to be accepted.
const CONNECTIONS: usize = 10_000;

/// Serves until the future `stop` completes, then gives open requests a grace period.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Routes,
    idle: Duration,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let permit = connections.clone().acquire_owned().await;
            listener.accept().await.map(|(stream, peer)| (permit, stream, peer))
        };
        let (permit, stream, peer) = tokio::select! {
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process has no free file descriptor, or the client has already
                    // disconnected.
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        // Small writes of a response that is streamed must not wait for acknowledgements. The result
        // is ignored: it is an error only if the client has disconnected.
        let _ = stream.set_nodelay(true);
        let first_request = Arc::new(Notify::new());
        let service =
            WithPeer { routes: routes.clone(), peer, first_request: first_request.clone() };
        let service = TowerToHyperService::new(service);
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(64 * 1024);
        let stream = TokioIo::new(Strict::new(stream));
        let connection = graceful.watch(http.serve_connection(stream, service));
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = silent(&first_request) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, %peer, "connection ended with an error");
            }
            drop(permit);
        });
    }
    drop(listener);
    STOPPING.send_replace(true);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("closed connections with open requests");
    }
    Ok(())
}

/// Completes if a new connection sends no request in time; otherwise never.
async fn silent(first_request: &Notify) {
    if tokio::time::timeout(FIRST_HEADERS, first_request.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Whether this process is shutting down.
static STOPPING: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Completes when the server shuts down. Endless responses end with it, so that they do not delay
/// the shutdown.
pub(crate) async fn stopping() {
    // The result is ignored: it is an error only if the sender was dropped, which never happens.
    let _ = STOPPING.subscribe().wait_for(|stopping| *stopping).await;
}

/// Adds the peer address to each request.
#[derive(Clone)]
struct WithPeer {
    routes: Routes,
    peer: SocketAddr,
    first_request: Arc<Notify>,
}

impl tower_service::Service<Request<Incoming>> for WithPeer {
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = <Router as tower_service::Service<Request<Body>>>::Future;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        self.first_request.notify_one();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        tower_service::Service::call(&mut self.routes.now(), request)
    }
}

/// The current router. It can be replaced, so that a starting server can answer with 503 `starting`
/// first.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    first: Router,
    then: Arc<OnceLock<Router>>,
}

impl Routes {
    /// Routes all requests to this router, until [`Routes::go_on`] replaces it.
    pub(crate) fn to(first: Router) -> Self {
        Self { first, then: Arc::default() }
    }

    /// Routes requests to this router from now on, also on connections that are already open.
    pub(crate) fn go_on(&self, router: Router) {
        let _twice = self.then.set(router);
    }

    fn now(&self) -> Router {
        self.then.get().unwrap_or(&self.first).clone()
    }
}
