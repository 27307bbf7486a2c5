//! Another file system than the operating system's.

use super::failure::failure;
use crate::error::Result;
use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file system beneath a database: memory, or what the proof crate takes power away from.
#[derive(Clone)]
pub struct Environment {
    pub(super) env: rust_rocksdb::Env,
    pub(super) in_memory: bool,
    sync: Option<Sync>,
}

/// Makes a file's bytes or a directory's entries safe; false if that failed.
type Sync = Arc<dyn Fn(&Path) -> bool + Send + std::marker::Sync>;

impl Environment {
    /// Files in memory, gone with the last database that has them. A path in it must be absolute.
    pub fn in_memory() -> Result<Self> {
        let env = rust_rocksdb::Env::mem_env()
            .map_err(|e| failure("making room in memory", Path::new(""), e))?;
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

    /// Takes over a `rocksdb_env_t` of RocksDB's C interface.
    ///
    /// # Safety
    /// `raw` points to one that is alive, and nobody else destroys it.
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: as the caller promises.
        let env = unsafe { rust_rocksdb::Env::from_raw(raw.cast()) };
        Self {
            env,
            in_memory: false,
            sync: None,
        }
    }

    /// Has this asked, too, where files and directories are synced that are not a database's own.
    #[must_use]
    pub fn with_sync(
        mut self,
        sync: impl Fn(&Path) -> bool + Send + std::marker::Sync + 'static,
    ) -> Self {
        self.sync = Some(Arc::new(sync));
        self
    }
}

/// Makes safe which files a directory has, or what is in a file.
pub(crate) fn sync_path(path: &Path, environment: Option<&Environment>) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()?;
    match environment.and_then(|environment| environment.sync.as_ref()) {
        Some(sync) if !sync(path) => Err(std::io::Error::other(
            "the file system beneath the database refused to sync",
        )),
        _ => Ok(()),
    }
}

/// A path for a database in memory: absolute, as RocksDB wants it, and one that no other database
/// has.
pub(super) fn place_in_memory() -> PathBuf {
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
