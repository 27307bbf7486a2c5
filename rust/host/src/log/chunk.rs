//! Chunks: records that do not fit into the head.

use holdfast_core::Result;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::{envelope, payload};

const MAGIC: [u8; 4] = *b"HFLC";

/// The header of a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkHeader {
    /// The chunk's full name, by which a chunk under a wrong name is detected.
    pub name: String,
}

/// Encodes a chunk.
///
/// # Errors
/// `Serialization` for a header above 4 GiB.
pub fn encode_chunk(header: &ChunkHeader, payload: &[u8]) -> Result<Vec<u8>> {
    envelope::seal(MAGIC, header, payload)
}

/// Decodes the chunk of this name; `place` is its path, for errors.
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
