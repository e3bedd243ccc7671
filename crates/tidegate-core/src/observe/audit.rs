//! Queries of the audit log: changes by operators, newest first.

use super::{Newest, Part};
use crate::{
    draft::{Decided, Draft},
    reads::Scan,
    row::{Audit, Row, Workspace},
};

/// Number of rows that are read for a filtered page.
const LOOK: u32 = 1000;

/// Filter of the audit log; an absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Changes of this object, found by an index. The other fields are filtered after reading.
    pub subject: Option<String>,
    /// Changes by this API key.
    pub author: Option<String>,
    /// Changes by this operation.
    pub operation: Option<String>,
    /// Only changes of overrides.
    pub overrides: bool,
}

impl AuditFilter {
    fn is_filtered(&self) -> bool {
        self.author.is_some() || self.operation.is_some() || self.overrides
    }

    fn fits(&self, row: &Audit) -> bool {
        let Self { author, operation, overrides, .. } = self;
        (author.is_none() || *author == row.author)
            && operation.as_ref().is_none_or(|wanted| *wanted == row.operation)
            && (!overrides || row.operation.ends_with("Override"))
    }
}

/// Returns a page of the audit log of a workspace, newest first.
pub fn list<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &AuditFilter,
    part: Part,
) -> Decided<Newest<Audit>, E> {
    // No row has such a subject, and PostgreSQL takes no NUL as a parameter.
    if which.subject.as_ref().is_some_and(|subject| subject.contains('\0')) {
        return Ok(Newest { items: Vec::new(), next: None });
    }
    let look = part.look(which.is_filtered(), LOOK);
    let scan = match &which.subject {
        Some(subject) => Scan::AuditOf(ws.clone(), subject.clone(), part.below()),
        None => Scan::AuditBelow(ws.clone(), part.below()),
    };
    let rows = draft.found(&scan, look)?;
    Ok(part.of(&rows, look, |row| {
        let Row::Audit(row) = row else { return None };
        Some((row.seq, which.fits(row).then(|| row.clone())))
    }))
}
