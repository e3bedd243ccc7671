//! Which streams are acted on in this engine, and which states are kept of those used last.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tidegate_core::row::Workspace;

use super::{State, writer::StreamWriter};

pub(super) type Key = (Workspace, String, TypeId);

type Erased = dyn Any + Send + Sync;

/// The lines of an engine: one for each stream that somebody acts on, and those used last.
#[derive(Debug)]
pub(crate) struct WriterCache {
    book: Mutex<Book>,
    /// How many are kept.
    most: usize,
}

#[derive(Debug, Default)]
struct Book {
    /// All that there are, and when each was last used.
    lines: BTreeMap<Key, (Weak<Erased>, u64)>,
    /// Those that are kept, by their last use.
    kept: BTreeMap<u64, Arc<Erased>>,
    uses: u64,
}

impl WriterCache {
    /// Keeps so many lines that nobody uses.
    pub(crate) fn new(most: usize) -> Self {
        Self { book: Mutex::default(), most }
    }

    /// The line of a stream, as a type sees it.
    pub(super) fn of<S: State>(
        self: &Arc<Self>,
        ws: &Workspace,
        stream: &str,
    ) -> Arc<StreamWriter<S>> {
        let key = (ws.clone(), stream.to_owned(), TypeId::of::<S>());
        let mut book = self.lock();
        let known = book.lines.get(&key).and_then(|(line, _)| line.upgrade());
        let line = known
            .and_then(|line| line.downcast::<StreamWriter<S>>().ok())
            .unwrap_or_else(|| Arc::new(StreamWriter::new(key.clone(), Arc::downgrade(self))));
        let old = book.used(key, line.clone(), self.most);
        drop(book);
        // A line that goes looks into the book.
        drop(old);
        line
    }

    /// A line goes: it is not in the book any more, unless another one stands there already.
    pub(super) fn forget(&self, key: &Key) {
        let mut book = self.lock();
        if book.lines.get(key).is_some_and(|(line, _)| line.strong_count() == 0) {
            book.lines.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().lines.len()
    }
}

impl Book {
    /// Keeps a line that is used now; gives what is no longer kept for it.
    fn used(&mut self, key: Key, line: Arc<Erased>, most: usize) -> [Option<Arc<Erased>>; 2] {
        self.uses += 1;
        let before = self.lines.insert(key, (Arc::downgrade(&line), self.uses));
        let moved = before.and_then(|(_, use_)| self.kept.remove(&use_));
        self.kept.insert(self.uses, line);
        let oldest = self.kept.len() > most;
        [moved, oldest.then(|| self.kept.pop_first()).flatten().map(|(_, line)| line)]
    }
}
