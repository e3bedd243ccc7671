//! Queries for people: events, receipts, gates, open windows and buffers, and counts of runs. They
//! read the very rows that decisions are made on; nothing is stored for queries alone.
//!
//! Every query has a bound: a list reads a limited number of rows for a page, whatever it filters,
//! and a count stops at a limit and reports that it did.

pub mod events;
pub mod folds;
pub mod gates;
pub mod origin;
pub mod receipts;
pub mod schedules;
pub mod stats;
pub mod timeline;

use crate::{id::Seq, row::Row};

/// Page of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest<T> {
    /// The items. There may be fewer than requested, or none, although there are more.
    pub items: Vec<T>,
    /// The cursor of the next page; none on the last page.
    pub next: Option<Seq>,
}

/// Page request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The cursor: only items older than this; the newest if absent.
    pub below: Option<Seq>,
    /// The maximum number of items.
    pub limit: u32,
}

impl Part {
    fn below(self) -> Seq {
        self.below.unwrap_or(Seq(i64::MAX))
    }

    /// Returns how many rows to read: the page size, or more where rows are filtered.
    fn look(self, filtered: bool, most: u32) -> u32 {
        if filtered { self.limit.max(most) } else { self.limit }
    }

    /// Builds the page of matching rows. `rows` are the first of at most `look`, newest first.
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
