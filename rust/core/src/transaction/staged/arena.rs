//! Append-only memory for staged records: an arena never moves its records.

use crate::rocks::batch;

const FIRST_CHUNK: usize = 16 << 10;
const CHUNK: usize = 1 << 20;

/// The place of a record in the arena, and of the key within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    chunk: u32,
    start: u32,
    len: u32,
    key_len: u32,
    key_start: u8,
    /// This version was the newest of its key when it was staged (versioned tables only).
    pub(super) newest: bool,
}

#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
}

impl Arena {
    /// The most bytes of a record's type, family and two lengths.
    pub(super) const ENCODING: usize = 16;

    pub(super) fn push(
        &mut self,
        family: u32,
        key: &[&[u8]],
        value: Option<&[&[u8]]>,
        newest: bool,
    ) -> Record {
        let key_len: usize = key.iter().map(|part| part.len()).sum();
        let value_len: usize = value.map_or(0, |parts| parts.iter().map(|part| part.len()).sum());
        let room = key_len + value_len + Self::ENCODING;
        if self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.capacity() - chunk.len() < room)
        {
            let size = self
                .chunks
                .last()
                .map_or(FIRST_CHUNK, |chunk| (chunk.capacity() * 4).min(CHUNK));
            self.chunks.push(Vec::with_capacity(size.max(room)));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let start = chunk.len();
        let key_start = batch::push_record(chunk, family, key, value);
        Record {
            chunk: number as u32,
            start: start as u32,
            len: (chunk.len() - start) as u32,
            key_len: key_len as u32,
            key_start: key_start as u8,
            newest,
        }
    }

    #[inline]
    pub(super) fn encoded(&self, record: Record) -> &[u8] {
        &self.chunks[record.chunk as usize]
            [record.start as usize..(record.start + record.len) as usize]
    }

    #[inline]
    pub(super) fn key(&self, record: Record) -> &[u8] {
        let start = record.start as usize + record.key_start as usize;
        &self.chunks[record.chunk as usize][start..start + record.key_len as usize]
    }

    /// The value, `None` for a delete.
    #[inline]
    pub(super) fn value(&self, record: Record) -> Option<&[u8]> {
        let encoded = self.encoded(record);
        if encoded[0] == batch::DELETE {
            return None;
        }
        let rest = &encoded[record.key_start as usize + record.key_len as usize..];
        let (len, at) = batch::read_varint(rest);
        Some(&rest[at..at + len as usize])
    }

    /// Bytes of the records. Free space is not counted: it is memory that was never touched.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}
