//! Queries for people: events, receipts, gates, open windows and buffers, and counts of runs. They
//! read the same rows as decisions; no row is stored only for queries.
//!
//! Every query has a limit: a list reads a limited number of rows for a page, also with a filter,
//! and a count stops at a limit and reports that it stopped.

pub mod audit;
pub mod events;
pub mod folds;
pub mod gates;
pub mod origin;
pub mod overrides;
pub mod receipts;
pub mod schedules;
pub mod stats;
pub mod timeline;

use crate::{id::Seq, row::Row};

/// Page of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest<T> {
    /// The items. A page with fewer items than requested, or none, is not always the last one.
    pub items: Vec<T>,
    /// The cursor of the next page; none on the last page.
    pub next: Option<Seq>,
}

/// Page request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The cursor: the page has only items older than this. None means the first page.
    pub below: Option<Seq>,
    /// The maximum number of items.
    pub limit: u32,
}

impl Part {
    pub(crate) fn below(self) -> Seq {
        self.below.unwrap_or(Seq(i64::MAX))
    }

    /// Returns the number of rows to read: the page size, or more if rows are filtered.
    fn look(self, filtered: bool, most: u32) -> u32 {
        if filtered { self.limit.max(most) } else { self.limit }
    }

    /// Creates a page of the matching rows. `rows` are the rows that were read with the limit
    /// `look`, newest first.
    fn of<T>(
        self,
        rows: &[&Row],
        look: u32,
        wanted: impl Fn(&Row) -> Option<(Seq, Option<T>)>,
    ) -> Newest<T> {
        let (mut items, mut last) = (Vec::new(), None);
        for row in rows {
            if items.len() >= self.limit as usize {
                return Newest { items, next: last };
            }
            if let Some((seq, item)) = wanted(row) {
                last = Some(seq);
                items.extend(item);
            }
        }
        Newest { items, next: last.filter(|_| rows.len() >= look as usize) }
    }
}
