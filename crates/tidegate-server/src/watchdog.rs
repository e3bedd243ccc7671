//! The watchdog: a thread of its own that notices when the runtime stands still, and logs what the
//! server was at.
//!
//! Requests, heartbeats and signals are tasks of the runtime. Where all its threads are blocked none
//! of them goes on, and nothing inside of it can say so.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use tidegate::Engine;
use tokio::runtime::Handle;

use crate::http::Underway;

/// How long a task that has nothing to do may take.
const STALL: Duration = Duration::from_secs(1);

/// How often that is tried.
const PERIOD: Duration = Duration::from_millis(500);

/// What the watchdog tells.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The runtime has stood still for this long, and still does.
    Stalled(Duration),
    /// It goes on again, after this long.
    Over(Duration),
}

/// Watches the runtime of this task for as long as it lives.
pub(crate) fn start(engine: Engine, requests: Underway) -> io::Result<()> {
    let runtime = Handle::current();
    let tell = move |told: Told| match told {
        Told::Stalled(time) => tracing::warn!(
            stalled_ms = millis(time),
            runs = engine.driven(),
            commands = engine.pending(),
            requests = %requests.oldest(),
            "the runtime stands still"
        ),
        Told::Over(time) => tracing::warn!(stalled_ms = millis(time), "the runtime goes on again"),
    };
    let watch = move || watch(&runtime, (STALL, PERIOD), tell);
    thread::Builder::new().name("tidegate-watchdog".to_owned()).spawn(watch).map(drop)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Has the runtime run an empty task again and again, and tells when that takes too long.
fn watch(runtime: &Handle, (stall, period): (Duration, Duration), tell: impl Fn(Told)) {
    loop {
        let (answer, answered) = mpsc::sync_channel(1);
        let asked = Instant::now();
        runtime.spawn(async move { answer.try_send(()) });
        match answered.recv_timeout(stall) {
            Ok(()) => {}
            // The runtime has dropped its tasks.
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                tell(Told::Stalled(asked.elapsed()));
                if answered.recv().is_err() {
                    return;
                }
                tell(Told::Over(asked.elapsed()));
            }
        }
        thread::sleep(period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both threads of a runtime are blocked until the watchdog has told of it; later once more.
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
                    // The second one waits for the lock.
                    let _ = released.lock().unwrap().recv();
                });
            }
            both.recv().unwrap();
            both.recv().unwrap();
        };
        block();
        let (tell, told) = mpsc::channel();
        let handle = runtime.handle().clone();
        let tell = move |it| tell.send(it).unwrap();
        let short = Duration::from_millis(20);
        let watchdog = thread::spawn(move || watch(&handle, (short, short), tell));
        for n in 0..2 {
            if n > 0 {
                block();
            }
            let Told::Stalled(first) = told.recv().unwrap() else { panic!("it is told of first") };
            release.send(()).unwrap();
            release.send(()).unwrap();
            let Told::Over(whole) = told.recv().unwrap() else { panic!("then that it is over") };
            assert!(first >= short && whole >= first, "{first:?}, {whole:?}");
        }
        runtime.shutdown_background();
        // It ends with its runtime.
        watchdog.join().unwrap();
    }
}
