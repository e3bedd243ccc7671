//! Staged session operations. The operations of a run with the policy `restart` take effect only
//! when the run completes (spec staging).
//!
//! Until then the run sees the current document with its own operations, and other runs do not see
//! them. The transaction that completes the run applies them to the documents as they are then. If
//! the run fails or is cancelled, they are dropped. So a document never has only a part of a run's
//! changes.
//!
//! A `set` or `merge` fails the run if another writer has changed the replaced value since the run
//! read it. Appends and increments never fail for this reason, nor do writes to a value that the
//! run has not read.

use std::collections::BTreeMap;

use super::{Outcome, SessionError, check, check_version, document, op, place};
use crate::{
    draft::{Decided, Draft},
    json::Payload,
    row::{Row, RowKey, Run, RunError, Session, SessionOp, SessionRef, Staged},
};

/// Maximum number of operations that a run stages. To compute its result, each operation applies
/// all earlier ones again, under the lock of the document.
pub const MAX_STAGED: u32 = 256;

/// Maximum number of bytes that a run stages, including the values that it has read.
pub const MAX_STAGED_BYTES: usize = 8 * 1024 * 1024;

/// Stages an operation. Returns its result after all operations that were staged before.
pub(super) fn stage(
    draft: &mut Draft,
    mut run: Run,
    session: &SessionRef,
    op: &SessionOp,
    expected: Option<i64>,
) -> Decided<Result<Outcome, SessionError>> {
    if let Err(error) = check(session) {
        return Ok(Err(error));
    }
    let row = document(draft, &run.ws, session)?;
    let before = staged(draft, &run)?;
    let result = check_version(&row, expected).and_then(|()| {
        let mut mine = before.iter().filter(|it| it.session == *session);
        let body = mine.try_fold(row.body.clone(), |body, it| after(body, &it.op))?;
        op::apply(&body, op)
    });
    let done = match result {
        Ok(done) => done,
        Err(error) => return Ok(Err(error)),
    };
    let (n, op) = (run.staged, op.clone());
    let mut mine = before.iter().filter(|it| it.session == *session);
    let known = mine.any(|it| it.op == op && it.version == row.version);
    let seen = (matches!(op, SessionOp::Get { .. }) && !known).then(|| value_at(&row, &op));
    let new =
        Staged { run: run.id.seq, n, session: session.clone(), op, version: row.version, seen };
    let bytes: usize = before.iter().map(size).sum();
    if n >= MAX_STAGED || bytes + size(&new) > MAX_STAGED_BYTES {
        return Ok(Err(SessionError::TooMuchStaged));
    }
    draft.put(new);
    run.staged = n + 1;
    draft.put(run);
    Ok(Ok(Outcome { version: row.version, value: done.value }))
}

/// Applies all staged operations of a run. If one fails, none is applied, and its error is
/// returned.
pub(crate) fn settle(draft: &mut Draft, run: &Run) -> Decided<Result<(), RunError>> {
    let mut documents: BTreeMap<SessionRef, Settling> = BTreeMap::new();
    for staged in staged(draft, run)? {
        let settling = match documents.remove(&staged.session) {
            Some(settling) => settling,
            None => Settling::new(document(draft, &run.ws, &staged.session)?),
        };
        match settling.done(&staged) {
            Ok(settling) => documents.insert(staged.session, settling),
            Err(error) => return Ok(Err(error.to_fault())),
        };
    }
    for Settling { row, body, .. } in documents.into_values() {
        if body != row.body {
            draft.put(Session { version: row.version + 1, body, ..row });
        }
    }
    Ok(Ok(()))
}

/// Deletes the staged operations of a run that ends. If it completes, [`settle`] has applied them.
pub(crate) fn forget(draft: &mut Draft, run: &mut Run) {
    for n in 0..std::mem::take(&mut run.staged) {
        draft.delete_known(RowKey::Staged(run.id.seq, n));
    }
}

/// One document while the staged operations of a run are applied to it.
struct Settling {
    /// The stored document.
    row: Session,
    /// The document with the operations that were applied so far.
    body: Payload,
    /// The run's reads: the path and the value. A read is removed when a later one covers it.
    reads: Vec<(Vec<String>, Payload)>,
    /// The values that the run has read, by path and version.
    seen: BTreeMap<(Vec<String>, i64), Payload>,
}

impl Settling {
    fn new(row: Session) -> Self {
        let body = row.body.clone();
        Self { row, body, reads: Vec::new(), seen: BTreeMap::new() }
    }

    fn done(mut self, staged: &Staged) -> Result<Self, SessionError> {
        let path = op::names(&staged.op).to_vec();
        match &staged.op {
            SessionOp::Get { .. } => {
                let at = (path.clone(), staged.version);
                if let Some(seen) = &staged.seen {
                    self.seen.insert(at.clone(), seen.clone());
                }
                let seen = self.seen.get(&at).cloned().unwrap_or_else(Payload::null);
                self.read(path, seen);
                return Ok(self);
            }
            SessionOp::Set { .. } => self.check(&path, &Write::Replace)?,
            SessionOp::Merge { value, .. } => self.check(&path, &Write::Merge(value.clone()))?,
            SessionOp::Append { .. } | SessionOp::Increment { .. } => {}
        }
        self.body = after(self.body, &staged.op)?;
        Ok(self)
    }

    /// Records a read. For each path only the last value counts, whether it was read alone or as a
    /// part of a larger value.
    fn read(&mut self, path: Vec<String>, value: Payload) {
        self.reads.retain(|(read, _)| !read.starts_with(&path));
        for (read, seen) in &mut self.reads {
            if let Some(below) = path.strip_prefix(read.as_slice())
                && seen.at(below).unwrap_or_else(Payload::null) != value
                && let Ok(known) = seen.with(below, &value)
            {
                *seen = known;
            }
        }
        self.reads.push((path, value));
    }

    /// Checks that the values that the write replaces are still those that the run has read.
    fn check(&self, path: &[String], write: &Write) -> Result<(), SessionError> {
        for (read, seen) in &self.reads {
            // If one path is inside the other, the longer one is the part that both have in common.
            if let Some(below) = path.strip_prefix(read.as_slice()) {
                unchanged(path, write, seen.at(below), self.row.body.at(path))?;
            } else if let Some(below) = read.strip_prefix(path)
                && let Some(write) = write.below(below)
            {
                unchanged(read, &write, Some(seen.clone()), self.row.body.at(read))?;
            }
        }
        Ok(())
    }
}

/// Effect of a write on the value at its path.
enum Write {
    /// Replaces the value.
    Replace,
    /// Changes these members of the value.
    Merge(Payload),
}

impl Write {
    /// Returns the effect of a merge on one of its members.
    fn of(member: Payload) -> Self {
        if member.kind() == "an object" { Self::Merge(member) } else { Self::Replace }
    }

    /// Returns the effect of this write on the nested value at `names`; `None` if the write does
    /// not change it.
    fn below(&self, names: &[String]) -> Option<Self> {
        match (self, names.split_first()) {
            (Self::Replace, _) => Some(Self::Replace),
            (Self::Merge(patch), None) => Some(Self::Merge(patch.clone())),
            (Self::Merge(patch), Some((name, rest))) => {
                Self::of(patch.members().remove(&Ok(name.clone()))?).below(rest)
            }
        }
    }
}

/// Checks that the current value is equal to the value that was read, in all parts that the write
/// replaces.
fn unchanged(
    path: &[String],
    write: &Write,
    read: Option<Payload>,
    now: Option<Payload>,
) -> Result<(), SessionError> {
    let (read, now) = (read.unwrap_or_else(Payload::null), now.unwrap_or_else(Payload::null));
    match write {
        _ if read == now => Ok(()),
        Write::Replace => {
            let (path, read, now) = (place(path), shorten(&read), shorten(&now));
            Err(SessionError::Conflict { path, read, now })
        }
        Write::Merge(members) => {
            let (mut read, mut now) = (read.members(), now.members());
            for (name, member) in members.members() {
                let (read, now) = (read.remove(&name), now.remove(&name));
                let path = [path, &[name.unwrap_or_else(|quoted| quoted)]].concat();
                unchanged(&path, &Write::of(member), read, now)?;
            }
            Ok(())
        }
    }
}

/// Returns the document after a write; a read leaves it unchanged.
fn after(body: Payload, op: &SessionOp) -> Result<Payload, SessionError> {
    Ok(op::apply(&body, op)?.body.unwrap_or(body))
}

/// Returns the staged operations of a run, in order.
fn staged(draft: &Draft, run: &Run) -> Decided<Vec<Staged>> {
    let mut all = Vec::new();
    for n in 0..run.staged {
        if let Some(Row::Staged(row)) = draft.row(&RowKey::Staged(run.id.seq, n))? {
            all.push(Staged::clone(row));
        }
    }
    Ok(all)
}

/// Returns the stored value at an operation's path.
fn value_at(row: &Session, op: &SessionOp) -> Payload {
    row.body.at(op::names(op)).unwrap_or_else(Payload::null)
}

fn size(staged: &Staged) -> usize {
    let value = match &staged.op {
        SessionOp::Set { value, .. }
        | SessionOp::Merge { value, .. }
        | SessionOp::Append { value, .. } => value.as_str().len(),
        SessionOp::Get { .. } | SessionOp::Increment { .. } => 0,
    };
    value + staged.seen.as_ref().map_or(0, |seen| seen.as_str().len())
}

/// Shortens a value for an error message.
fn shorten(value: &Payload) -> String {
    let text = value.as_str();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Maximum number of characters of each value in an error message.
const SHOWN_CHARS: usize = 64;
