//! The log: a separate thread writes lines to standard error.
//!
//! A write to a terminal or pipe that is not read blocks. In a thread of the runtime it would block
//! the whole server: requests, heartbeats and signals. So lines are queued for the thread, and
//! lines that do not fit into the queue are dropped and counted.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// Capacity of the queue in lines: a few megabytes at most.
const QUEUE: usize = 8192;

/// Maximum time to flush the log at the end of the process.
const FLUSH: Duration = Duration::from_secs(1);

/// Sender of lines to the writer thread.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Request to flush: answered when all earlier entries are written.
    Flush(SyncSender<()>),
}

impl Log {
    /// Starts the writer thread, which runs until the process ends.
    pub(crate) fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, queue) = mpsc::sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        let write = move || write_all(&queue, &counted, out);
        thread::Builder::new().name("tidegate-log".to_owned()).spawn(write)?;
        Ok(Self { lines, dropped })
    }

    /// Waits until all lines are written, but at most a second, in case the log is not read.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.lines.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH);
        }
    }
}

fn write_all(queue: &mpsc::Receiver<Entry>, dropped: &AtomicU64, mut out: impl Write) {
    loop {
        let Some(entry) = queue.try_recv().ok().or_else(|| {
            // The queue is empty, so all lines queued before the dropped ones are written: report
            // the dropped ones here.
            let lost = dropped.swap(0, Ordering::Relaxed);
            if lost > 0 {
                drop(writeln!(out, "{lost} log lines dropped: the log was not read in time"));
            }
            queue.recv().ok()
        }) else {
            return;
        };
        match entry {
            // An error is ignored: the server must not stop because its log cannot be written.
            Entry::Line(line) => drop(out.write_all(&line).and_then(|()| out.flush())),
            Entry::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Writer of one log line. The line is queued as a whole.
#[derive(Debug)]
pub(crate) struct Line<'a>(&'a Log);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.0.lines.try_send(Entry::Line(line.to_vec())) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// An output that blocks every write until `go_on`.
    #[derive(Clone, Default)]
    struct Stuck(Arc<Pipe>);

    #[derive(Default)]
    struct Pipe {
        /// Whether writes go on, and the bytes written so far.
        state: Mutex<(bool, Vec<u8>)>,
        bell: Condvar,
    }

    impl Stuck {
        fn go_on(&self) {
            self.0.state.lock().unwrap().0 = true;
            self.0.bell.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.state.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Pipe { state, bell } = &*self.0;
            let mut state = bell.wait_while(state.lock().unwrap(), |state| !state.0).unwrap();
            state.1.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_blocks_nobody() {
        let stuck = Stuck::default();
        let log = Log::to(stuck.clone()).unwrap();
        let lines = QUEUE + 100;
        for n in 0..lines {
            log.make_writer().write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        stuck.go_on();
        while !stuck.text().contains("dropped") {
            log.flush();
        }
        let text = stuck.text();
        assert!(text.starts_with("line 0\nline 1\n"), "in order");
        let told = text.lines().find_map(|line| line.split_once(" log lines")?.0.parse().ok());
        let told: usize = told.expect("the log must report the number of dropped lines");
        log.flush();
        let written = stuck.text().lines().filter(|it| it.starts_with("line")).count();
        assert_eq!(written + told, lines, "each line must be written or counted");
    }
}
