//! What a run under `restart` does to sessions waits until the run completes (spec staging).
//!
//! Until then the run sees its own operations on top of the document as it is, and nobody else
//! sees them. The transaction that completes the run does them all on the then-current documents;
//! any other end drops them. So a document is always that of whole runs.
//!
//! A `set` or `merge` fails the run if somebody else has changed what it puts its value in place
//! of since the run last read that. Appends and increments, and what was never read, never do.

use std::collections::BTreeMap;

use super::{Outcome, SessionError, check, check_version, document, op, place};
use crate::{
    draft::{Decided, Draft},
    json::Payload,
    row::{Row, RowKey, Run, RunError, Session, SessionOp, SessionRef, Staged},
};

/// The most operations that a run stages. Each one does all before it again, under the document's
/// lock, to see what the run sees.
pub const MAX_STAGED: u32 = 256;

/// The most bytes that a run stages, what it read included.
pub const MAX_STAGED_BYTES: usize = 8 * 1024 * 1024;

/// Stages an operation, and says what it comes to on top of the others.
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
    let told = check_version(&row, expected).and_then(|()| {
        let mut mine = before.iter().filter(|it| it.session == *session);
        let body = mine.try_fold(row.body.clone(), |body, it| after(body, &it.op))?;
        op::apply(&body, op)
    });
    let done = match told {
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

/// Does everything that a run has staged; nothing, with the reason, if one thing cannot be done.
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

/// Drops what a run has staged: it has ended, and what was to be kept has been settled.
pub(crate) fn forget(draft: &mut Draft, run: &mut Run) {
    for n in 0..std::mem::take(&mut run.staged) {
        draft.delete_known(RowKey::Staged(run.id.seq, n));
    }
}

/// One document on its way from what others left to what the run leaves.
struct Settling {
    /// As others left it.
    row: Session,
    /// With what the run has done so far.
    body: Payload,
    /// What the run has read and not read again as a whole since: the path, and what stood there.
    reads: Vec<(Vec<String>, Payload)>,
    /// What was read, by path and version.
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

    /// What the run knows of a place is what it has read there last, be it alone or as a part of
    /// something wider.
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

    /// Whether what is to be replaced is still what the run has read there.
    fn check(&self, path: &[String], write: &Write) -> Result<(), SessionError> {
        for (read, seen) in &self.reads {
            // The narrower of the two paths is what both are about.
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

/// What a write does to what stands at its path.
enum Write {
    /// Puts something in its place.
    Replace,
    /// Changes these members of it.
    Merge(Payload),
}

impl Write {
    /// What a merge does with one of its members.
    fn of(member: Payload) -> Self {
        if member.kind() == "an object" { Self::Merge(member) } else { Self::Replace }
    }

    /// What it does further down, if anything.
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

/// Compares what was read with what is there now, wherever a write puts something in its place.
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

/// The document after a write; a read leaves it as it is.
fn after(body: Payload, op: &SessionOp) -> Result<Payload, SessionError> {
    Ok(op::apply(&body, op)?.body.unwrap_or(body))
}

/// What a run has staged so far, in its order.
fn staged(draft: &Draft, run: &Run) -> Decided<Vec<Staged>> {
    let mut all = Vec::new();
    for n in 0..run.staged {
        if let Some(Row::Staged(row)) = draft.row(&RowKey::Staged(run.id.seq, n))? {
            all.push(Staged::clone(row));
        }
    }
    Ok(all)
}

/// What others have written where an operation is done.
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

/// Enough of a value to tell what it is.
fn shorten(value: &Payload) -> String {
    let text = value.as_str();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How much of each value an error shows.
const SHOWN_CHARS: usize = 64;
