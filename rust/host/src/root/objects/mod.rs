//! The objects of a root by name: put if absent, get, list, remove.
//!
//! [`Objects`] is the only access to a root's files. [`location`] parses the location of the root,
//! and [`client`] configures the connection to an object store.

mod client;
mod durability;
mod durable_folders;
mod errors;
mod location;
mod put_absent;
mod removal;
mod runtime;
mod storage;
mod transfer;

pub use client::StorageOptions;
pub(crate) use errors::{open_files, os};
pub use location::RootLocation;
pub use put_absent::PutOutcome;
#[cfg(test)]
pub use runtime::block_on;
pub use storage::Objects;
