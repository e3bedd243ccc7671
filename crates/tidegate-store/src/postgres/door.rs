//! Opens a connection, encrypted if the address requires it, with a [`Merged`] stream between the
//! driver and the socket.
//!
//! Only a TLS connector can give the driver a stream of another type, even for a connection without
//! encryption. So the driver is configured for direct TLS, and the connector itself asks the server
//! whether it supports TLS.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::Sleep,
};
use tokio_postgres::{
    Client, Config, Connection, Socket,
    config::{Host, SslMode, SslNegotiation},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};

use super::{
    address::Address,
    flight::{Flight, Merged},
    tls::TlsConnector,
};

/// Timeout of the handshake if the address has no `connect_timeout`.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The driver's half of a connection, which a task must poll.
pub(super) type Driven = Connection<Socket, Stream>;

/// Connects to the first suitable server of an address.
pub(super) async fn connect(
    address: &Address,
    tls: Option<TlsConnector>,
    flight: Arc<Flight>,
) -> Result<(Client, Driven), tokio_postgres::Error> {
    let mut config = address.config.clone();
    let by_name = is_by_name(&config);
    let ask = if by_name {
        let mode = config.get_ssl_mode();
        let direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        if direct { Ask::Never } else { Ask::First(mode) }
    } else {
        // For a server without a host name, such as a Unix socket, the driver does not call the
        // connector: the stream is neither encrypted nor merged.
        Ask::Never
    };
    let limit = config.get_connect_timeout().copied().unwrap_or(HANDSHAKE);
    let done = Arc::new(AtomicBool::new(false));
    let connector = Connector { tls, ask, flight: flight.clone(), limit, done: done.clone() };
    let (client, driven) = config.connect(connector).await?;
    done.store(true, Ordering::Release);
    // Set only here, for the host that succeeded: the address may have several hosts.
    if by_name {
        flight.set_merges();
    }
    Ok((client, driven))
}

fn is_by_name(config: &Config) -> bool {
    let hosts = config.get_hosts();
    !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Tcp(_)))
}

/// Whether the connector asks the server for encryption before it starts TLS.
#[derive(Clone, Copy)]
enum Ask {
    First(SslMode),
    /// Does not ask: the driver has asked already, or the address requires direct TLS.
    Never,
}

#[derive(Clone)]
struct Connector {
    /// `None` without encryption.
    tls: Option<TlsConnector>,
    ask: Ask,
    flight: Arc<Flight>,
    /// Timeout of the handshake. The driver's own timeout ends when the server has accepted the
    /// connection, but a frozen server accepts connections and never answers. After this timeout
    /// the next host of the address is tried.
    limit: Duration,
    /// Whether the handshake is over.
    done: Arc<AtomicBool>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Encrypt = <TlsConnector as MakeTlsConnect<Socket>>::TlsConnect;

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Opening;
    type Error = BoxError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Opening, BoxError> {
        let tls = match &mut self.tls {
            Some(tls) => Some(MakeTlsConnect::<Socket>::make_tls_connect(tls, domain)?),
            None => None,
        };
        let Self { ask, flight, limit, done, .. } = self.clone();
        Ok(Opening { tls, ask, flight, limit, done })
    }
}

/// Connection that is being opened.
pub(super) struct Opening {
    tls: Option<Encrypt>,
    ask: Ask,
    flight: Arc<Flight>,
    limit: Duration,
    done: Arc<AtomicBool>,
}

/// `SSLRequest` message of the protocol.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

impl TlsConnect<Socket> for Opening {
    type Stream = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let Self { tls, ask, flight, limit, done } = self;
            let door = tokio::time::timeout(limit, open(tls, ask, socket));
            let door = door.await.map_err(|_| silent())??;
            let handshake = Some(Handshake { end: Box::pin(sleep(limit)), done });
            Ok(Stream { merged: Merged::new(door, flight), handshake })
        })
    }
}

async fn open(tls: Option<Encrypt>, ask: Ask, mut socket: Socket) -> Result<Door, BoxError> {
    let encrypt = match ask {
        Ask::Never => true,
        Ask::First(_) if tls.is_none() => false,
        Ask::First(mode) => {
            socket.write_all(&SSL_REQUEST).await?;
            let encrypts = socket.read_u8().await? == b'S';
            if !encrypts && mode != SslMode::Prefer {
                return Err("server does not support TLS".into());
            }
            encrypts
        }
    };
    Ok(match tls {
        Some(tls) if encrypt => Door::Encrypted(Box::new(tls.connect(socket).await?)),
        _ => Door::Plain(socket),
    })
}

#[expect(clippy::disallowed_methods, reason = "a database runs in real time")]
fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

fn silent() -> io::Error {
    let text = "the server accepted the connection and said nothing in time";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Stream that the driver reads and writes.
pub(super) struct Stream {
    merged: Merged<Door>,
    /// `None` after the handshake.
    handshake: Option<Handshake>,
}

/// Timeout for all messages before the first statement.
struct Handshake {
    end: Pin<Box<Sleep>>,
    done: Arc<AtomicBool>,
}

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        match self.merged.inner() {
            Door::Plain(_) => ChannelBinding::none(),
            Door::Encrypted(stream) => stream.channel_binding(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(handshake) = &mut self.handshake {
            if handshake.done.load(Ordering::Acquire) {
                self.handshake = None;
            } else if handshake.end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(silent()));
            }
        }
        Pin::new(&mut self.merged).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.merged).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.merged).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.merged).poll_shutdown(cx)
    }
}

/// Socket, encrypted or not.
enum Door {
    Plain(Socket),
    Encrypted(Box<<TlsConnector as MakeTlsConnect<Socket>>::Stream>),
}

impl AsyncRead for Door {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Door {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
