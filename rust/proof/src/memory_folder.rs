//! The folder for the databases of tests.
//!
//! The engine's tests include this file by its path. They cannot depend on this crate, which
//! depends on the engine.

use std::path::PathBuf;

/// Returns a folder in memory if it has room for a test, otherwise the system's temporary folder.
pub fn memory_folder() -> PathBuf {
    let memory = "/dev/shm";
    // In a container it usually has 64 MiB, which is too little for a test.
    let free = rustix::fs::statvfs(memory).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    if free > 1 << 30 {
        memory.into()
    } else {
        std::env::temp_dir()
    }
}
