//! Streams in Rust: a state folded from events, and actions that decide on it.

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

/// What a stream is folded into.
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
    /// What happens to it: an enum whose variants' names are the events' names.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// Keeps a snapshot whenever so many events have come; without it all are folded every time.
    const SNAPSHOT_EVERY: Option<u32> = None;

    /// The shape of a snapshot. Raise it when old snapshots no longer say what this type says;
    /// one that cannot be read at all is passed over anyway.
    const SHAPE: u32 = 1;

    /// What an event makes of it. Pure: the same events give the same state, always.
    fn apply(&mut self, event: &Self::Event);
}

/// How often an action is decided again after a conflict, unless the handle says otherwise.
pub const DEFAULT_RETRIES: u32 = 32;

/// A stream as a type sees it. Cheap to clone.
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

/// A state, and the version of the last event in it; -1 if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<S> {
    /// The state.
    pub state: S,
    /// The last event's version.
    pub version: i64,
}

impl Engine {
    /// A stream as a type sees it. It begins with its first commit.
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

    /// All streams of the workspace, without types.
    pub fn streams(&self) -> Streams {
        Streams::new(self)
    }
}

impl<S: State> Stream<S> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Acts only on this version (-1: only on a stream that is not there), and fails at once with
    /// [`ActError::Conflict`] otherwise.
    pub fn expecting(mut self, version: i64) -> Self {
        self.expected = Some(version);
        self
    }

    /// How often an action is decided again after a conflict, [`DEFAULT_RETRIES`] unless given.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// What its commits belong to, and what caused them: handed on from an event.
    pub fn correlated(
        mut self,
        correlation: impl Into<String>,
        causation: impl Into<String>,
    ) -> Self {
        self.trail = Trail::new(correlation, causation);
        self
    }

    /// The state as it is now.
    pub async fn load(&self) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Head).await
    }

    /// The state as it was right after the event of a version.
    pub async fn load_at(&self, version: i64) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Version(version)).await
    }

    /// The state as it was at a moment of the store's clock: of all before the first event that
    /// came later.
    pub async fn load_as_of(&self, moment: Timestamp) -> Result<Loaded<S>, Error> {
        self.load_until(Until::Moment(moment)).await
    }

    async fn load_until(&self, until: Until) -> Result<Loaded<S>, Error> {
        let (store, ws) = (&**self.engine.store(), self.engine.ws());
        Ok(load::<S>(store, &ws, &self.name, until).await?.loaded)
    }
}
