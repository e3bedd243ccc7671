//! Priority.
