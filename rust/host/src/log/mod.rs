//! The log object: what one task staged for one epoch, as bytes.
//!
//! ```text
//! magic "HFLG" | u16 version | u32 length | header, JSON | Arrow IPC stream, lz4 | xxh3-128
//! ```
//!
//! Numbers are little-endian; the checksum (16 bytes, big-endian) is over everything before it. The
//! payload has the columns `store` (dictionary of utf8), `key` (binary), `value` (binary, null for
//! a deletion), `timestamp` (int64 microseconds, null for a plain store). Records beyond 16 MiB lie
//! in chunks, objects of the same format with the magic "HFLC", which the head names; the head
//! holds the rest. Records are logical, so the log outlives the database's layout, and their order
//! does not matter to a replay.

mod chunk;
mod envelope;
mod head;
mod payload;
mod records;
mod writer;

pub use chunk::{ChunkHeader, decode_chunk, encode_chunk};
pub use head::{HeadHeader, decode_head, decode_header, decode_payload, encode_head};
pub use records::{Record, Records};
pub use writer::{CHUNK_BYTES, Collected, RecordsWriter};
