//! Turns: the order in which ready runs are leased.
//!
//! The workspaces of an engine take turns; the workflows of each workspace take turns; the runs of
//! a workflow are ordered by rank. So if one workflow has very many runs, the next run of another
//! workflow waits for one lease, and not for all of these runs.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    id::Seq,
    row::{Run, Workspace},
};

/// Turn: position in the order in which the versions of workflows are leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn {
    /// The number of the workflow, which all its versions share.
    pub workflow: Seq,
    /// The lane of one version.
    pub lane: Seq,
}

impl Turn {
    /// The turn before all others.
    pub const FIRST: Self = Self { workflow: Seq(i64::MIN), lane: Seq(i64::MIN) };
    /// The turn after all others.
    pub const LAST: Self = Self { workflow: Seq(i64::MAX), lane: Seq(i64::MAX) };

    /// Returns the turn of a run.
    pub fn of(run: &Run) -> Self {
        Self { workflow: run.turn(), lane: run.lane }
    }
}

/// Lanes of versions that an engine can drive.
pub type Lanes = Arc<BTreeSet<Seq>>;

/// Range of turns from the first to the last, both included.
pub type Range = (Turn, Turn);

/// The part of a workspace's ready runs that an engine may lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The workspace.
    pub ws: Workspace,
    /// The turns whose runs are leased, in order. The first range begins with the next turn. The
    /// versions of one workflow are in neighbouring ranges.
    pub turns: Vec<Range>,
}

impl Claim {
    /// Creates a claim of all runs of a workspace.
    pub fn all(ws: Workspace) -> Self {
        Self { ws, turns: vec![(Turn::FIRST, Turn::LAST)] }
    }

    /// Creates a claim of only the runs with these turns.
    pub fn only(ws: Workspace, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { ws, turns: turns.into_iter().map(|turn| (turn, turn)).collect() }
    }

    /// Returns the same claim without the runs of a workflow.
    #[must_use]
    pub fn without(&self, workflow: Seq) -> Self {
        let turn = |workflow: i64, lane: i64| Turn { workflow: Seq(workflow), lane: Seq(lane) };
        let before = turn(workflow.0.saturating_sub(1), i64::MAX);
        let after = turn(workflow.0.saturating_add(1), i64::MIN);
        let split = self.turns.iter().flat_map(|&(from, to)| {
            [(from, to.min(before)), (from.max(after), to)].into_iter().filter(|(a, b)| a <= b)
        });
        Self { ws: self.ws.clone(), turns: split.collect() }
    }

    /// Returns the same claim, beginning with the workflow after the given one. The given workflow
    /// is the last.
    #[must_use]
    pub fn after(&self, workflow: Seq) -> Self {
        let here = Turn { workflow, lane: Seq(i64::MAX) };
        let next = Turn { workflow: Seq(workflow.0.saturating_add(1)), lane: Seq(i64::MIN) };
        let above = |(from, to): &Range| (*to > here).then_some(((*from).max(next), *to));
        let below = |(from, to): &Range| (*from <= here).then_some((*from, (*to).min(here)));
        let mut all = self.turns.clone();
        all.sort_unstable();
        let above = all.iter().filter_map(above);
        Self { ws: self.ws.clone(), turns: above.chain(all.iter().filter_map(below)).collect() }
    }

    /// Returns a run's position in the order of turns; none if the claim does not include the run.
    fn place(&self, run: &Run) -> Option<(usize, Seq)> {
        let turn = Turn::of(run);
        let range = self.turns.iter().position(|(from, to)| (*from..=*to).contains(&turn))?;
        (run.ws == self.ws).then_some((range, turn.workflow))
    }

    /// Selects the runs to lease, in order. Takes an equal share from each of the first `limit`
    /// workflows, in rounds; the runs of a workflow are ordered by rank.
    pub fn take<R: Borrow<Run>>(&self, runs: impl IntoIterator<Item = R>, limit: u32) -> Vec<R> {
        let mut workflows: BTreeMap<(usize, Seq), Vec<R>> = BTreeMap::new();
        let mut first: BTreeMap<Seq, (usize, Seq)> = BTreeMap::new();
        for run in runs {
            let Some(place) = self.place(run.borrow()) else { continue };
            // The versions of a workflow may be in several ranges. Its position is that of the
            // first.
            let known = first.entry(run.borrow().turn()).or_insert(place);
            if place < *known
                && let Some(moved) = workflows.remove(known)
            {
                workflows.entry(place).or_default().extend(moved);
                *known = place;
            }
            workflows.entry(*known).or_default().push(run);
        }
        let mut workflows: Vec<Vec<R>> = workflows.into_values().take(limit as usize).collect();
        let share = share(limit, workflows.len());
        for runs in &mut workflows {
            runs.sort_by_key(|run| (run.borrow().rank, run.borrow().id.seq));
            runs.dedup_by_key(|run| (*run).borrow().id);
            runs.truncate(share as usize);
        }
        in_rounds(workflows, limit)
    }

    /// Whether there may be more runs than those that [`Claim::take`] has returned for a limit.
    pub fn may_have_more(runs: &[&Run], limit: u32) -> bool {
        let mut workflows: BTreeMap<Seq, u32> = BTreeMap::new();
        for run in runs {
            *workflows.entry(run.turn()).or_default() += 1;
        }
        let share = share(limit, workflows.len());
        workflows.values().any(|count| *count >= share)
    }
}

/// Returns the maximum number of runs per workflow: the limit divided by the number of workflows,
/// rounded up.
pub fn share(limit: u32, workflows: usize) -> u32 {
    limit.div_ceil(u32::try_from(workflows).unwrap_or(u32::MAX).max(1))
}

/// Takes the first item of each list, then the second item of each, and so on, up to `limit` items.
pub(crate) fn in_rounds<T>(lists: Vec<Vec<T>>, limit: u32) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut taken = Vec::new();
    while !lists.is_empty() && taken.len() < limit as usize {
        let missing = limit as usize - taken.len();
        let round: Vec<T> = lists.iter_mut().take(missing).filter_map(Iterator::next).collect();
        lists.retain(|list| !list.as_slice().is_empty());
        taken.extend(round);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::{Claim, Range, Turn, in_rounds, share};
    use crate::id::Seq;

    fn turn(workflow: i64, lane: i64) -> Turn {
        Turn { workflow: Seq(workflow), lane: Seq(lane) }
    }

    fn contains(claim: &Claim, it: Turn) -> usize {
        claim.turns.iter().filter(|(from, to)| (*from..=*to).contains(&it)).count()
    }

    /// `after` keeps the turns of a claim, each once, and begins with the next workflow; `without`
    /// removes the turns of one workflow.
    #[test]
    fn turns_go_round_and_leave_out_whom_they_shall() {
        let ranges: [&[Range]; 4] = [
            &[(Turn::FIRST, Turn::LAST)],
            &[(turn(1, 1), turn(3, 5)), (turn(3, 7), turn(6, 2))],
            &[(turn(2, 2), turn(2, 2)), (turn(5, 5), turn(5, 9))],
            &[],
        ];
        for turns in ranges {
            let claim = Claim { ws: "w".into(), turns: turns.to_vec() };
            for place in -1..9 {
                let (after, without) = (claim.after(Seq(place)), claim.without(Seq(place)));
                for it in (0..9).flat_map(|n| (0..9).map(move |lane| turn(n, lane))) {
                    let (was, here) = (contains(&claim, it), it.workflow == Seq(place));
                    assert_eq!(contains(&after, it), was, "{it:?} is wrong in after({place})");
                    let left = if here { 0 } else { was };
                    assert_eq!(contains(&without, it), left, "{it:?} is wrong in without({place})");
                }
                let later = |(from, _): &&Range| from.workflow > Seq(place);
                let first = after.turns.iter().take_while(later).count();
                assert!(!after.turns[first..].iter().any(|it| later(&it)), "{after:?}");
            }
        }
    }

    #[test]
    fn rounds_take_one_of_each() {
        let lists = || vec![vec![1, 2, 3, 4], vec![11], vec![], vec![21, 22]];
        for (limit, expected) in [
            (0, vec![]),
            (2, vec![1, 11]),
            (4, vec![1, 11, 21, 2]),
            (9, vec![1, 11, 21, 2, 22, 3, 4]),
        ] {
            assert_eq!(in_rounds(lists(), limit), expected);
        }
        assert_eq!([share(10, 0), share(10, 3), share(2, 5), share(0, 2)], [10, 4, 1, 0]);
    }
}
