//! Handles to open column families.

use rust_rocksdb::ffi_raw;

/// A handle to an open family.
///
/// It may be copied freely. It is valid while its database is open, and every use of it holds the
/// database's guard.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub(super) handle: FamilyHandle,
    /// RocksDB's number of the family; write batches name the family by it.
    pub id: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FamilyHandle(pub(super) *mut ffi_raw::rocksdb_column_family_handle_t);

// SAFETY: RocksDB's column family handles are immutable and may be used from any thread; they are
// freed with the database, and every use of a handle holds the guard of an open database.
unsafe impl Send for FamilyHandle {}
// SAFETY: as above.
unsafe impl Sync for FamilyHandle {}

impl rust_rocksdb::AsColumnFamilyRef for FamilyHandle {
    fn inner(&self) -> *mut ffi_raw::rocksdb_column_family_handle_t {
        self.0
    }
}
