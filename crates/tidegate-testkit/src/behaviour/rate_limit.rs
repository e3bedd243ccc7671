//! Rate limit.
