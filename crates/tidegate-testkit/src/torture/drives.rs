//! Checks of the journals that do not query the engine.

use std::collections::{BTreeMap, BTreeSet};

use super::{TTL, journal::Note};

/// The journal of one process, and how the process ended.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The engine id of the process, as it is written in rows.
    pub engine: String,
    /// The lines of the journal, each with its time.
    pub notes: Vec<(i64, Note)>,
    /// The time just before the process was killed; `None` if it was not killed.
    pub killed: Option<i64>,
}

/// A period in which a worker certainly drove a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// The run.
    pub run: String,
    /// The key of the gate that it held.
    pub key: String,
    /// The units of the limit that it took.
    pub units: usize,
    /// The lease's fence.
    pub fence: i64,
    /// Start of the period.
    pub from: i64,
    /// End of the period.
    pub to: i64,
    /// Whether the process continued after the end of its lease, because it got no processor time
    /// to notice it.
    pub late: bool,
}

/// Returns all drives of all processes.
pub fn drives(stories: &[Story]) -> Vec<Drive> {
    stories.iter().flat_map(drives_of).collect()
}

fn drives_of(story: &Story) -> Vec<Drive> {
    let sent = |note: &Note| if let Note::Beat { sent } = note { Some(*sent) } else { None };
    let leases: Vec<i64> = story.notes.iter().filter_map(|(_, note)| sent(note)).collect();
    let last = story.notes.last().map_or(0, |(at, _)| *at);
    let over = story.killed.unwrap_or(last);
    let mut open: BTreeMap<(&str, i64), Drive> = BTreeMap::new();
    let mut done = Vec::new();
    for (at, note) in &story.notes {
        match note {
            Note::Start { run, key, units, fence } => {
                let drive = Drive {
                    run: run.clone(),
                    key: key.clone(),
                    units: *units,
                    fence: *fence,
                    from: *at,
                    to: over.max(*at),
                    late: false,
                };
                open.insert((run, *fence), drive);
            }
            Note::End { run, fence } => {
                if let Some(drive) = open.remove(&(run.as_str(), *fence)) {
                    done.push(Drive { to: *at, ..drive });
                }
            }
            Note::Stop { .. } => {
                done.extend(
                    std::mem::take(&mut open).into_values().map(|it| Drive { to: *at, ..it }),
                );
            }
            Note::Step { .. }
            | Note::Ended { .. }
            | Note::Post { .. }
            | Note::Posted { .. }
            | Note::Beat { .. } => {}
        }
    }
    done.extend(open.into_values());
    done.into_iter().map(|drive| within_lease(drive, &leases)).collect()
}

/// Shortens a drive to the lease of its process. A process without processor time cannot notice the
/// end of its lease and may still execute a step, but it can record nothing (spec exact).
fn within_lease(drive: Drive, leases: &[i64]) -> Drive {
    let ttl = i64::try_from(TTL.as_micros()).expect("a short time");
    let mut good = drive.from;
    for sent in leases {
        if *sent <= good && sent + ttl > good {
            good = sent + ttl;
        }
    }
    let late = good < drive.to;
    Drive { to: drive.to.min(good).max(drive.from), late, ..drive }
}

/// Result of the check of all drives.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    /// The maximum number of units of one key that were driven at the same time.
    pub most: usize,
    /// The times at which a limit was exceeded, each with the driven runs.
    pub too_many: Vec<String>,
    /// The times at which a run was driven by two workers.
    pub twice: Vec<String>,
}

/// Checks all drives in order of time (spec I2): never more driven units than the limit, and no run
/// driven by two workers at the same time.
pub fn crowd(drives: &[Drive], limit: usize) -> Crowd {
    let mut moments: Vec<(i64, bool, usize)> = Vec::new();
    for (at, drive) in drives.iter().enumerate() {
        moments.push((drive.from, true, at));
        moments.push((drive.to, false, at));
    }
    // An end and a start in the same microsecond do not overlap. A drive of zero length does not
    // count.
    moments.sort_unstable();
    let mut inside: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut found = Crowd::default();
    for (moment, begins, at) in moments {
        let drive = &drives[at];
        let others = inside.entry(&drive.key).or_default();
        if !begins || drive.from == drive.to {
            others.remove(&at);
            continue;
        }
        if others.iter().any(|other| drives[*other].run == drive.run) {
            found.twice.push(format!("{moment}: run {} is driven by two workers", drive.run));
        }
        others.insert(at);
        let units = others.iter().map(|other| drives[*other].units).sum();
        found.most = found.most.max(units);
        if units > limit {
            let who: Vec<_> = others.iter().map(|other| drives[*other].run.as_str()).collect();
            found
                .too_many
                .push(format!("{moment}: {units} units at once on {}: {who:?}", drive.key));
        }
    }
    found
}

/// Checks that every lease of a run has its own fence, and that later leases have higher fences
/// (spec I25).
pub fn fences(drives: &[Drive]) -> Vec<String> {
    let mut of_run: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut wrong = Vec::new();
    for drive in drives {
        if !known.insert((&drive.run, drive.fence)) {
            wrong.push(format!("run {} was leased twice with fence {}", drive.run, drive.fence));
        }
        // A process that was paused may write a lease into its journal long after it got it.
        if !drive.late {
            of_run.entry(&drive.run).or_default().push((drive.from, drive.fence));
        }
    }
    for (run, mut leases) in of_run {
        leases.sort_unstable();
        if !leases.is_sorted_by_key(|lease| lease.1) {
            wrong.push(format!("the fences of run {run} do not grow: {leases:?}"));
        }
    }
    wrong
}

/// Returns the posted events by id: the key, and whether the post was answered.
pub fn posts(stories: &[Story]) -> BTreeMap<String, (String, bool)> {
    let mut posts: BTreeMap<String, (String, bool)> = BTreeMap::new();
    let notes = stories.iter().flat_map(|story| &story.notes).map(|(_, note)| note);
    for note in notes.clone() {
        if let Note::Post { id, key } = note {
            posts.entry(id.clone()).or_insert((key.clone(), false));
        }
    }
    for note in notes {
        if let Note::Posted { id } = note {
            posts.entry(id.clone()).and_modify(|post| post.1 = true);
        }
    }
    posts
}

/// Returns the ends that the store confirmed: the run and its status.
pub fn endings(stories: &[Story]) -> Vec<(&str, &str)> {
    let notes = stories.iter().flat_map(|story| &story.notes).map(|(_, note)| note);
    let mut endings = Vec::new();
    for note in notes {
        if let Note::Ended { run, state } = note {
            endings.push((run.as_str(), state.as_str()));
        }
    }
    endings
}

/// Returns the executed steps, by run and step id: the fences of the leases under which they were
/// executed.
pub fn effects(stories: &[Story]) -> BTreeMap<(String, String), BTreeSet<i64>> {
    let mut effects: BTreeMap<(String, String), BTreeSet<i64>> = BTreeMap::new();
    for (_, note) in stories.iter().flat_map(|story| &story.notes) {
        if let Note::Step { run, id, fence } = note {
            effects.entry((run.clone(), id.clone())).or_default().insert(*fence);
        }
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(run: &str, fence: i64) -> Note {
        Note::Start { run: run.into(), key: "k".into(), units: 1, fence }
    }

    fn end(run: &str, fence: i64) -> Note {
        Note::End { run: run.into(), fence }
    }

    fn story(notes: Vec<(i64, Note)>, killed: Option<i64>) -> Story {
        let mut all = vec![(0, Note::Beat { sent: 0 })];
        all.extend(notes);
        Story { engine: String::new(), notes: all, killed }
    }

    #[test]
    fn a_killed_process_drives_until_it_is_killed() {
        let story = story(vec![(1, start("r", 1)), (2, start("s", 1)), (3, end("r", 1))], Some(9));
        let drives = drives(&[story]);
        let ends: Vec<_> = drives.iter().map(|it| (it.run.as_str(), it.to, it.late)).collect();
        assert_eq!(ends, [("r", 3, false), ("s", 9, false)]);
    }

    #[test]
    fn a_process_that_was_not_given_time_is_not_held_against_the_gate() {
        let ttl = i64::try_from(TTL.as_micros()).unwrap();
        let beats = vec![(5, start("r", 1)), (6, Note::Beat { sent: 4 }), (3 * ttl, end("r", 1))];
        let drives = drives(&[story(beats, None)]);
        assert_eq!((drives[0].to, drives[0].late), (4 + ttl, true));
    }

    #[test]
    fn too_many_at_once_are_found() {
        let runs = ["a", "b", "c", "d"];
        let open = |last: i64| {
            let mut notes: Vec<_> = (1..).zip(runs).map(|(at, run)| (at, start(run, 1))).collect();
            notes[3].0 = last;
            notes.insert(3, (10, end("a", 1)));
            notes.sort_by_key(|note| note.0);
            crowd(&drives(&[story(notes, Some(20))]), 3)
        };
        assert_eq!(open(9).too_many.len(), 1);
        assert_eq!(open(9).most, 4);
        assert!(open(10).too_many.is_empty(), "an end must free its slot in the same microsecond");
    }

    #[test]
    fn a_run_that_is_driven_twice_is_found() {
        let first = story(vec![(1, start("r", 1)), (9, end("r", 1))], None);
        let second = story(vec![(5, start("r", 1)), (6, end("r", 1))], None);
        let drives = drives(&[first, second]);
        assert_eq!(crowd(&drives, 3).twice.len(), 1);
        assert_eq!(fences(&drives).len(), 1);
    }
}
