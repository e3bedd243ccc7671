//! Waits.
