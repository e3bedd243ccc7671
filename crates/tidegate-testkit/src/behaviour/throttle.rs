//! Throttle.
