//! Stores against their models: random operations of every kind of store among commits, rollbacks,
//! reopens, compactions, and readers of both isolation levels whose views must not change.
#![allow(clippy::unwrap_used, reason = "a test")]

mod key_value;
mod pair;
mod timestamped;
mod versioned;
mod window_model;
mod window_step;
mod windowed;
