//! Settings of one RocksDB database.

use super::environment::Environment;
use super::row_filter::FilterSetup;

/// How a database is opened.
#[derive(Clone, Default)]
pub struct RocksOptions {
    /// Keep a write-ahead log and fsync it at every write.
    pub sync: bool,
    /// RocksDB's option strings for the database and for every family, passed on unchanged.
    pub extra: Vec<(String, String)>,
    /// The row filter of each store whose rows expire, for its compactions.
    pub row_filters: Vec<(String, FilterSetup)>,
    /// Switch on RocksDB's statistics, which cost every call some time.
    pub statistics: bool,
    /// The file system below; `None` is the operating system's.
    pub environment: Option<Environment>,
    /// The number of a commit that has a commit file. The database's files may lack this commit.
    pub commit_file: Option<u64>,
    /// The database holds spilled rows of a transaction: it only ingests sorted files, and its
    /// directory is deleted with its last reference.
    pub temporary: bool,
}

impl RocksOptions {
    /// Whether the files are in memory.
    pub(in crate::rocks) fn is_in_memory(&self) -> bool {
        self.environment
            .as_ref()
            .is_some_and(Environment::is_in_memory)
    }
}
