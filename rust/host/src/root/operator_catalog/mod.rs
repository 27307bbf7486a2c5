//! `operators/<name>.json`: what an operator stores, so that changed code cannot misread it.
//!
//! Payload columns and the columns of a processor's values may be added, dropped and reordered
//! between starts. `operators/<name>.<n>.json` holds version n of these columns, from 1, and of the
//! settings of stores and readers that may change, and the session that put it. Everything else
//! except the time column's name is fixed in the operator's first epoch.

mod catalog;
mod difference;
mod operator_meta;
mod participation;
mod store_serdes;
mod stored_store;

pub use catalog::OperatorCatalog;
pub use operator_meta::{OperatorMeta, PayloadSchema, RecordedOperator, StoredOperator};
pub use store_serdes::{StoreSerdes, descriptor_bytes};
pub use stored_store::{StoredKind, StoredStore};
