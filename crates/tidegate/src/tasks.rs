//! Tasks of an engine. They all end with the engine.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::{sync::Notify, task::JoinSet};

/// Tasks that end with their engine.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<JoinSet<()>>,
    /// Counter of busy tasks, used by the test harness.
    busy: Option<Arc<Busy>>,
}

impl Tasks {
    pub(crate) fn tracked(busy: Option<Arc<Busy>>) -> Self {
        Self { tasks: Mutex::default(), busy }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.busy {
            Some(busy) => drop(tasks.spawn(Tracked::new(task, busy.clone()))),
            None => drop(tasks.spawn(task)),
        }
        // Remove tasks that have ended; otherwise the set would grow with every run.
        while tasks.try_join_next().is_some() {}
    }

    /// Counts work on another thread as busy until the guard is dropped. Used by the test harness.
    pub(crate) fn underway(&self) -> Option<Underway> {
        self.busy.as_ref().map(Busy::begin)
    }

    /// Waits until all tasks are dropped, after [`abort`](Self::abort). Then the resources that
    /// they held, such as the store, are released.
    pub(crate) async fn gone(&self) {
        let lock = || self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tasks = std::mem::take(&mut *lock());
        while tasks.join_next().await.is_some() {}
    }

    /// Drops all tasks at their current await.
    pub(crate) fn abort(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// Counter of busy tasks: tasks that were woken and have not been polled since, and other work in
/// progress.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    count: AtomicUsize,
    idle: Notify,
}

impl Busy {
    /// Counts work as in progress until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Underway {
        self.add();
        Underway(self.clone())
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn remove(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until no task is busy. It sleeps meanwhile, because a busy loop would take the
    /// processor from the database that the tasks wait for.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.is_idle() {
                // A task that has yielded is woken only after this task has yielded, too.
                tokio::task::yield_now().await;
                if self.is_idle() {
                    return;
                }
            } else {
                idle.await;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

/// Guard that counts work in progress.
pub(crate) struct Underway(Arc<Busy>);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// A task that counts as busy while it has work to do.
struct Tracked {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    flag: Arc<Flag>,
}

struct Flag {
    woken: AtomicBool,
    busy: Arc<Busy>,
    waker: Mutex<Option<Waker>>,
}

impl Flag {
    fn raise(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.busy.add();
        }
    }

    fn lower(&self) {
        if self.woken.swap(false, Ordering::SeqCst) {
            self.busy.remove();
        }
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // If there is no waker, the task has ended.
        if let Some(waker) = waker {
            self.raise();
            waker.wake();
        }
    }
}

impl Tracked {
    fn new(task: impl Future<Output = ()> + Send + 'static, busy: Arc<Busy>) -> Self {
        let (woken, waker) = (AtomicBool::new(false), Mutex::default());
        let flag = Arc::new(Flag { woken, busy, waker });
        flag.raise();
        Self { task: Box::pin(task), flag }
    }
}

impl Future for Tracked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.flag.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        // The waker is registered during each poll. A wake that arrives meanwhile is for the next
        // poll.
        let waker = Waker::from(self.flag.clone());
        let counted = self.flag.woken.swap(false, Ordering::SeqCst);
        let _underway = counted.then(|| Underway(self.flag.busy.clone()));
        self.task.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        *self.flag.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.flag.lower();
    }
}
