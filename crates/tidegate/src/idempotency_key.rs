//! Idempotency keys: a request with such a key is executed once, even if it is sent several times.

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

/// A request with an idempotency key, while it is executed.
#[derive(Debug)]
pub struct IdempotentCall {
    asked: IdempotentRequest,
    /// Number of commands that the request has issued.
    asks: AtomicU32,
    seen: AtomicU8,
}

/// A command of the request was executed, now or earlier.
const DONE: u8 = 1;
/// A command of the request was executed by an earlier request with the same key.
const AGAIN: u8 = 2;

impl IdempotentCall {
    /// Returns whether an earlier request with the same key was executed.
    ///
    /// The answer of this request then equals the answer of the first.
    pub fn is_again(&self) -> bool {
        self.seen.load(Ordering::SeqCst) == AGAIN
    }

    /// Wraps a command with its idempotency key.
    ///
    /// The answer of each command is stored under the command's number. A repeated request gets the
    /// same answers, so it issues the same commands in the same order.
    pub(crate) fn wrap(&self, command: Command) -> Command {
        let mut asked = self.asked.clone();
        match self.asks.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            n => asked.id = format!("{}.{n}", asked.id),
        }
        Command::Once { asked, command: Box::new(command) }
    }

    /// Unwraps the answer for the caller, and notes whether it was stored earlier.
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
    /// Each command of the handle is executed once within 24 hours, over all engines of the store.
    /// A repeated command gets the first answer.
    pub fn once(&self, asked: IdempotentRequest) -> (Self, Arc<IdempotentCall>) {
        let (asks, seen) = (AtomicU32::new(0), AtomicU8::new(0));
        let once = Arc::new(IdempotentCall { asked, asks, seen });
        (self.under(once.clone()), once)
    }

    /// Returns the stored reply to a request with an idempotency key, if there is one.
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

    /// Stores the response to the request, and returns the response to send: the one that was
    /// stored first.
    pub async fn keep(&self, once: &IdempotentCall, response: Payload) -> Result<Payload, Error> {
        let done = once.seen.load(Ordering::SeqCst) != 0;
        let command = Command::Keep { asked: once.asked.clone(), response, done };
        match self.shared().ask(command).await? {
            Answer::Kept(response) => Ok(response),
            other => Err(unexpected(&other)),
        }
    }
}
