//! Proxy between a server and its database. It can be cut, silenced and redirected.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// What the proxy does with traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Flows,
    /// Open connections are closed, and new ones are closed at once.
    Cut,
    /// Connections stay open, but no data passes until the proxy is open again.
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct State {
    traffic: Traffic,
    /// Port of the database. A change closes the connections to the old port.
    port: u16,
}

/// Proxy with its own port.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: watch::Sender<State>,
}

impl Proxy {
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = watch::Sender::new(State { traffic: Traffic::Flows, port });
        let seen = state.subscribe();
        tokio::spawn(async move {
            while let Ok((inside, _)) = listener.accept().await {
                tokio::spawn(carry(inside, seen.clone()));
            }
        });
        Self { port: own, state }
    }

    pub(crate) fn set(&self, traffic: Traffic) {
        self.state.send_modify(|state| state.traffic = traffic);
    }

    pub(crate) fn lead_to(&self, port: u16) {
        self.state.send_modify(|state| state.port = port);
    }
}

async fn carry(inside: TcpStream, mut seen: watch::Receiver<State>) {
    let State { traffic, port } = *seen.borrow_and_update();
    if traffic == Traffic::Cut {
        return;
    }
    let Ok(outside) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
    let ((from_in, to_in), (from_out, to_out)) = (inside.into_split(), outside.into_split());
    tokio::select! {
        () = copy(from_in, to_out, seen.clone()) => {}
        () = copy(from_out, to_in, seen.clone()) => {}
        _ = seen.wait_for(|it| it.traffic == Traffic::Cut || it.port != port) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut seen: watch::Receiver<State>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let flows = seen.wait_for(|it| it.traffic == Traffic::Flows).await.is_ok();
        if !flows || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
