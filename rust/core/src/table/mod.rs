//! What a table is: its column family, its bounds, and the fixed parts of its keys. Nothing here
//! uses RocksDB, and every other folder of the engine may import this one.

mod bounds;
mod family;

pub use bounds::Bounds;
pub use family::{FamilyKind, FamilySpec};

/// Bytes of the time at the end of every key of a `versions` family, and before or after the key
/// part in a windowed row's key.
pub(crate) const TIME_BYTES: usize = 8;
