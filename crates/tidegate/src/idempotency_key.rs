//! Idempotency keys: requests that may be sent again, and are executed once.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

use tidegate_core::{
    command::{Answer, Command},
    idempotency_key::{IdempotentRequest, KEPT_MS},
    json::Payload,
    reads::ReadSet,
    row::{Reply, Row, RowKey},
};

use crate::{
    api::{Engine, unexpected},
    error::Error,
};

/// A request under an idempotency key, while it is answered.
#[derive(Debug)]
pub struct IdempotentCall {
    asked: IdempotentRequest,
    /// Number of commands that the request has issued.
    asks: AtomicU32,
    seen: AtomicU8,
}

/// The request was executed, now or before.
const DONE: u8 = 1;
/// The request was executed before.
const AGAIN: u8 = 2;

impl IdempotentCall {
    /// Returns whether the request was executed before.
    ///
    /// Its answer is then the one that was, or would have been, given the first time.
    pub fn is_again(&self) -> bool {
        self.seen.load(Ordering::SeqCst) == AGAIN
    }

    /// Wraps a command with its idempotency key.
    ///
    /// Each command is stored under its number: a repeated request issues the same commands in the
    /// same order, because it gets the same answers on the way.
    pub(crate) fn wrap(&self, command: Command) -> Command {
        let mut asked = self.asked.clone();
        match self.asks.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            n => asked.id = format!("{}.{n}", asked.id),
        }
        Command::Once { asked, command: Box::new(command) }
    }

    /// Unwraps the answer for the caller.
    pub(crate) fn unwrap(&self, answer: Answer) -> Answer {
        let (answer, seen) = match answer {
            Answer::Again(answer) => (*answer, AGAIN),
            answer => (answer, DONE),
        };
        self.seen.fetch_max(seen, Ordering::SeqCst);
        answer
    }
}

impl Engine {
    /// Returns a handle to the same engine for one request under an idempotency key.
    ///
    /// Its commands are executed once, over all engines of the store and for 24 hours, and get the
    /// same answers when repeated.
    pub fn once(&self, asked: IdempotentRequest) -> (Self, Arc<IdempotentCall>) {
        let (asks, seen) = (AtomicU32::new(0), AtomicU8::new(0));
        let once = Arc::new(IdempotentCall { asked, asks, seen });
        (self.under(once.clone()), once)
    }

    /// Returns the stored reply to a request under an idempotency key.
    pub async fn kept(&self, asked: &IdempotentRequest) -> Result<Option<Reply>, Error> {
        let key = RowKey::Reply(asked.ws.clone(), asked.id.clone());
        let snapshot = self.store().read(ReadSet::default().row(key.clone())).await?;
        let Some(Some(Row::Reply(kept))) = snapshot.rows.get(&key) else { return Ok(None) };
        if kept.at.plus_ms(KEPT_MS) <= snapshot.now {
            return Ok(None);
        }
        asked.check(kept)?;
        Ok(Some(kept.clone()))
    }

    /// Stores the response to the request, and returns the response to send: the first one stored
    /// wins.
    pub async fn keep(&self, once: &IdempotentCall, response: Payload) -> Result<Payload, Error> {
        let done = once.seen.load(Ordering::SeqCst) != 0;
        let command = Command::Keep { asked: once.asked.clone(), response, done };
        match self.shared().ask(command).await? {
            Answer::Kept(response) => Ok(response),
            other => Err(unexpected(&other)),
        }
    }
}
