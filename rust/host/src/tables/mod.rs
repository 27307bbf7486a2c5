//! The tables of a query's state, as readers see them.
//!
//! [`operator_tables`] finds the tables of an operator from what the root records of it. A
//! [`StateTable`] reads one of them from a partition's database: it encodes the keys that are asked
//! for (`key_form.rs`), reads the store (`store_handle.rs`), and decodes rows into the user's
//! columns (`value_form.rs`, `time_column.rs`). State hosts and readers use it alike.
//! [`TableChanges`] decodes records of the log in the same way.

mod key_form;
mod key_range;
mod key_reads;
mod operator_tables;
mod read_call;
mod state_table;
mod store_handle;
mod stored_rows;
mod table_changes;
mod time_column;
mod value_form;

pub use key_form::KeyForm;
pub use key_reads::{FEW_KEYS, StoredKeys};
pub use operator_tables::operator_tables;
pub use read_call::{FOUND, ReadCall, ReadRows};
pub use state_table::{EmitRows, StateTable, not_assembled};
pub use store_handle::Moments;
pub use stored_rows::FoundRow;
pub use table_changes::TableChanges;
