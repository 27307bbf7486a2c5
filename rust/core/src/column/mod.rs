//! Converts between Arrow columns and the plain slices that the engine's batch calls take and
//! return.
//!
//! - `bytes.rs`: columns of bytes as slices
//! - `places.rs`: the values that look-ups found
//! - `scan.rs`: rows of key and value
//! - `version.rs`: versions
//! - `windowed.rs`: windows and sessions
//! - `batch.rs`: batches of columns, and their limits

mod batch;
mod bytes;
mod places;
mod scan;
mod version;
mod windowed;

pub use batch::{LastBatch, batch};
pub use bytes::{BytesColumn, bytes_column};
pub use places::Places;
pub use scan::{key_value_batch, key_value_schema, stamped_batch, stamped_schema};
pub use version::{VersionColumns, version_batch, version_schema};
pub use windowed::{SESSION, WINDOW, WindowedColumns};
