//! Progress bar, shown on a terminal only.

use std::io::{IsTerminal, Write, stderr};

/// A progress bar on standard error. It is erased when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    shown: bool,
}

impl Progress {
    pub(crate) fn of(total: u64) -> Self {
        Self { total, shown: total > 0 && stderr().is_terminal() }
    }

    pub(crate) fn at(&self, done: u64) {
        if self.shown {
            let filled = usize::try_from(done.min(self.total) * 30 / self.total).unwrap_or(30);
            let (bar, total) = ("#".repeat(filled), self.total);
            let _ = write!(stderr(), "\r[{bar:.<30}] {done} of {total}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
