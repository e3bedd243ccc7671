//! Whether a future that is pending can go on by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// Watches the wakers of one future while it is polled.
#[derive(Debug)]
pub(crate) struct Watched {
    flag: Arc<Flag>,
    waker: Waker,
}

/// Passes a wake on, and remembers it.
#[derive(Debug)]
struct Flag {
    task: Waker,
    woken: AtomicBool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

/// How many references to the flag are the watch's own.
const OWN: usize = 2;

impl Watched {
    /// The watch of a task, made anew where the task has another waker than before.
    pub(crate) fn renewed(watched: Option<Self>, cx: &Context<'_>) -> Self {
        match watched {
            Some(watched) if watched.flag.task.will_wake(cx.waker()) => watched,
            _ => {
                let (task, woken) = (cx.waker().clone(), AtomicBool::new(false));
                let flag = Arc::new(Flag { task, woken });
                Self { waker: Waker::from(flag.clone()), flag }
            }
        }
    }

    /// The waker to poll the future with.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Forgets earlier wakes.
    pub(crate) fn start(&self) {
        self.flag.woken.store(false, Ordering::SeqCst);
    }

    /// Whether the future was woken since the start.
    pub(crate) fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::SeqCst)
    }

    /// Whether somebody can wake the future beside the holders of this many wakers.
    pub(crate) fn is_awaited_by_more_than(&self, known: usize) -> bool {
        Arc::strong_count(&self.flag) > OWN + known
    }
}
