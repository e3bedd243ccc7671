//! The life of a run after its admission: leased, recorded, suspended, woken, ended.
//!
//! [`lease`] is the only way into *driven*, [`end`] the only way out of life; every write of a
//! worker repeats its fence ([`record`]).

pub mod chore;
pub mod control;
pub mod end;
pub mod follow_up;
pub mod lease;
pub mod output;
pub mod record;
pub mod replay;
pub mod retry;
pub mod sweep;
pub mod wait;
pub mod wake;
