//! Detects whether a pending future can continue by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// Observes the wakers that one future creates when it is polled.
#[derive(Debug)]
pub(crate) struct Watched {
    flag: Arc<Flag>,
    waker: Waker,
}

/// Waker that forwards each wake to the task and records it.
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

/// Number of references to `flag` that `Watched` itself has.
const OWN: usize = 2;

impl Watched {
    /// Returns the given watch, or a new one if the task has another waker now.
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

    /// Forgets earlier wakes.
    pub(crate) fn start(&self) {
        self.flag.woken.store(false, Ordering::SeqCst);
    }

    /// Returns whether the future was woken since the last call of `start`.
    pub(crate) fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::SeqCst)
    }

    /// Returns whether the future has given away more than `known` wakers: then something else can
    /// wake it, too.
    pub(crate) fn is_awaited_by_more_than(&self, known: usize) -> bool {
        Arc::strong_count(&self.flag) > OWN + known
    }
}
