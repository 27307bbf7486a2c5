//! The timestamped key-value store: key → (value, timestamp), in the order of the keys' bytes.
//!
//! ```text
//! stamped   key  →  timestamp, 8 bytes big-endian | value
//! kv        key  →  value                                   rows of a former plain store
//! ```
//!
//! A plain row is read with timestamp -1. A write of its key stages the new row and a delete of the
//! plain row, so a key is never in both tables. An open adds the plain table only if it has rows.

mod scan;
mod stamped;
mod store;

pub use scan::StampedScan;
pub use stamped::{NO_TIMESTAMP, Stamped};
pub use store::TimestampedKeyValueStore;
