//! Expiry: rows that no read can return are dropped when a compaction rewrites their file. A table
//! in memory drops them when a commit merges all layers of the table.

mod filter;
mod horizon;
pub(crate) mod retention;
pub(crate) mod version_key;

pub use filter::ExpiryFilter;
pub use horizon::{Ends, Horizon};
