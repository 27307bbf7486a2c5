//! A database: one directory, many stores, one transaction, one atomic commit with the offsets
//! (`docs/design/stores.md`).

mod change;
mod close;
mod commit;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type that it defines"
)]
mod database;
mod expiry;
mod maintenance;
mod metrics;
mod offset_file;
mod offsets;
mod open;
mod options;
mod rows;
mod stores;
mod transactions;

pub use commit::Commit;
pub use database::Database;
pub use metrics::{DatabaseMetrics, StoreMetrics};
pub use offset_file::{Offsets, check_topic, read_offsets, remove_offsets, write_offsets};
pub use options::{
    DatabaseOptions, Durability, ProcessingGuarantee, StoreSerde, TransactionMechanism,
};
pub use rows::store_descriptor::check_store_name;
pub use transactions::open_transaction::OpenTransaction;
pub use transactions::read_uncommitted::LongCall;
