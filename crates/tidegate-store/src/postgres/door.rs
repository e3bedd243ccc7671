//! How a connection is opened: encrypted as far as the address asks, with a [`Merged`] stream under
//! the driver.
//!
//! The driver lets a TLS connector make the stream, and gives away a plain one no other way. So it
//! is told that TLS begins at once, and the connector asks the server itself whether it does.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::{
    Client, Config, Connection, Socket,
    config::{Host, SslMode, SslNegotiation},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    address::{Address, Trust},
    flight::{Flight, Merged},
};

/// A connection that somebody has to poll.
pub(super) type Driven = Connection<Socket, Stream>;

/// Connects to the first server of an address that will do.
pub(super) async fn connect(
    address: &Address,
    tls: &MakeRustlsConnect,
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
        // The driver makes no TLS stream for a server without a name, and no merged one.
        Ask::Never
    };
    let tls = (address.trust != Trust::Off).then(|| tls.clone());
    let connector = Connector { tls, ask, flight: flight.clone() };
    let (client, driven) = config.connect(connector).await?;
    // Of several hosts, one that was given up may have had such a stream and this one none.
    if by_name {
        flight.set_merges();
    }
    Ok((client, driven))
}

fn is_by_name(config: &Config) -> bool {
    let hosts = config.get_hosts();
    !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Tcp(_)))
}

/// Whether the connector asks the server for encryption.
#[derive(Clone, Copy)]
enum Ask {
    First(SslMode),
    /// The driver has asked, or the server needs no asking.
    Never,
}

#[derive(Clone)]
struct Connector {
    /// None where nothing is encrypted.
    tls: Option<MakeRustlsConnect>,
    ask: Ask,
    flight: Arc<Flight>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Encrypt = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Opening;
    type Error = BoxError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Opening, BoxError> {
        let tls = match &mut self.tls {
            Some(tls) => Some(MakeTlsConnect::<Socket>::make_tls_connect(tls, domain)?),
            None => None,
        };
        Ok(Opening { tls, ask: self.ask, flight: self.flight.clone() })
    }
}

/// A connection that is being opened.
pub(super) struct Opening {
    tls: Option<Encrypt>,
    ask: Ask,
    flight: Arc<Flight>,
}

/// "Is this encrypted?", as the protocol asks it.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

impl TlsConnect<Socket> for Opening {
    type Stream = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn connect(self, mut socket: Socket) -> Self::Future {
        Box::pin(async move {
            let encrypt = match self.ask {
                Ask::Never => true,
                Ask::First(_) if self.tls.is_none() => false,
                Ask::First(mode) => {
                    socket.write_all(&SSL_REQUEST).await?;
                    let encrypts = socket.read_u8().await? == b'S';
                    if !encrypts && mode != SslMode::Prefer {
                        return Err("server does not support TLS".into());
                    }
                    encrypts
                }
            };
            let door = match self.tls {
                Some(tls) if encrypt => Door::Encrypted(Box::new(tls.connect(socket).await?)),
                _ => Door::Plain(socket),
            };
            Ok(Stream(Merged::new(door, self.flight)))
        })
    }
}

/// The stream that the driver reads and writes.
pub(super) struct Stream(Merged<Door>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        match self.0.inner() {
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
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A socket, encrypted or not.
enum Door {
    Plain(Socket),
    Encrypted(Box<<MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>),
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
