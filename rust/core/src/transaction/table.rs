//! Tables of a database, and where their committed rows are.

use crate::rocks::Family;
use crate::table::{FamilyKind, TIME_BYTES};

/// A table of a database: ordered rows that stores read and stage.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Position among the database's tables.
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) kind: FamilyKind,
}

/// Where a table's committed rows are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In a column family.
    Files(Family),
    /// In memory; the position among the database's tables in memory.
    Memory(usize),
}

impl Place {
    /// The column family of a table in files.
    pub(crate) fn family(self) -> Option<Family> {
        match self {
            Self::Files(family) => Some(family),
            Self::Memory(_) => None,
        }
    }
}

impl Table {
    /// RocksDB's number of the family; 0 for a table in memory, which has none.
    pub(crate) fn family_id(self) -> u32 {
        match self.place {
            Place::Files(family) => family.id,
            Place::Memory(_) => 0,
        }
    }

    /// Bytes at a key's end that an index by key leaves out.
    pub(super) fn suffix(self) -> usize {
        if self.kind == FamilyKind::Versions {
            TIME_BYTES
        } else {
            0
        }
    }
}
