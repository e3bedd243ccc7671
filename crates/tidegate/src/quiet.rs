//! Detection of whether a pending future can continue by itself.

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

/// Waker that forwards a wake and remembers it.
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

/// Number of references to the flag that belong to the watch itself.
const OWN: usize = 2;

impl Watched {
    /// Returns the watch of a task, recreated if the task has another waker than before.
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

    /// Returns the waker to poll the future with.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Clears earlier wakes.
    pub(crate) fn start(&self) {
        self.flag.woken.store(false, Ordering::SeqCst);
    }

    /// Returns whether the future was woken since the start.
    pub(crate) fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::SeqCst)
    }

    /// Returns whether anything besides the holders of this many wakers can wake the future.
    pub(crate) fn is_awaited_by_more_than(&self, known: usize) -> bool {
        Arc::strong_count(&self.flag) > OWN + known
    }
}
