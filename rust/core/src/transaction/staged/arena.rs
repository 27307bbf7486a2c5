//! Append-only memory for staged records: an arena never moves its records.

use crate::rocks::batch;
use arrow_buffer::Buffer;

/// Bytes of the first chunk of an arena. Neighbouring chunks of two arenas that fit into it
/// together are copied into one when the arenas are joined.
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

impl Record {
    /// The place of a record after its arena was appended to another.
    #[inline]
    pub(super) fn moved(self, by: Move) -> Self {
        Self {
            chunk: self.chunk + by.chunks,
            start: self.start + if self.chunk == 0 { by.first_chunk } else { 0 },
            ..self
        }
    }
}

/// How far an arena's records move when it is appended to another.
#[derive(Clone, Copy)]
pub(super) struct Move {
    chunks: u32,
    /// Bytes before the records of the first chunk.
    first_chunk: u32,
}

/// Chunks of encoded records. Only the last one grows. All others are sealed: they never change,
/// and arenas share them.
#[derive(Clone, Default)]
pub(super) struct Arena {
    sealed: Vec<Buffer>,
    sealed_bytes: usize,
    /// The chunk after the sealed ones.
    open: Vec<u8>,
}

impl Arena {
    /// The most bytes of a record's type, family and two lengths.
    pub(super) const ENCODING: usize = 16;

    #[inline]
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
        if self.open.capacity() - self.open.len() < room {
            let size = match self.open.capacity() {
                0 => FIRST_CHUNK,
                last => (last * 4).min(CHUNK),
            };
            self.seal_open();
            self.open = Vec::with_capacity(size.max(room));
        }
        let start = self.open.len();
        let key_start = batch::push_record(&mut self.open, family, key, value);
        Record {
            chunk: self.sealed.len() as u32,
            start: start as u32,
            len: (self.open.len() - start) as u32,
            key_len: key_len as u32,
            key_start: key_start as u8,
            newest,
        }
    }

    /// Seals all chunks. The free space of the last one is given back: if views are taken often,
    /// chunks are mostly empty.
    pub(super) fn seal(&mut self) {
        self.open.shrink_to_fit();
        self.seal_open();
    }

    fn seal_open(&mut self) {
        if !self.open.is_empty() {
            self.sealed_bytes += self.open.len();
            self.sealed
                .push(Buffer::from_vec(std::mem::take(&mut self.open)));
        }
    }

    /// Appends the records of a newer arena. Bytes are shared and not copied, except those of two
    /// small chunks. So chunks have `FIRST_CHUNK / 2` bytes or more on average.
    pub(super) fn append(&mut self, mut newer: Self) -> Move {
        self.seal();
        newer.seal();
        self.sealed_bytes += newer.sealed_bytes;
        let mut newer = newer.sealed.into_iter().peekable();
        let mut moved = Move {
            chunks: self.sealed.len() as u32,
            first_chunk: 0,
        };
        if let Some(last) = self.sealed.last_mut()
            && let Some(first) = newer.next_if(|first| last.len() + first.len() <= FIRST_CHUNK)
        {
            moved.chunks -= 1;
            moved.first_chunk = last.len() as u32;
            *last = Buffer::from_vec([last.as_slice(), first.as_slice()].concat());
        }
        self.sealed.extend(newer);
        moved
    }

    #[inline]
    fn chunk(&self, record: Record) -> &[u8] {
        self.sealed
            .get(record.chunk as usize)
            .map_or(self.open.as_slice(), Buffer::as_slice)
    }

    #[inline]
    pub(super) fn encoded(&self, record: Record) -> &[u8] {
        &self.chunk(record)[record.start as usize..(record.start + record.len) as usize]
    }

    #[inline]
    pub(super) fn key(&self, record: Record) -> &[u8] {
        let start = record.start as usize + record.key_start as usize;
        &self.chunk(record)[start..start + record.key_len as usize]
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
        self.sealed_bytes + self.open.len()
    }
}
