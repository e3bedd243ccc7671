//! The verdict on runs that are ready but find no free worker.

use std::collections::BTreeSet;

use super::Answer;
use crate::{event::Outcome, flow::Verdict, id::RunId};

impl Answer {
    /// Changes the verdict on the runs in `late` from started to waiting for a worker.
    ///
    /// The verdict is only in the answer and is not stored: it describes the end of the
    /// transaction, and an engine may have a free worker a moment later.
    pub fn wait_for_worker(&mut self, late: &BTreeSet<RunId>) {
        let mark = |outcome: &mut Outcome| {
            if let Verdict::Started { run } = outcome.verdict
                && late.contains(&run)
            {
                outcome.verdict = Verdict::WaitsForWorker { run };
            }
        };
        match self {
            Self::Posted(posted) => posted.iter_mut().flat_map(|it| &mut it.runs).for_each(mark),
            Self::Admitted(outcome) => mark(outcome),
            Self::AdmittedBoth(first, then) => {
                std::iter::once(first).chain(then.as_deref_mut()).for_each(mark);
            }
            Self::Leased(_)
            | Self::Recorded(_)
            | Self::Changed(_)
            | Self::Paused { .. }
            | Self::Registered(_)
            | Self::Forgotten(_)
            | Self::Released(_)
            | Self::Retired(_)
            | Self::Session(_)
            | Self::Stream(_)
            | Self::Left(_)
            | Self::Signalled(_)
            | Self::Again(_)
            | Self::Kept(_)
            | Self::Overridden(_)
            | Self::Purged(_)
            | Self::Undelivered(_)
            | Self::Done => {}
        }
    }
}
