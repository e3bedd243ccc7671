//! Test fleet: one server on a SQLite file, or two servers on one PostgreSQL database.

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, RequestBuilder, Response, StatusCode};

use crate::{postgres::database, server::Server};

/// Kind of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// One server on a file.
    File,
    /// Two servers on one PostgreSQL.
    Postgres,
}

/// The servers, and a client of all of them.
pub(crate) struct Fleet {
    servers: Vec<Server>,
    pub(crate) front: Front,
}

impl Fleet {
    /// Starts the servers. Without a PostgreSQL it returns `None` and prints a message.
    pub(crate) async fn start(on: On, config: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let (count, config) = match on {
            On::File => (1, config.to_owned()),
            On::Postgres => (2, format!("store = \"{}\"\n{config}", database().await?)),
        };
        let servers: Vec<_> = (0..count).map(|_| Server::start_with(&config, variables)).collect();
        let urls = servers.iter().map(|server| server.url().to_owned()).collect();
        let http = Client::builder().no_proxy().build().unwrap();
        let front =
            Front { http, urls: Arc::new(RwLock::new(urls)), turn: Arc::default(), home: None };
        Some(Self { servers, front })
    }

    /// Returns the next server, round robin.
    pub(crate) fn next(&self) -> &Server {
        &self.servers[self.front.turn() % self.servers.len()]
    }

    /// Returns the number of servers.
    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Kills one server with SIGKILL, and starts another on the same data.
    pub(crate) fn crash_and_restart(&mut self, n: usize) {
        self.servers[n].crash_and_restart();
        self.servers[n].url().clone_into(&mut self.front.urls.write().unwrap()[n]);
    }
}

/// Client that uses the servers round robin, and retries until one answers.
#[derive(Clone)]
pub(crate) struct Front {
    http: Client,
    urls: Arc<RwLock<Vec<String>>>,
    turn: Arc<AtomicUsize>,
    /// Index of the preferred server; if `None`, servers are used round robin.
    home: Option<usize>,
}

/// Delay between attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// Maximum number of attempts.
const TRIES: usize = 3000;

impl Front {
    /// Returns a client that prefers one server. It uses others only while that one is unavailable.
    pub(crate) fn at(&self, home: usize) -> Self {
        Self { home: Some(home), ..self.clone() }
    }

    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request until a server answers, and returns the head of the answer. The request may
    /// be sent more than once: if it must take effect only once, it needs an idempotency key.
    pub(crate) async fn ask(&self, make: impl Fn(&Client, &str) -> RequestBuilder) -> Response {
        for tries in 0..TRIES {
            let url = {
                let urls = self.urls.read().unwrap();
                let turn = self.home.map_or_else(|| self.turn(), |home| home + tries);
                urls[turn % urls.len()].clone()
            };
            match make(&self.http, &url).send().await {
                Ok(answer) if answer.status() != StatusCode::SERVICE_UNAVAILABLE => return answer,
                Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        panic!("no server has answered after all attempts")
    }
}
