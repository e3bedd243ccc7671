//! Singleton.
