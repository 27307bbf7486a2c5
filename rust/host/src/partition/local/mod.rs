//! The local database of a partition: its directory, whose lock this host holds, and its position.

mod database;
mod directory;
mod directory_lock;
pub mod position;

pub use database::{OpenDatabase, close};
pub use directory::{LocalDirectory, remove_directory};
