//! Opens a database in a directory, or in memory.

use super::checks::check_specs;
use super::directory::{canonical, make_directory};
use super::foreign::check_foreign;
use super::opening::Opening;
use crate::database::commit::commit_file::CommitFile;
use crate::database::database::Database;
use crate::database::options::{DatabaseOptions, Durability};
use crate::error::Result;
use crate::rocks::{DirectoryLock, Environment};
use crate::store::StoreSpec;
use std::path::Path;
use std::sync::Arc;

impl Database {
    /// Opens the database in a directory; creates the directory and its stores if they are missing.
    ///
    /// # Errors
    /// - `StoreLocked` with the holder's process id; nothing in the directory is changed.
    /// - `FormatVersion` for files of another program, where nothing is changed, or of another
    ///   format.
    /// - `InvalidValue` if a store's kind, a serde or the durability is not that of the files, for
    ///   invalid names, durations and database options, and for the path of a file; with
    ///   [`DatabaseOptions::refuse_hidden_rows`] also for a longer retention.
    /// - `Serialization` for columns of a value that do not fit the stored ones.
    /// - `StateMismatch` under exactly-once, after an unclean stop: if the database was last open
    ///   under at-least-once, or if a store without transactions is now opened with them.
    /// - `Io` if the directory cannot be written.
    /// - `StoreCorrupted` if files are damaged.
    pub fn open(path: &Path, stores: &[StoreSpec], options: DatabaseOptions) -> Result<Arc<Self>> {
        check_specs(stores)?;
        make_directory(path)?;
        let path = &canonical(path)?;
        check_foreign(path, options.environment.as_ref())?;
        let lock = DirectoryLock::acquire(path)?;
        let is_new = !path.join("CURRENT").exists();
        let commit_file = CommitFile::read(path)?;
        let opening = Opening::new(Some(lock), stores, options, commit_file.as_ref())?;
        opening.check_files(is_new)?;
        opening.recover(commit_file.as_ref())?.finish(stores, false)
    }

    /// Opens a database that is wholly in memory, offsets and positions included. A close loses it.
    /// All stores are in memory; `persistent` in their specs is ignored.
    ///
    /// # Errors
    /// `InvalidValue` for invalid names, durations and database options.
    pub fn open_in_memory(stores: &[StoreSpec], options: DatabaseOptions) -> Result<Arc<Self>> {
        check_specs(stores)?;
        let stores: Vec<StoreSpec> = stores
            .iter()
            .map(|spec| StoreSpec {
                persistent: false,
                ..spec.clone()
            })
            .collect();
        // Offsets, positions and properties are in a RocksDB database whose files are in memory, so
        // that both kinds of databases commit in the same way.
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            environment: Some(Environment::in_memory()?),
            ..options
        };
        Opening::new(None, &stores, options, None)?.finish(&stores, true)
    }
}
