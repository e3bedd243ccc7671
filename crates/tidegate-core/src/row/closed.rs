//! Closed gates: who closed a gate, and until when.

use serde::{Deserialize, Serialize};

use super::{GateState, Slots, Turns};
use crate::{id::RunId, time::Timestamp};

/// Closing of a gate by a run: no run enters before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When the gate opens again.
    pub until: Timestamp,
    /// The run that closed it.
    pub by: RunId,
    /// When the run closed it.
    pub at: Timestamp,
}

impl GateState {
    fn closing(&mut self) -> Option<&mut Option<Closed>> {
        match self {
            Self::Slots(Slots { closed, .. }) | Self::Turns(Turns { closed, .. }) => Some(closed),
            Self::Meter(_) | Self::Fold(_) | Self::Claim(_) | Self::Share(_) => None,
        }
    }

    /// Returns the closing of the gate, if it is not over yet.
    pub fn closed(&self, now: Timestamp) -> Option<&Closed> {
        match self {
            Self::Slots(Slots { closed, .. }) | Self::Turns(Turns { closed, .. }) => {
                closed.as_ref().filter(|closed| closed.until > now)
            }
            Self::Meter(_) | Self::Fold(_) | Self::Claim(_) | Self::Share(_) => None,
        }
    }

    /// Closes the gate. The later end wins.
    pub(crate) fn close(&mut self, closed: Closed) {
        if let Some(known) = self.closing()
            && known.is_none_or(|known| known.until < closed.until)
        {
            *known = Some(closed);
        }
    }

    /// Removes a closing that is over. One that begins later than now was written before the clock
    /// stepped back: it lasts as long from now on.
    pub(crate) fn reopen(&mut self, now: Timestamp) {
        let Some(known) = self.closing() else { return };
        if let Some(closed) = known.filter(|closed| closed.at > now) {
            let length = closed.until.micros().saturating_sub(closed.at.micros());
            let until = Timestamp::from_micros(now.micros().saturating_add(length));
            *known = Some(Closed { until, at: now, ..closed });
        }
        *known = known.filter(|closed| closed.until > now);
    }
}
