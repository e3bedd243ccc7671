//! What people look at: events, receipts, gates, open windows and buffers, and how many runs are
//! where. Read from the very rows that decisions are made on; nothing is kept for looking alone.
//!
//! Everything here has a bound: a list looks at so many rows for a page, whatever it filters, and
//! a count stops at a number and says so.

pub mod events;
pub mod folds;
pub mod gates;
pub mod origin;
pub mod receipts;
pub mod schedules;
pub mod stats;
pub mod timeline;

use crate::{id::Seq, row::Row};

/// A part of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest<T> {
    /// They may be fewer than asked for, or none, although there are more.
    pub items: Vec<T>,
    /// Where the next part begins; none where this one is the last.
    pub next: Option<Seq>,
}

/// Where a list goes on, and how much of it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Only what is older than this; the newest if absent.
    pub below: Option<Seq>,
    /// How many at the most.
    pub limit: u32,
}

impl Part {
    fn below(self) -> Seq {
        self.below.unwrap_or(Seq(i64::MAX))
    }

    /// How many rows are looked at: as many as are shown, or more where some are left out.
    fn look(self, filtered: bool, most: u32) -> u32 {
        if filtered { self.limit.max(most) } else { self.limit }
    }

    /// Those of the rows that are wanted. `rows` are the first of at most `look`, newest first.
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
