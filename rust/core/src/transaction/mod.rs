//! A transaction: a pinned view of the last commit, and the records staged since (KIP-892,
//! `docs/design/transactions.md`).
//!
//! Staged records are in an arena log with a hash index (`staged/layer.rs`). They are sorted only
//! when a scan or the commit needs their order. Readers of the open transaction share frozen
//! layers, so their view is repeatable and does not block the writer.
//!
//! Where is …? reads and scans: `read.rs`, `scan.rs` · a range delete: `delete_range.rs` · what a
//! commit takes: `drain.rs` · more than fits in memory: `spill/` · committed rows, in files and
//! in memory: `stored/` · the merge of sorted rows: `merge.rs`.

mod delete_range;
mod drain;
mod key_chunk;
pub(crate) mod merge;
mod read;
mod record_size;
mod scan;
mod sort_prefix;
mod spill;
mod staged;
mod store_state;
mod stored;
mod table;
#[expect(clippy::module_inception, reason = "the file is named after its type")]
mod transaction;

pub use crate::rocks::Batch;
pub(crate) use key_chunk::KeyChunk;
pub use record_size::{LARGEST, check_row, check_size};
pub use scan::{Scan, Step};
pub(crate) use sort_prefix::{last_of_each_key, sort_by_prefix, sort_prefix};
pub(crate) use spill::spiller::{SpillTarget, Spiller};
pub(crate) use staged::latest_rows::{LatestRows, TOMBSTONE};
pub(crate) use store_state::StoreState;
pub(crate) use stored::base::Base;
pub(crate) use stored::cursor::CursorRows;
pub(crate) use stored::memory_table::MemoryTable;
pub(crate) use stored::spilled_rows::SpilledRows;
pub(crate) use table::Place;
pub use table::Table;
pub use transaction::Transaction;
