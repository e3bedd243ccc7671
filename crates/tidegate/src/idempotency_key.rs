//! Requests that may be sent again under an idempotency key, and take place once.

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
    /// How many commands it has asked for.
    asks: AtomicU32,
    seen: AtomicU8,
}

/// It took place, now or before.
const DONE: u8 = 1;
/// It took place before.
const AGAIN: u8 = 2;

impl IdempotentCall {
    /// Whether it took place before: what is said now is what was, or would have been, said then.
    pub fn is_again(&self) -> bool {
        self.seen.load(Ordering::SeqCst) == AGAIN
    }

    /// A command as it is to be decided.
    ///
    /// Each is kept under its number: a request that asks for several comes to the same ones in
    /// the same order again, because it is told the same on the way.
    pub(crate) fn wrap(&self, command: Command) -> Command {
        let mut asked = self.asked.clone();
        match self.asks.fetch_add(1, Ordering::SeqCst) {
            0 => {}
            n => asked.id = format!("{}.{n}", asked.id),
        }
        Command::Once { asked, command: Box::new(command) }
    }

    /// The answer that the caller waits for.
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
    /// The same engine for one request: what it asks for takes place once, over all engines of the
    /// store and for 24 hours, and is answered the same again.
    #[must_use]
    pub fn once(&self, asked: IdempotentRequest) -> (Self, Arc<IdempotentCall>) {
        let (asks, seen) = (AtomicU32::new(0), AtomicU8::new(0));
        let once = Arc::new(IdempotentCall { asked, asks, seen });
        (self.under(once.clone()), once)
    }

    /// What was kept of such a request.
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

    /// Keeps what its sender is told, and says what that is: whoever answered it first counts.
    pub async fn keep(&self, once: &IdempotentCall, response: Payload) -> Result<Payload, Error> {
        let done = once.seen.load(Ordering::SeqCst) != 0;
        let command = Command::Keep { asked: once.asked.clone(), response, done };
        match self.shared().ask(command).await? {
            Answer::Kept(response) => Ok(response),
            other => Err(unexpected(&other)),
        }
    }
}
