//! The calls that a processor's code makes to its stores.
//!
//! A call names a store and a method. Its arguments are the columns of its batch; scalars are
//! columns of one row. The result of a scan is sent in pages: after an answer with the attribute
//! `cursor`, the method `next` (without a store) returns the next page. A page without rows is the
//! end. A scan's pinned view is released at the end of the scan, or when a call names its cursor in
//! the attribute `close`.
//!
//! `arguments.rs` a call's arguments · `reply.rs` its answer · `stores.rs` finds the store of a
//! call · `prefetch.rs` reads of many keys · a file for each kind of store.

mod arguments;
mod key_value;
mod prefetch;
mod reply;
mod session;
mod stores;
mod timestamped;
mod versioned;
mod window;

pub use stores::ProcessStores;
