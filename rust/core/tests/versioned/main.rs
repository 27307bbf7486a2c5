//! The versioned store: its contract, scans, expiry, and a retention that becomes longer.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(missing_docs, reason = "an executable, not a library")]

mod as_of;
mod contract;
mod expiry;
mod history;
#[path = "../killed/mod.rs"]
mod killed;
mod longer_retention;
