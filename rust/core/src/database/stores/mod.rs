//! The stores of a database.

mod catalog;
mod store;

pub(super) use catalog::{StoreCatalog, StoreEntry};
pub(super) use store::{Store, StoreExpiry};
