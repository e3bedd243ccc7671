//! Checks of fair queues: values with waiting runs, and their shares.

use std::collections::BTreeMap;

use super::{Report, Rule};
use crate::{
    id::{RunId, Seq},
    row::{Gate, GateKey, Place, Rank, Run, Share},
};

/// The shares, and the runs that wait by their values.
#[derive(Debug, Default)]
pub(super) struct Shares {
    rows: BTreeMap<GateKey, (Seq, Share)>,
    waiting: BTreeMap<GateKey, Vec<Waiting>>,
}

/// Run that waits by its value.
#[derive(Debug)]
struct Waiting {
    run: RunId,
    rank: Rank,
    place: Place,
    number: Option<Seq>,
}

impl Shares {
    pub(super) fn share(&mut self, gate: &Gate, share: Share) {
        self.rows.insert(gate.key.clone(), (gate.id, share));
    }

    /// Notes a run that is queued at a place.
    pub(super) fn run(&mut self, run: &Run, place: Place) {
        let Some(need) = run.plan.get(run.entered) else { return };
        let Some(of) = need.share.as_ref().filter(|_| place.is_shared()) else { return };
        let Some(key) = need.gate.share(&of.value) else { return };
        let waiting = Waiting { run: run.id, rank: run.rank, place, number: of.number };
        self.waiting.entry(key).or_default().push(waiting);
    }

    /// Checks that every value with waiting runs has a share, that its first run by rank has the
    /// value's tag, and that the others are behind.
    pub(super) fn conclude(&self, report: &mut Report) {
        for (key, runs) in &self.waiting {
            let Some((number, share)) = self.rows.get(key) else {
                report.check(Rule::Shares, false, || {
                    let (value, run) = (shown(key), runs[0].run);
                    format!("{run} waits for the turn of {value}, which has no share")
                });
                continue;
            };
            let first = runs.iter().min_by_key(|it| (it.rank, it.run.seq)).map(|it| it.run.seq);
            for waiting in runs {
                let is_first = Some(waiting.run.seq) == first;
                let expected = is_first == waiting.place.tag().is_some()
                    && is_first == (share.first == waiting.run.seq)
                    && waiting.number == Some(*number)
                    && (is_first || waiting.place == Place::behind(*number, waiting.rank))
                    && (!is_first || share.rank == waiting.rank);
                report.check(Rule::Shares, expected, || {
                    let (run, value, place) = (waiting.run, shown(key), waiting.place);
                    format!("{run} waits for the turn of {value} at {place:?}, share {share:?}")
                });
            }
        }
        for key in self.rows.keys() {
            report.check(Rule::Shares, self.waiting.contains_key(key), || {
                format!("{} has a share, but no run of it waits", shown(key))
            });
        }
    }
}

/// Returns the display name of a value.
fn shown(key: &GateKey) -> String {
    match key.scope() {
        Some(scope) => format!("`{}` at `{}`", scope.key, scope.name),
        None => format!("{key:?}"),
    }
}
