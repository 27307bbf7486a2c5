//! The versioned store (KIP-889, `docs/design/stores.md`): (key, timestamp) → value or tombstone,
//! with reads as of a moment.
//!
//! Where is …? a late put: `write.rs` · a read as of a moment: `read.rs`, `history_read.rs` · a
//! mixed batch: `batch.rs` · history and scans: `history.rs`, `scan/` · reads before the history:
//! `expired_read.rs` · what is dropped when: `expiry/` · bytes: `layout.rs` · why most puts read
//! nothing: `marks.rs`.

mod batch;
mod expired_read;
mod history;
mod history_read;
mod layout;
mod marks;
mod read;
mod scan;
mod seek_hint;
mod store;
mod version;
mod write;

pub use batch::{Applied, Op};
pub use history::VersionScan;
pub use store::VersionedStore;
pub use version::{PutResult, Version, VersionRow};
