//! Audit log: one row for each change by an operator, in the transaction of the change.

use crate::{
    command::Answer,
    draft::{Decided, Draft},
    idempotency_key,
    json::Payload,
    row::{Audit, Workspace},
};

/// Author of a change: the caller of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The name of the API key; none without keys.
    pub name: Option<String>,
    /// The network address of the caller.
    pub address: Option<String>,
}

/// Entry of the audit log for one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// The workspace.
    pub ws: Workspace,
    /// The author.
    pub by: Author,
    /// The name of the operation, as in the `OpenAPI` document.
    pub operation: String,
    /// The object of the change.
    pub subject: String,
    /// The state before the change, if the operation records it.
    pub before: Option<Payload>,
    /// The state after the change, or the arguments of the operation.
    pub after: Option<Payload>,
}

impl AuditEntry {
    /// Writes the row.
    pub(crate) fn write(self, draft: &mut Draft) -> Decided<()> {
        let (seq, at) = (draft.next_seq()?, draft.now());
        let Self { ws, by: Author { name: author, address }, .. } = self;
        let Self { operation, subject, before, after, .. } = self;
        draft.put(Audit { seq, ws, at, author, address, operation, subject, before, after });
        Ok(())
    }
}

/// Decides a command, and writes the entry if the command had an effect.
pub(crate) fn audited(
    draft: &mut Draft,
    entry: &AuditEntry,
    decide: impl FnOnce(&mut Draft) -> Decided<Answer>,
) -> Decided<Answer> {
    let answer = decide(draft)?;
    if answer == Answer::Changed(true) || idempotency_key::has_effect(&answer) {
        entry.clone().write(draft)?;
    }
    Ok(answer)
}
