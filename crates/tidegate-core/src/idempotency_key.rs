//! Idempotency keys: the answer to the first request with a key is stored with its effect.
//!
//! The answer and the effect are written in one transaction: a later request with the same key
//! finds both or neither, in any process. The HTTP response is stored in a second transaction,
//! because parts of it are only known later. If that transaction does not happen, the response is
//! computed again from the answer.

use serde::{Deserialize, Serialize};

use crate::{
    command::{Answer, Refusal, StreamAnswer},
    delivery::CancelledDelivery,
    draft::{Decided, Draft, Stop},
    event::{Outcome, Posted},
    id::{ChoreId, RunId},
    json::Payload,
    overrides::{Overridden, Purged},
    row::{Reply, Row, RowKey, Workspace},
    session,
    stream::Committed,
    version::{Registered, Released, Retired},
};

/// How long a stored answer is returned to repeated requests.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The workspace.
    pub ws: Workspace,
    /// A digest of the request's method, its path and the key.
    pub id: String,
    /// A digest of all other parts of the request.
    pub hash: String,
}

impl IdempotentRequest {
    /// Returns the stored answer, if it has not expired.
    fn find(&self, draft: &Draft) -> Decided<Option<Reply>> {
        let key = RowKey::Reply(self.ws.clone(), self.id.clone());
        let Some(Row::Reply(stored)) = draft.row(&key)? else { return Ok(None) };
        if stored.at.plus_ms(KEPT_MS) <= draft.now() {
            return Ok(None);
        }
        self.check(stored).map_err(Stop::Refused)?;
        Ok(Some(stored.clone()))
    }

    /// Checks that the stored answer belongs to the same request.
    pub fn check(&self, stored: &Reply) -> Result<(), Refusal> {
        if stored.hash == self.hash { Ok(()) } else { Err(Refusal::KeyReused) }
    }

    /// Creates an empty answer row.
    fn begin(&self, draft: &mut Draft) -> Decided<Reply> {
        let Self { ws, id, hash } = self.clone();
        let (seq, at) = (draft.next_seq()?, draft.now());
        Ok(Reply { ws, id, hash, seq, at, answer: None, response: None })
    }
}

/// Decides a command once: a repeated request gets the answer to the first one.
pub fn once(
    draft: &mut Draft,
    asked: &IdempotentRequest,
    decide: impl FnOnce(&mut Draft) -> Decided<Answer>,
) -> Decided<Answer> {
    match asked.find(draft)? {
        Some(Reply { answer: Some(answer), .. }) => {
            let stored: StoredAnswer = serde_json::from_str(answer.as_str())
                .map_err(|error| Stop::Refused(Refusal::Unreadable(error.to_string())))?;
            return Ok(Answer::Again(Box::new(stored.into())));
        }
        // The first request was refused, and its response is not sent yet.
        Some(_) => return Err(Stop::Refused(Refusal::InProgress)),
        None => {}
    }
    let answer = decide(draft)?;
    if let Some(stored) = StoredAnswer::of(&answer) {
        let reply = asked.begin(draft)?;
        draft.put(Reply { answer: Some(stored.to_payload()), ..reply });
    }
    Ok(answer)
}

/// Stores a response, and returns the response to send: the one that was stored first.
///
/// The response of a refused request is not stored if another request with the same key had an
/// effect.
pub fn keep(
    draft: &mut Draft,
    asked: &IdempotentRequest,
    response: &Payload,
    done: bool,
) -> Decided<Payload> {
    let reply = match asked.find(draft)? {
        Some(Reply { response: Some(response), .. }) => return Ok(response),
        Some(Reply { answer: Some(_), .. }) if !done => return Ok(response.clone()),
        Some(reply) => reply,
        None => asked.begin(draft)?,
    };
    draft.put(Reply { response: Some(response.clone()), ..reply });
    Ok(response.clone())
}

/// Whether an answer is that of a command with an effect.
pub(crate) fn has_effect(answer: &Answer) -> bool {
    StoredAnswer::of(answer).is_some()
}

/// Answers to commands that have an effect.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoredAnswer {
    Posted(Vec<Posted>),
    Admitted(Outcome),
    AdmittedBoth(Outcome, Option<Box<Outcome>>),
    Registered(Registered),
    Released(Released),
    Retired(Retired),
    Session(session::Outcome),
    Committed(Committed),
    Repaired(Vec<String>),
    Left(ChoreId),
    Overridden(Box<Overridden>),
    Purged(Purged),
    Undelivered(Box<CancelledDelivery>),
    Signalled(RunId),
    Done,
}

impl StoredAnswer {
    /// Returns the form to store; none if the command had no effect, so that a repeated request is
    /// decided again.
    fn of(answer: &Answer) -> Option<Self> {
        Some(match answer.clone() {
            Answer::Posted(posted) => Self::Posted(posted),
            Answer::Admitted(outcome) if outcome.verdict.run().is_some() => Self::Admitted(outcome),
            Answer::AdmittedBoth(first, Some(then)) => Self::AdmittedBoth(first, Some(then)),
            Answer::Registered(registered) => Self::Registered(registered),
            Answer::Released(released) => Self::Released(released),
            Answer::Retired(retired) => Self::Retired(retired),
            Answer::Session(outcome) => Self::Session(outcome),
            Answer::Stream(StreamAnswer::Committed(committed)) => Self::Committed(committed),
            Answer::Stream(StreamAnswer::Repaired(streams)) => Self::Repaired(streams),
            Answer::Left(chore) => Self::Left(chore),
            Answer::Overridden(overridden) => Self::Overridden(overridden),
            Answer::Purged(purged) => Self::Purged(purged),
            Answer::Undelivered(cancelled) => Self::Undelivered(cancelled),
            Answer::Signalled(Some(run)) => Self::Signalled(run),
            Answer::Done => Self::Done,
            Answer::Signalled(None)
            | Answer::Admitted(_)
            | Answer::AdmittedBoth(_, None)
            | Answer::Leased(_)
            | Answer::Recorded(_)
            | Answer::Changed(_)
            | Answer::Paused { .. }
            | Answer::Forgotten(_)
            | Answer::Stream(_)
            | Answer::Again(_)
            | Answer::Kept(_) => return None,
        })
    }

    fn to_payload(&self) -> Payload {
        let text = serde_json::to_vec(self).expect("an answer is serializable");
        Payload::parse(&text, usize::MAX).expect("the serialized answer is JSON")
    }
}

impl From<StoredAnswer> for Answer {
    fn from(stored: StoredAnswer) -> Self {
        match stored {
            StoredAnswer::Posted(posted) => Self::Posted(posted),
            StoredAnswer::Admitted(outcome) => Self::Admitted(outcome),
            StoredAnswer::AdmittedBoth(first, then) => Self::AdmittedBoth(first, then),
            StoredAnswer::Registered(registered) => Self::Registered(registered),
            StoredAnswer::Released(released) => Self::Released(released),
            StoredAnswer::Retired(retired) => Self::Retired(retired),
            StoredAnswer::Session(outcome) => Self::Session(outcome),
            StoredAnswer::Committed(committed) => Self::Stream(StreamAnswer::Committed(committed)),
            StoredAnswer::Repaired(streams) => Self::Stream(StreamAnswer::Repaired(streams)),
            StoredAnswer::Left(chore) => Self::Left(chore),
            StoredAnswer::Overridden(overridden) => Self::Overridden(overridden),
            StoredAnswer::Purged(purged) => Self::Purged(purged),
            StoredAnswer::Signalled(run) => Self::Signalled(Some(run)),
            StoredAnswer::Undelivered(cancelled) => Self::Undelivered(cancelled),
            StoredAnswer::Done => Self::Done,
        }
    }
}
