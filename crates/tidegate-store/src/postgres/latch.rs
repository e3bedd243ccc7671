//! Latches, implemented as PostgreSQL's advisory locks.

use std::{borrow::Cow, collections::BTreeMap};

use sha2::{Digest, Sha256};
use tidegate_core::reads::{Latch, Mode};

use super::{
    call::{Call, Param},
    sql,
};

/// Returns the statement that takes these latches, in the order of their numbers; `None` if there
/// are none.
pub(super) fn lock(schema: &str, latches: &BTreeMap<Latch, Mode>) -> Option<Call> {
    // Sorted by number, as in every transaction. Two latches may have the same number: then they
    // are one lock, taken in the stronger mode at once, because a later upgrade could deadlock.
    let mut numbers: BTreeMap<(i32, i32), Mode> = BTreeMap::new();
    for (latch, mode) in latches {
        let held = numbers.entry(number(schema, &parts(latch))).or_insert(*mode);
        *held = (*held).max(*mode);
    }
    (!numbers.is_empty()).then(|| call(numbers))
}

/// Returns the statement that takes the lock under which one process at a time changes the schema.
pub(super) fn migrations(schema: &str) -> Call {
    call(BTreeMap::from([(number(schema, &["migrations"]), Mode::Exclusive)]))
}

/// Returns the statement that takes the lock for operations on the lease of a name.
pub(super) fn lease(schema: &str, name: &str) -> Call {
    call(BTreeMap::from([(number(schema, &["lease", name]), Mode::Exclusive)]))
}

fn call(numbers: BTreeMap<(i32, i32), Mode>) -> Call {
    let high = Param::ints(numbers.keys().map(|number| number.0.into()));
    let low = Param::ints(numbers.keys().map(|number| number.1.into()));
    let alone = Param::ints(numbers.values().map(|mode| i64::from(*mode == Mode::Exclusive)));
    Call::new(sql::own().latch_lock, vec![high, low, alone])
}

fn parts(latch: &Latch) -> Vec<Cow<'_, str>> {
    match latch {
        Latch::Definitions(ws) => vec!["definitions".into(), (&**ws).into()],
        Latch::Topic(ws, name) => vec!["topic".into(), (&**ws).into(), name.into()],
        Latch::Match(ws, name, value) => {
            vec!["match".into(), (&**ws).into(), name.into(), value.to_string().into()]
        }
    }
}

/// Returns the number of an advisory lock, in two halves. All processes and versions compute the
/// same number. The schema is part of it, because advisory locks belong to the whole database.
fn number(schema: &str, parts: &[impl AsRef<str>]) -> (i32, i32) {
    let mut hash = Sha256::new();
    for part in std::iter::once(schema).chain(parts.iter().map(AsRef::as_ref)) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    let half =
        |at: usize| i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (half(0), half(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_the_same_between_versions() {
        // If a new version computed another number, old and new processes would not exclude each
        // other in a rolling deploy.
        let latch = Latch::Topic("acme".into(), "order.paid".to_owned());
        assert_eq!(number("tidegate", &parts(&latch)), (1_102_496_485, 383_834_305));
        let latch = Latch::matching(&"acme".into(), "order.paid", "id", b"17");
        assert_eq!(latch, Latch::Match("acme".into(), "order.paid".to_owned(), 160));
        assert_eq!(number("tidegate", &parts(&latch)), (1_847_705_560, -2_110_521_209));
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(number("a", &["bc"]), number("ab", &["c"]));
    }
}
