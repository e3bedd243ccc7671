//! Typed streams: state that is folded from events, and actions that decide new events on it.

mod act;
pub mod event;
mod list;
mod load;
mod read;
mod trail;
mod writer;
mod writer_cache;

use std::marker::PhantomData;

pub use act::{ActError, Acted};
pub use list::Listed;
pub(crate) use load::{Until, load};
pub use read::{Cursor, Head, Page, Query, StreamEvent, Streams};
use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::time::Timestamp;
pub(crate) use trail::Trail;
pub(crate) use writer_cache::WriterCache;

use crate::{api::Engine, error::Error};

/// State that is folded from the events of a stream.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidegate::State;
///
/// #[derive(Clone, Debug, Default, Serialize, Deserialize)]
/// struct Account {
///     balance: u64,
/// }
///
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// enum Moved {
///     Deposited { amount: u64 },
///     Withdrawn { amount: u64 },
/// }
///
/// impl State for Account {
///     type Event = Moved;
///
///     fn apply(&mut self, event: &Moved) {
///         match event {
///             Moved::Deposited { amount } => self.balance += amount,
///             Moved::Withdrawn { amount } => self.balance -= amount,
///         }
///     }
/// }
/// ```
pub trait State: Default + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Type of the events: an enum whose variant names are the names of the events.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// Number of events after which a snapshot is stored. With `None`, no snapshots are stored, and
    /// every load folds all events.
    const SNAPSHOT_EVERY: Option<u32> = None;

    /// Version of the snapshot format.
    ///
    /// Increase it when this type gives old snapshots another meaning. A snapshot that cannot be
    /// read is always skipped.
    const SHAPE: u32 = 1;

    /// Applies an event to the state.
    ///
    /// This must be a pure function: the same events always give the same state.
    fn apply(&mut self, event: &Self::Event);
}

/// Default number of retries of an action after conflicts.
pub const DEFAULT_RETRIES: u32 = 32;

/// Typed handle to a stream.
///
/// Cheap to clone.
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing by itself"]
pub struct Stream<S> {
    engine: Engine,
    name: String,
    expected: Option<i64>,
    retries: u32,
    trail: Trail,
    of: PhantomData<fn() -> S>,
}

/// State of a stream, and the version of the last event in it; -1 if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded<S> {
    /// Folded state.
    pub state: S,
    /// Version of the last event.
    pub version: i64,
}

impl Engine {
    /// Returns a typed handle to a stream.
    ///
    /// The stream begins with its first commit.
    pub fn stream<S: State>(&self, name: impl Into<String>) -> Stream<S> {
        Stream {
            engine: self.clone(),
            name: name.into(),
            expected: None,
            retries: DEFAULT_RETRIES,
            trail: Trail::default(),
            of: PhantomData,
        }
    }

    /// Returns an untyped handle to all streams of the workspace.
    pub fn streams(&self) -> Streams {
        Streams::new(self)
    }
}

impl<S: State> Stream<S> {
    /// Returns the stream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Executes actions only at this version of the stream (-1: only if it does not exist). At any
    /// other version an action fails at once with [`ActError::Conflict`].
    pub fn expecting(mut self, version: i64) -> Self {
        self.expected = Some(version);
        self
    }

    /// Sets the number of retries of an action after conflicts.
    ///
    /// Defaults to [`DEFAULT_RETRIES`].
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the correlation id and the cause of the commits made through this handle, for example
    /// those of an event.
    pub fn correlated(
        mut self,
        correlation: impl Into<String>,
        causation: impl Into<String>,
    ) -> Self {
        self.trail = Trail::new(correlation, causation);
        self
    }

    /// Returns the current state.
    pub async fn load(&self) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Head).await
    }

    /// Returns the state right after the event of this version.
    pub async fn load_at(&self, version: i64) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Version(version)).await
    }

    /// Returns the state at a time of the store's clock. It is folded from all events before the
    /// first event that is later.
    pub async fn load_as_of(&self, moment: Timestamp) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Moment(moment)).await
    }

    async fn load_until(&self, until: Until) -> Result<Loaded<S>, Error> {
        let (store, ws) = (&**self.engine.store(), self.engine.ws());
        Ok(load::<S>(store, &ws, &self.name, until).await?.loaded)
    }
}
