//! The stores: one module for each kind. A store only reads and stages rows of a transaction; it
//! does not use RocksDB.

pub(crate) mod figures;
pub mod key_part;
pub(crate) mod key_range;
pub mod key_value;
pub mod session;
pub mod timestamped;
pub mod versioned;
pub mod window;
mod window_value;
pub mod windowed;

pub use crate::store_spec::{StoreKind, StoreSpec, default_segment_interval};
