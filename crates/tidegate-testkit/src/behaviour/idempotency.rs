//! Idempotency.
