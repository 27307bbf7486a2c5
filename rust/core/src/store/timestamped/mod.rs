//! The timestamped key-value store: key → (value, timestamp), in the order of the keys' bytes.
//!
//! ```text
//! stamped   key  →  timestamp, 8 bytes big-endian | value
//! kv        key  →  value                                   rows of a former plain store
//! ```
//!
//! A plain row reads with timestamp -1. Whatever writes its key moves it: the new row is staged
//! beside a delete of the plain one, so a key is never in both. A store whose plain rows are all
//! gone by the next open forgets about them.

mod scan;
mod stamped;
mod store;

pub use scan::StampedScan;
pub use stamped::{NO_TIMESTAMP, Stamped};
pub use store::TimestampedKeyValueStore;
