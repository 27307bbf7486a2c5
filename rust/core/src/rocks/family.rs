//! Handles to open column families.

use rust_rocksdb::ffi_raw;

/// A handle to an open family: copied freely, valid while its database is open (every use goes
/// through the database's guard).
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub(super) handle: Handle,
    /// RocksDB's number of the family, as it stands in a write batch.
    pub id: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(pub(super) *mut ffi_raw::rocksdb_column_family_handle_t);

// SAFETY: RocksDB's column family handles are immutable and may be used from any thread; they are
// freed with the database, and no handle is used but under the guard of an open database.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl rust_rocksdb::AsColumnFamilyRef for Handle {
    fn inner(&self) -> *mut ffi_raw::rocksdb_column_family_handle_t {
        self.0
    }
}
