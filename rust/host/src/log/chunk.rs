//! Chunks: records that do not fit into the head.

use holdfast_core::Result;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::{envelope, payload};

const MAGIC: [u8; 4] = *b"HFLC";

/// What a chunk says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkHeader {
    /// Its full name, which carries attempt and nonce: a chunk in another one's place is noticed.
    pub name: String,
}

/// A chunk as bytes.
///
/// # Errors
/// `Serialization` for a header above 4 GiB.
pub fn encode_chunk(header: &ChunkHeader, payload: &[u8]) -> Result<Vec<u8>> {
    envelope::seal(MAGIC, header, payload)
}

/// Reads the chunk of this name; `place` is where it lies, for errors.
///
/// # Errors
/// `Restore` for a damaged chunk or one of another name, `FormatVersion` for another version's.
pub fn decode_chunk(place: &str, name: &str, bytes: &[u8]) -> Result<Records> {
    let (header, rest): (ChunkHeader, _) = envelope::open(place, MAGIC, bytes)?;
    if header.name != name {
        return Err(envelope::damaged(
            place,
            &format!("it is chunk {} under another name", header.name),
        ));
    }
    payload::read(place, rest)
}
