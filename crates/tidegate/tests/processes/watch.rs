//! Observes the positions of reactions from outside, while processes work and crash.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use crate::{
    journal::{Journal, Line},
    place::{Place, block_on},
    readers::LEASE,
};

/// Time without progress after which a test fails.
const STUCK: Duration = Duration::from_secs(120);

/// Interval of polling.
const LOOK: Duration = Duration::from_millis(20);

/// Position of a reaction in one stream, with the store's time at which it was read.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) reaction: String,
    pub(crate) stream: String,
    pub(crate) at: i64,
    pub(crate) want: i64,
    pub(crate) fence: i64,
    pub(crate) owner: Option<String>,
    pub(crate) until: Option<i64>,
    pub(crate) blocked: Option<String>,
    pub(crate) now: i64,
}

/// Returns all current positions.
pub(crate) fn spots(place: &Place) -> Vec<Spot> {
    let sql = format!(
        "select reaction, stream, at, want, fence, owner, until, blocked,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint
         from {} order by reaction, stream",
        place.own("sub")
    );
    let rows = block_on(async { place.client().await.query(&sql, &[]).await.unwrap() });
    let spot = |row: &tokio_postgres::Row| Spot {
        reaction: row.get(0),
        stream: row.get(1),
        at: row.get(2),
        want: row.get(3),
        fence: row.get(4),
        owner: row.get(5),
        until: row.get(6),
        blocked: row.get(7),
        now: row.get(8),
    };
    rows.iter().map(spot).collect()
}

/// The last observed positions.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    place: &'a Place,
    seen: BTreeMap<(String, String), Spot>,
    pub(crate) looks: usize,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(place: &'a Place) -> Self {
        Self { place, seen: BTreeMap::new(), looks: 0 }
    }

    /// Reads the positions once and checks them: no position or fence goes back, no lease is longer
    /// than allowed, and no stream is blocked.
    pub(crate) fn look(&mut self) -> Vec<Spot> {
        let spots = spots(self.place);
        for spot in &spots {
            assert_eq!(spot.blocked, None, "{spot:?}");
            let longest = spot.now + i64::try_from(LEASE.as_micros()).unwrap();
            assert!(
                spot.until.is_none_or(|until| until <= longest),
                "the lease is too long: {spot:?}"
            );
            let key = (spot.reaction.clone(), spot.stream.clone());
            if let Some(before) = self.seen.insert(key, spot.clone()) {
                let back = spot.at < before.at || spot.fence < before.fence;
                assert!(!back, "a position or fence went back from {before:?} to {spot:?}");
            }
        }
        self.looks += 1;
        spots
    }

    /// Reads positions until the journal satisfies a condition. Fails if no lines are written for a
    /// long time.
    pub(crate) fn until(&mut self, journal: &Journal, so: impl Fn(&[Line]) -> bool) {
        let (mut written, mut moved) = (0, Instant::now());
        loop {
            self.look();
            let lines = journal.lines();
            if so(&lines) {
                return;
            }
            if lines.len() != written {
                (written, moved) = (lines.len(), Instant::now());
            }
            assert!(moved.elapsed() < STUCK, "no progress in the journal:\n{}", journal.told());
            thread::sleep(LOOK);
        }
    }

    /// Reads positions until every event is handled and every lease released. Fails if there is no
    /// progress for a long time.
    pub(crate) fn until_drained(&mut self, answer: impl Fn() -> String) {
        let (mut last, mut moved) = ((0, 0), Instant::now());
        loop {
            let spots = self.look();
            let open = |spot: &&Spot| spot.at < spot.want || spot.owner.is_some();
            let left: Vec<_> = spots.iter().filter(open).collect();
            if left.is_empty() {
                return;
            }
            let sum = |of: fn(&Spot) -> i64| spots.iter().map(of).sum::<i64>();
            let now = (sum(|spot| spot.at), sum(|spot| spot.fence));
            if now != last {
                (last, moved) = (now, Instant::now());
            }
            assert!(
                moved.elapsed() < STUCK,
                "no progress, these positions are left: {left:?}:\n{}",
                answer()
            );
            thread::sleep(LOOK);
        }
    }
}
