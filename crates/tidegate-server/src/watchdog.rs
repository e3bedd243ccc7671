//! Watchdog: a thread that detects a stalled runtime and logs what the server was doing.
//!
//! Requests, heartbeats and signals are tasks of the runtime. When all threads of the runtime are
//! blocked, no task runs, so no task can report the stall.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use tidegate::Engine;
use tokio::runtime::Handle;

use crate::http::Underway;

/// Maximum duration of an empty task. If it takes longer, the runtime counts as stalled.
const STALL: Duration = Duration::from_secs(1);

/// Pause between two probes.
const PERIOD: Duration = Duration::from_millis(500);

/// Report of the watchdog.
#[derive(Debug, PartialEq, Eq)]
enum Stall {
    /// The runtime has been stalled for this long, and still is.
    Stalled(Duration),
    /// The runtime has recovered, after a stall of this length.
    Over(Duration),
}

/// Starts the watchdog thread, which watches the current runtime until that ends.
pub(crate) fn start(engine: Engine, requests: Underway) -> io::Result<()> {
    let runtime = Handle::current();
    let tell = move |stall: Stall| match stall {
        Stall::Stalled(time) => tracing::warn!(
            stalled_ms = millis(time),
            runs = engine.driven(),
            commands = engine.pending(),
            requests = %requests.oldest(),
            "runtime stalled"
        ),
        Stall::Over(time) => tracing::warn!(stalled_ms = millis(time), "runtime recovered"),
    };
    let watch = move || watch(&runtime, (STALL, PERIOD), tell);
    thread::Builder::new().name("tidegate-watchdog".to_owned()).spawn(watch).map(drop)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Probes the runtime again and again with an empty task, and reports probes that take too long.
fn watch(runtime: &Handle, (stall, period): (Duration, Duration), tell: impl Fn(Stall)) {
    loop {
        let (answer, answered) = mpsc::sync_channel(1);
        let began = Instant::now();
        runtime.spawn(async move { answer.try_send(()) });
        match answered.recv_timeout(stall) {
            Ok(()) => {}
            // The runtime has dropped its tasks, so it has ended.
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                tell(Stall::Stalled(began.elapsed()));
                if answered.recv().is_err() {
                    return;
                }
                tell(Stall::Over(began.elapsed()));
            }
        }
        thread::sleep(period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks both threads of a runtime until the watchdog reports the stall and its end, twice.
    #[test]
    fn a_runtime_that_stands_still_is_told_of_each_time() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Arc::new(std::sync::Mutex::new(released));
        let block = || {
            let (blocked, both) = mpsc::channel();
            for _ in 0..2 {
                let (released, blocked) = (released.clone(), blocked.clone());
                runtime.spawn(async move {
                    blocked.send(()).unwrap();
                    // The first task waits for the message, the second one for the lock of the
                    // first.
                    let _ = released.lock().unwrap().recv();
                });
            }
            both.recv().unwrap();
            both.recv().unwrap();
        };
        block();
        let (tell, stalls) = mpsc::channel();
        let handle = runtime.handle().clone();
        let tell = move |it| tell.send(it).unwrap();
        let short = Duration::from_millis(20);
        let watchdog = thread::spawn(move || watch(&handle, (short, short), tell));
        for n in 0..2 {
            if n > 0 {
                block();
            }
            let Stall::Stalled(first) = stalls.recv().unwrap() else {
                panic!("the first report must be the stall")
            };
            release.send(()).unwrap();
            release.send(()).unwrap();
            let Stall::Over(whole) = stalls.recv().unwrap() else {
                panic!("the second report must be the end of the stall")
            };
            assert!(
                first >= short && whole >= first,
                "wrong durations: first report {first:?}, whole stall {whole:?}"
            );
        }
        runtime.shutdown_background();
        // The watchdog thread ends when its runtime has ended.
        watchdog.join().unwrap();
    }
}
