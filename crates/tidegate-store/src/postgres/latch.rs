//! Latches as advisory locks.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tidegate_core::reads::{Latch, Mode};

use super::{
    call::{Call, Param},
    sql,
};

/// Takes latches in one order, whatever their mode; `None` if there are none to take.
pub(super) fn lock(schema: &str, latches: &BTreeMap<Latch, Mode>) -> Option<Call> {
    // Sorted by number, as in every transaction. Two latches with the same number are one, and the
    // stronger mode is taken at once: raising it later could deadlock.
    let mut numbers: BTreeMap<(i32, i32), Mode> = BTreeMap::new();
    for (latch, mode) in latches {
        let held = numbers.entry(number(schema, &parts(latch))).or_insert(*mode);
        *held = (*held).max(*mode);
    }
    (!numbers.is_empty()).then(|| call(numbers))
}

/// Returns the lock that lets one process at a time change the schema.
pub(super) fn migrations(schema: &str) -> Call {
    call(BTreeMap::from([(number(schema, &["migrations"]), Mode::Exclusive)]))
}

/// Returns the lock for all operations on the public lease of a name.
pub(super) fn lease(schema: &str, name: &str) -> Call {
    call(BTreeMap::from([(number(schema, &["lease", name]), Mode::Exclusive)]))
}

fn call(numbers: BTreeMap<(i32, i32), Mode>) -> Call {
    let high = Param::ints(numbers.keys().map(|number| number.0.into()));
    let low = Param::ints(numbers.keys().map(|number| number.1.into()));
    let alone = Param::ints(numbers.values().map(|mode| i64::from(*mode == Mode::Exclusive)));
    Call::new(sql::own().latch_lock, vec![high, low, alone])
}

fn parts(latch: &Latch) -> Vec<&str> {
    match latch {
        Latch::Definitions(ws) => vec!["definitions", ws],
        Latch::Topic(ws, name) => vec!["topic", ws, name],
    }
}

/// Returns a number that every process and version computes alike. Advisory locks belong to the
/// whole database, so the schema is part of the number.
fn number(schema: &str, parts: &[&str]) -> (i32, i32) {
    let mut hash = Sha256::new();
    for part in [schema].iter().chain(parts) {
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
        // Two versions that disagree would not exclude each other in a rolling deploy.
        let latch = Latch::Topic("acme".into(), "order.paid".to_owned());
        assert_eq!(number("tidegate", &parts(&latch)), (1_102_496_485, 383_834_305));
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(number("a", &["bc"]), number("ab", &["c"]));
    }
}
