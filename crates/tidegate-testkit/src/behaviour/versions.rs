//! Versions.
