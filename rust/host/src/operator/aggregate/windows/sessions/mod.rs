//! Windows separated by pauses.
//!
//! `session_windows.rs` the sessions of an epoch · `row_runs.rs` its rows between pauses ·
//! `session_parts.rs` these rows and the stored sessions, joined to sessions · `session_store.rs`
//! groups in a store.

mod row_runs;
mod session_parts;
mod session_store;
mod session_windows;

pub use session_windows::SessionWindows;
