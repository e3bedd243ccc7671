//! Idempotency keys: the answer to the first request with a key is stored with its effect.
//!
//! The answer is written in the transaction of the effect, so that nothing lies between them: a
//! request with the same key finds both or neither, through whichever process it comes. The
//! response is stored in a second transaction, because some of it is only known later; if that
//! transaction never happens, the response is recomputed from the answer.

use serde::{Deserialize, Serialize};

use crate::{
    command::{Answer, Refusal, StreamAnswer},
    draft::{Decided, Draft, Stop},
    event::{Outcome, Posted},
    id::ChoreId,
    json::Payload,
    row::{Reply, Row, RowKey, Workspace},
    session,
    stream::Committed,
    version::{Registered, Released, Retired},
};

/// How long a stored answer is repeated.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The workspace.
    pub ws: Workspace,
    /// A digest of its method, its path and the key.
    pub id: String,
    /// A digest of the rest of the request.
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

/// Decides a command once: a repetition gets the answer of the first.
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
        // The first request was just refused, and its sender gets that refusal.
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

/// Stores a response, and returns the response to send: the first one stored wins.
///
/// A request that was refused while another with its key took effect stores nothing.
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
    Done,
}

impl StoredAnswer {
    /// None where nothing took effect: a repetition may.
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
            Answer::Done => Self::Done,
            Answer::Admitted(_)
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
        let text = serde_json::to_vec(self).expect("an answer can be written");
        Payload::parse(&text, usize::MAX).expect("what was written can be read")
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
            StoredAnswer::Done => Self::Done,
        }
    }
}
