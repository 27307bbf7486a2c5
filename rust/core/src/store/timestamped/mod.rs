//! The timestamped key-value store: key → (value, timestamp), in the order of the keys' bytes.
//!
//! ```text
//! stamped   key  →  timestamp, 8 bytes big-endian | value
//! kv        key  →  value                                   rows of a former plain store
//! ```
//!
//! A plain row reads with timestamp -1. A write of its key moves it: a delete of the plain row is
//! staged with the new row, so a key is never in both tables. If no plain row is left at the next
//! open, the store has no plain table any more.

mod scan;
mod stamped;
mod store;

pub use scan::StampedScan;
pub use stamped::{NO_TIMESTAMP, Stamped};
pub use store::TimestampedKeyValueStore;
