//! A file system other than the operating system's.

use crate::error::Result;
use crate::rocks::failure::failure;
use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file system below a database: memory, or one with injected faults (the proof crate).
#[derive(Clone)]
pub struct Environment {
    pub(in crate::rocks) env: rust_rocksdb::Env,
    in_memory: bool,
    sync: Option<SyncPath>,
}

/// Syncs a file's bytes or a directory's entries; false if that failed.
type SyncPath = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

impl Environment {
    /// Makes a file system in memory. Its files are freed with the last database that uses it. Its
    /// paths must be absolute.
    ///
    /// # Errors
    /// Those of RocksDB.
    pub fn in_memory() -> Result<Self> {
        let env = rust_rocksdb::Env::mem_env()
            .map_err(|e| failure("making a file system in memory", Path::new(""), e))?;
        Ok(Self {
            env,
            in_memory: true,
            sync: None,
        })
    }

    /// Whether the files are in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Takes ownership of a `rocksdb_env_t` of RocksDB's C interface.
    ///
    /// # Safety
    /// `raw` points to a live environment, and no other code destroys it.
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: the caller guarantees it.
        let env = unsafe { rust_rocksdb::Env::from_raw(raw.cast()) };
        Self {
            env,
            in_memory: false,
            sync: None,
        }
    }

    /// Also calls `sync` when Holdfast itself syncs the files or directories of a spilled commit.
    #[must_use]
    pub fn with_sync(mut self, sync: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        self.sync = Some(Arc::new(sync));
        self
    }
}

/// Syncs a file's bytes or a directory's entries.
pub(crate) fn sync_path(path: &Path, environment: Option<&Environment>) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()?;
    match environment.and_then(|environment| environment.sync.as_ref()) {
        Some(sync) if !sync(path) => Err(std::io::Error::other(
            "the file system below the database failed to sync",
        )),
        _ => Ok(()),
    }
}

/// A path for a database in memory: absolute, as RocksDB requires, and unique in this process.
pub(in crate::rocks) fn path_in_memory() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!(
        "holdfast-in-memory-{}-{number}",
        std::process::id()
    ))
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}
