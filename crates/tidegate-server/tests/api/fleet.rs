//! One server on a file, or two on one PostgreSQL: stories that hold on both.

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, RequestBuilder, Response, StatusCode};

use crate::{postgres::database, server::Server};

/// What a story is told on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// One server, and its data in a file.
    File,
    /// Two servers, and one PostgreSQL.
    Postgres,
}

/// The servers, and a client of all of them.
pub(crate) struct Fleet {
    servers: Vec<Server>,
    pub(crate) front: Front,
}

impl Fleet {
    /// Starts them; none, said loudly, where there is no PostgreSQL.
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

    /// The server whose turn it is.
    pub(crate) fn next(&self) -> &Server {
        &self.servers[self.front.turn() % self.servers.len()]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Kills one without a word, and starts another on the same data.
    pub(crate) fn crash_and_restart(&mut self, n: usize) {
        self.servers[n].crash_and_restart();
        self.servers[n].url().clone_into(&mut self.front.urls.write().unwrap()[n]);
    }
}

/// A client that asks the servers in turn, and again until one of them answers.
#[derive(Clone)]
pub(crate) struct Front {
    http: Client,
    urls: Arc<RwLock<Vec<String>>>,
    turn: Arc<AtomicUsize>,
    /// The server that is asked first, where it is not one after another.
    home: Option<usize>,
}

/// How long until a server is asked again that was not there.
const AGAIN: Duration = Duration::from_millis(20);
/// How often before it is clear that nobody will be there.
const TRIES: usize = 3000;

impl Front {
    /// The same client, at one of the servers: others are asked only while it is not there.
    pub(crate) fn at(&self, home: usize) -> Self {
        Self { home: Some(home), ..self.clone() }
    }

    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// The beginning of an answer to what is to be sent to an address. What is sent may be sent
    /// twice: whoever needs it to take place once gives it a key.
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
        panic!("nobody has answered for a long time")
    }
}
