//! Cache of stream writers: the writers in use, and the most recently used ones with their states.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tidegate_core::row::Workspace;

use super::{State, writer::StreamWriter};

pub(super) type Key = (Workspace, String, TypeId);

type Erased = dyn Any + Send + Sync;

/// Writers of an engine: one for each stream in use, and the most recently used ones.
#[derive(Debug)]
pub(crate) struct WriterCache {
    book: Mutex<Book>,
    /// Maximum number of cached writers.
    most: usize,
}

#[derive(Debug, Default)]
struct Book {
    /// All existing writers, with the number of their last use.
    lines: BTreeMap<Key, (Weak<Erased>, u64)>,
    /// Cached writers, by the number of their last use.
    kept: BTreeMap<u64, Arc<Erased>>,
    uses: u64,
}

impl WriterCache {
    /// Creates a cache for at most this number of unused writers.
    pub(crate) fn new(most: usize) -> Self {
        Self { book: Mutex::default(), most }
    }

    /// Returns the typed writer of a stream.
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
        // Dropped after the lock is released, because dropping a writer locks the book.
        drop(old);
        line
    }

    /// Removes the entry of a dropped writer, unless it was already replaced by a new writer.
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
    /// Caches a writer that is used now. Returns the references that the cache gives up, to be
    /// dropped without the lock.
    fn used(&mut self, key: Key, line: Arc<Erased>, most: usize) -> [Option<Arc<Erased>>; 2] {
        self.uses += 1;
        let before = self.lines.insert(key, (Arc::downgrade(&line), self.uses));
        let moved = before.and_then(|(_, use_)| self.kept.remove(&use_));
        self.kept.insert(self.uses, line);
        let oldest = self.kept.len() > most;
        [moved, oldest.then(|| self.kept.pop_first()).flatten().map(|(_, line)| line)]
    }
}
