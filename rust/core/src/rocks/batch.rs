//! RocksDB's write batch format: a header, then records. Staged records are stored in it, so that a
//! commit copies their bytes and does not encode them (`docs/design/layout.md`).
//!
//! ```text
//! header: sequence u64 (0) | count u32            little-endian
//! put:    0x05 | family varint | key length varint | key | value length varint | value
//! delete: 0x04 | family varint | key length varint | key
//! range:  0x0e | family varint | first key length varint | first key | end length varint
//!         | end (exclusive)
//! ```

/// Bytes of the header.
const HEADER: usize = 12;
pub(crate) const DELETE: u8 = 0x04;
const PUT: u8 = 0x05;
const DELETE_RANGE: u8 = 0x0e;

/// The most bytes of a number.
const VARINT: usize = 5;

/// Writes a number at `at`, and returns where it ends.
#[inline]
fn put_varint(out: &mut [u8], mut at: usize, mut n: u32) -> usize {
    while n >= 0x80 {
        out[at] = (n as u8) | 0x80;
        n >>= 7;
        at += 1;
    }
    out[at] = n as u8;
    at + 1
}

/// Appends the first `len` bytes of an array. A copy of the whole array is a few instructions,
/// while a copy of `len` bytes is a call.
#[inline]
fn push_first<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N], len: usize) {
    let start = out.len();
    out.extend_from_slice(&bytes);
    out.truncate(start + len);
}

#[inline]
fn push_varint(out: &mut Vec<u8>, n: u32) {
    let mut bytes = [0; VARINT];
    let len = put_varint(&mut bytes, 0, n);
    push_first(out, bytes, len);
}

/// Returns the number at the start of `bytes` and its length in bytes.
pub(crate) fn read_varint(bytes: &[u8]) -> (u32, usize) {
    let mut n = 0u32;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        n |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (n, i + 1);
        }
    }
    (n, bytes.len().min(5))
}

/// Appends a put (or, for `None`, a delete); returns the offset of the key in the record.
#[inline]
pub(crate) fn push_record(
    out: &mut Vec<u8>,
    family: u32,
    key: &[&[u8]],
    value: Option<&[&[u8]]>,
) -> usize {
    let key_len = key.iter().map(|part| part.len()).sum::<usize>();
    let mut header = [0; 1 + 2 * VARINT];
    header[0] = if value.is_some() { PUT } else { DELETE };
    let key_len_start = put_varint(&mut header, 1, family);
    let key_start = put_varint(&mut header, key_len_start, key_len as u32);
    push_first(out, header, key_start);
    for part in key {
        out.extend_from_slice(part);
    }
    if let Some(value) = value {
        push_varint(
            out,
            value.iter().map(|part| part.len()).sum::<usize>() as u32,
        );
        for part in value {
            out.extend_from_slice(part);
        }
    }
    key_start
}

/// A write batch under construction.
pub struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    /// Returns an empty batch with room for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut batch = Vec::with_capacity(bytes + HEADER);
        batch.resize(HEADER, 0);
        Self {
            bytes: batch,
            count: 0,
        }
    }

    /// Makes room for this many more bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// Returns a batch of the bytes that [`Batch::finish`] returned.
    pub(crate) fn from_finished(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().max(HEADER), 0);
        let count = bytes[..HEADER]
            .last_chunk::<4>()
            .map_or(0, |count| u32::from_le_bytes(*count));
        Self { bytes, count }
    }

    /// Adds a put (or, for `None`, a delete).
    pub fn push(&mut self, family: u32, key: &[u8], value: Option<&[u8]>) {
        push_record(
            &mut self.bytes,
            family,
            &[key],
            value.as_ref().map(std::slice::from_ref),
        );
        self.count += 1;
    }

    /// Adds a put made from the put at offset `start` of the batch: the last `moved` bytes of its
    /// key are at the front of the value instead.
    pub(crate) fn push_from(&mut self, family: u32, start: usize, moved: usize) {
        debug_assert_eq!(self.bytes[start], PUT);
        let varint = |at: usize| {
            let (n, len) = read_varint(&self.bytes[at..]);
            (n as usize, at + len)
        };
        let (_, at) = varint(start + 1);
        let (key_len, key) = varint(at);
        let (value_len, value) = varint(key + key_len);
        let end = key + key_len - moved;
        self.bytes.push(PUT);
        push_varint(&mut self.bytes, family);
        push_varint(&mut self.bytes, (key_len - moved) as u32);
        self.bytes.extend_from_within(key..end);
        push_varint(&mut self.bytes, (moved + value_len) as u32);
        self.bytes.extend_from_within(end..end + moved);
        self.bytes.extend_from_within(value..value + value_len);
        self.count += 1;
    }

    /// Adds a delete of all keys from `from`, inclusive, to `to`, exclusive.
    pub(crate) fn push_delete_range(&mut self, family: u32, from: &[u8], to: &[u8]) {
        self.bytes.push(DELETE_RANGE);
        push_varint(&mut self.bytes, family);
        for key in [from, to] {
            push_varint(&mut self.bytes, key.len() as u32);
            self.bytes.extend_from_slice(key);
        }
        self.count += 1;
    }

    /// Adds a record that is already encoded.
    #[inline]
    pub(crate) fn push_encoded(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.count += 1;
    }

    /// Bytes of the batch so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of the finished batch.
    pub fn finish(&mut self) -> &[u8] {
        self.bytes[8..HEADER].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_round_trip() {
        for n in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            (1 << 21) - 1,
            1 << 21,
            (1 << 28) - 1,
            1 << 28,
            u32::MAX,
        ] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, n);
            assert_eq!(read_varint(&bytes), (n, bytes.len()));
        }
    }

    #[test]
    fn records_have_the_documented_bytes() {
        let mut out = vec![9];
        let key_start = push_record(&mut out, 300, &[b"ab", b"c"], Some(&[b"de", b"f"]));
        assert_eq!(out, b"\x09\x05\xac\x02\x03abc\x03def");
        assert_eq!(key_start, 4);
        out.clear();
        assert_eq!(push_record(&mut out, 1, &[], None), 3);
        assert_eq!(out, b"\x04\x01\x00");
    }

    /// An arena gives a record this room, and must not move it.
    #[test]
    fn record_takes_at_most_16_bytes_beside_key_and_value() {
        for family in [0, u32::MAX] {
            for len in [0, 1, 127, 128, 70_000] {
                let bytes = vec![7; len];
                let mut out = Vec::with_capacity(2 * len + 16);
                let room = out.capacity();
                push_record(&mut out, family, &[&bytes], Some(&[&bytes]));
                assert_eq!(out.capacity(), room, "{family} {len}");
            }
        }
    }

    #[test]
    fn finished_batch_takes_more_records() {
        let mut batch = Batch::with_capacity(0);
        batch.push(1, b"a", Some(b"b"));
        let mut again = Batch::from_finished(batch.finish().to_vec());
        for batch in [&mut batch, &mut again] {
            batch.push(300, b"c", None);
        }
        assert_eq!(batch.finish(), again.finish());
        assert!(Batch::from_finished(Vec::new()).is_empty());
    }

    #[test]
    fn put_made_from_another_put_has_its_bytes() {
        let long = vec![7; 20_000];
        for value in [&b""[..], b"value", &long] {
            for (key, time) in [
                (&b"key"[..], b"time"),
                (&b""[..], b"1234"),
                (&long, b"abcd"),
            ] {
                let put = |batch: &mut Batch, family, key: &[&[u8]], value: &[&[u8]]| {
                    batch.push(family, &key.concat(), Some(&value.concat()));
                };
                let (mut made, mut expected) = (Batch::with_capacity(0), Batch::with_capacity(0));
                for batch in [&mut made, &mut expected] {
                    put(batch, 1, &[b"first"], &[b"row"]);
                }
                let start = made.len();
                for batch in [&mut made, &mut expected] {
                    put(batch, 300, &[key, time], &[value]);
                }
                made.push_from(2, start, time.len());
                put(&mut expected, 2, &[key], &[time, value]);
                assert_eq!(made.finish(), expected.finish());
            }
        }
    }
}
