//! Another file system than the operating system's.

use std::ffi::c_void;
use std::fmt;

/// The file system beneath a database: how the proof crate takes power away. Not part of the interface.
#[derive(Clone)]
pub struct Environment(pub(super) rust_rocksdb::Env);

impl Environment {
    /// Takes over a `rocksdb_env_t` of RocksDB's C interface.
    ///
    /// # Safety
    /// `raw` points to one that is alive, and nobody else destroys it.
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { rust_rocksdb::Env::from_raw(raw.cast()) })
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}
