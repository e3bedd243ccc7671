//! Debounce.
