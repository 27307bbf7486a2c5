//! The records of a layer, in the order in which they were staged.

use super::arena::{Arena, Record};

/// The records of a layer, in the order in which they were staged. A record's number is its
/// position.
#[derive(Clone)]
pub(super) struct RecordLog {
    arena: Arena,
    records: Vec<Record>,
    deletes: usize,
    family: u32,
}

impl RecordLog {
    pub(super) fn new(family: u32) -> Self {
        Self {
            arena: Arena::default(),
            records: Vec::new(),
            deletes: 0,
            family,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[&[u8]], value: Option<&[&[u8]]>, newest: bool) {
        let record = self.arena.push(self.family, key, value, newest);
        self.deletes += usize::from(value.is_none());
        self.records.push(record);
    }

    /// Appends the records of a newer log. The bytes of the records are shared and not copied.
    pub(super) fn append(&mut self, newer: Self) {
        let moved = self.arena.append(newer.arena);
        self.records
            .extend(newer.records.iter().map(|record| record.moved(moved)));
        self.deletes += newer.deletes;
    }

    /// Ends the pushes to this log.
    pub(super) fn freeze(&mut self) {
        self.arena.seal();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many of the records are deletes.
    pub(super) fn deletes(&self) -> usize {
        self.deletes
    }

    /// The most memory that a record takes here beside its key and value, in bytes.
    pub(super) const RECORD_BYTES: usize = Arena::ENCODING + size_of::<Record>();

    /// Memory of the records, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes() + self.records.len() * size_of::<Record>()
    }

    #[inline]
    pub(super) fn key(&self, n: u32) -> &[u8] {
        self.arena.key(self.records[n as usize])
    }

    #[inline]
    pub(super) fn value(&self, n: u32) -> Option<&[u8]> {
        self.arena.value(self.records[n as usize])
    }

    /// Key and value of a record.
    #[inline]
    pub(super) fn row(&self, n: u32) -> (&[u8], Option<&[u8]>) {
        let record = self.records[n as usize];
        (self.arena.key(record), self.arena.value(record))
    }

    #[inline]
    pub(super) fn newest(&self, n: u32) -> bool {
        self.records[n as usize].newest
    }

    #[inline]
    pub(super) fn encoded(&self, n: u32) -> &[u8] {
        self.arena.encoded(self.records[n as usize])
    }
}
