//! The format of log objects: what one task staged for one epoch.
//!
//! ```text
//! magic "HFLG" | u16 version | u32 length | header, JSON | xxh3-128
//!              | Arrow IPC stream, lz4 | xxh3-128
//! ```
//!
//! Numbers are little-endian. Each checksum (16 bytes, big-endian) covers everything before it, so
//! the header can be read without the payload. The payload has the columns `store` (dictionary of
//! utf8), `key` (binary), `value` (binary, null for a deletion), `timestamp` (int64 microseconds,
//! null for a key-value or session store).
//!
//! When the compressed records exceed 16 MiB, they are put as a chunk: an object of the same format
//! with the magic "HFLC". The head names all chunks and holds the records after the last one.
//! Records are logical, so the log does not depend on the database's layout, and a replay may apply
//! the records of different keys in any order.
//!
//! The decision of an epoch is an object of the same format with the magic "HFLD" and no payload.

mod chunk;
mod decision;
mod envelope;
mod head;
mod payload;
mod records;
mod writer;

pub use chunk::{ChunkHeader, decode_chunk, encode_chunk};
pub use decision::{decode_decision, encode_decision};
pub use head::{HeadHeader, decode_head, decode_header, decode_payload, encode_head};
pub use records::{Record, Records};
pub use writer::{CHUNK_BYTES, CollectedRecords, RecordsWriter};
