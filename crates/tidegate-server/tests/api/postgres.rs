//! Test databases, and a proxy that can cut the connections to one.

use std::{pin::pin, sync::Arc};

use tidegate_store::tokio_postgres::{Client, NoTls, connect};
use tidegate_testkit::postgres;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Connects to a database.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Creates a database and returns its URL. Without a PostgreSQL it returns `None` and prints a
/// message.
pub(crate) async fn database() -> Option<String> {
    let url = postgres::url()?;
    let name = postgres::fresh_schema("server");
    client(url).await.batch_execute(&format!("create database {name}")).await.unwrap();
    let (server, rest) = split(url);
    let options = rest.split_once('?').map(|(_, options)| format!("?{options}"));
    Some(format!("{server}/{name}{}", options.unwrap_or_default()))
}

/// Like `database`, for synchronous callers.
pub(crate) fn database_now() -> Option<String> {
    let made = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(database())
    });
    made.join().unwrap()
}

/// Returns the URL of the same database through a pooler.
pub(crate) fn through(pooler: &str, database: &str) -> String {
    format!("{}{}", split(pooler).0, split(database).1)
}

/// Splits a URL after the port.
fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").unwrap() + 3;
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    (&url[..end], &url[end..])
}

/// Proxy to the database. When it is cut, open connections are closed and new ones refused.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) url: String,
    open: Arc<watch::Sender<bool>>,
    frozen: Arc<watch::Sender<bool>>,
}

impl Door {
    pub(crate) async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (server, rest) = split(url);
        let (before, host) = match server.rsplit_once('@') {
            Some((before, host)) => (format!("{before}@"), host.to_owned()),
            None => ("postgres://".to_owned(), server.replace("postgres://", "")),
        };
        let door = format!("{before}{}{rest}", listener.local_addr().unwrap());
        let open = Arc::new(watch::Sender::new(true));
        let frozen = Arc::new(watch::Sender::new(false));
        let (is_open, is_frozen) = (open.clone(), frozen.clone());
        tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let (mut open, mut frozen) = (is_open.subscribe(), is_frozen.subscribe());
                let host = host.clone();
                tokio::spawn(async move {
                    if !*open.borrow() {
                        return;
                    }
                    let mut outside = TcpStream::connect(host).await.unwrap();
                    let mut copying = pin!(copy_bidirectional(&mut inside, &mut outside));
                    loop {
                        let stands = *frozen.borrow_and_update();
                        tokio::select! {
                            _ = &mut copying, if !stands => return,
                            _ = open.wait_for(|open| !open) => return,
                            _ = frozen.changed() => {}
                        }
                    }
                });
            }
        });
        Self { url: door, open, frozen }
    }

    /// Freezes or continues the proxy. While it is frozen, connections are accepted and stay open
    /// but carry no data, as with a stalled database machine.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub(crate) fn open(&self, open: bool) {
        self.open.send_replace(open);
    }
}
