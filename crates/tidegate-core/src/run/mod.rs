//! The life of a run after its admission: it is leased, recorded, suspended, woken and ended.
//!
//! Only [`lease`] makes a run driven, and only [`end`] ends it. Every report of a worker has the
//! fence of its lease ([`record`]).

pub mod chore;
pub mod control;
pub mod end;
pub mod follow_up;
pub mod lease;
pub(crate) mod lifecycle;
pub mod listen;
pub mod named;
pub mod output;
pub mod record;
pub mod replay;
pub mod retry;
pub mod sweep;
pub mod wait;
pub mod wake;
