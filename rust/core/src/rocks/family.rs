//! Column families: each store has its own, and two serve the database.

use rust_rocksdb::ffi_raw;

/// What a family holds; decides its options. The kind is part of the family's name, so that a
/// database can be opened with the right options before anything in it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Format version, store descriptors, stream times, properties.
    Metadata,
    /// Changelog offsets.
    Offsets,
    /// Rows of a key-value store.
    KeyValue,
    /// Rows of a versioned store: key, then inverted begin.
    Versions,
    /// The newest row of each key of a versioned store.
    Latest,
    /// Rows of a timestamped key-value store.
    Stamped,
    /// Rows of a window or session store, by key.
    Windowed,
    /// The same by time, without values.
    Times,
}

/// A family to open.
#[derive(Clone, Debug)]
pub struct FamilySpec {
    pub(crate) kind: FamilyKind,
    pub(crate) store: String,
}

impl FamilySpec {
    /// The family of a kind that a store (or, for an empty name, the database) owns.
    pub fn new(kind: FamilyKind, store: &str) -> Self {
        Self {
            kind,
            store: store.to_owned(),
        }
    }

    /// The column family's name on disk.
    pub fn name(&self) -> String {
        match self.kind {
            FamilyKind::Metadata => "metadata".to_owned(),
            FamilyKind::Offsets => "offsets".to_owned(),
            FamilyKind::KeyValue => format!("kv:{}", self.store),
            FamilyKind::Versions => format!("versions:{}", self.store),
            FamilyKind::Latest => format!("latest:{}", self.store),
            FamilyKind::Stamped => format!("stamped:{}", self.store),
            FamilyKind::Windowed => format!("windowed:{}", self.store),
            FamilyKind::Times => format!("times:{}", self.store),
        }
    }

    /// The family that a name on disk stands for; `None` for a name that we never give.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, store) = match name.split_once(':') {
            None if name == "metadata" => (FamilyKind::Metadata, ""),
            None if name == "offsets" => (FamilyKind::Offsets, ""),
            Some(("kv", store)) => (FamilyKind::KeyValue, store),
            Some(("versions", store)) => (FamilyKind::Versions, store),
            Some(("latest", store)) => (FamilyKind::Latest, store),
            Some(("stamped", store)) => (FamilyKind::Stamped, store),
            Some(("windowed", store)) => (FamilyKind::Windowed, store),
            Some(("times", store)) => (FamilyKind::Times, store),
            _ => return None,
        };
        Some(Self::new(kind, store))
    }
}

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
