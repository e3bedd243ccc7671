//! Batch.
