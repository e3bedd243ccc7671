//! Wake-ups between processes. They only reduce latency: polling finds the same work.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};

use super::{
    Settings,
    call::Call,
    connection::{Connection, first_error},
    error::Trouble,
    pause,
    pool::jittered,
    sql,
};

/// Minimum interval between two notifications, because each takes a lock on the whole database.
const PACE: Duration = Duration::from_millis(10);

/// First and longest wait before connecting again.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Sender and listener of wake-ups. Their tasks end when this value is dropped.
#[derive(Debug)]
pub(super) struct Wake {
    count: Arc<watch::Sender<u64>>,
    requests: Arc<Notify>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Wake {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Wake {
    /// Starts the sender, and the listener if there is an address without a pooler.
    pub(super) fn start(settings: &Settings) -> Self {
        let count = Arc::new(watch::Sender::new(0));
        let requests = Arc::new(Notify::new());
        let sending = tokio::spawn(send_all(settings.clone(), requests.clone()));
        let mut tasks = vec![sending.abort_handle()];
        if let Some(direct) = settings.for_listening() {
            tasks.push(tokio::spawn(listen(direct, count.clone())).abort_handle());
        }
        Self { count, requests, tasks }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    pub(super) fn send(&self) {
        bump(&self.count);
        self.requests.notify_one();
    }
}

fn bump(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count += 1);
}

/// Sends one notification for all requests since the last notification.
async fn send_all(settings: Settings, requests: Arc<Notify>) {
    let mut connection = None;
    let mut wait = FIRST_WAIT;
    loop {
        requests.notified().await;
        match send_one(&settings, &mut connection).await {
            Ok(()) => {
                wait = FIRST_WAIT;
                pause(PACE).await;
            }
            Err(trouble) => {
                tracing::debug!(?trouble, "sending a wake-up failed, retrying");
                connection = None;
                requests.notify_one();
                pause(jittered(wait)).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

async fn send_one(settings: &Settings, connection: &mut Option<Connection>) -> Result<(), Trouble> {
    let open = match connection.take() {
        Some(open) => open,
        None => Connection::open(settings, || {}).await?,
    };
    let mut calls = vec![Call::new(sql::BEGIN, Vec::new())];
    calls.extend(settings.for_transaction());
    calls.extend([sql::own().wake_send, sql::COMMIT].map(|sql| Call::new(sql, Vec::new())));
    first_error(open.run(&calls).await?)?;
    *connection = Some(open);
    Ok(())
}

/// Listens for wake-ups as long as the store exists, and reconnects after an error.
async fn listen(settings: Settings, count: Arc<watch::Sender<u64>>) {
    let mut wait = FIRST_WAIT;
    loop {
        match listen_once(&settings, &count).await {
            Ok(()) => wait = FIRST_WAIT,
            Err(trouble) => {
                tracing::debug!(?trouble, "listening for wake-ups failed, retrying");
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
        pause(jittered(wait)).await;
    }
}

async fn listen_once(settings: &Settings, count: &Arc<watch::Sender<u64>>) -> Result<(), Trouble> {
    let counter = count.clone();
    let connection = Connection::open(settings, move || bump(&counter)).await?;
    connection.control(sql::own().wake_listen).await?;
    // Counts as a wake-up, because notifications sent before this moment were missed.
    bump(count);
    connection.closed().await;
    Ok(())
}
