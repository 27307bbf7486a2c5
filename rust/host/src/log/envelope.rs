//! The envelope of a header and a payload: magic, version, length, header, payload, and a checksum
//! after each of the two.

use holdfast_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// The version that this code writes, and the only one that it reads.
const VERSION: u16 = 2;
const FIXED: usize = 4 + 2 + 4;
const CHECKSUM: usize = 16;

/// Encodes header and payload.
///
/// # Errors
/// `Serialization` for a header that cannot be written as JSON or is above 4 GiB.
pub fn seal(magic: [u8; 4], header: &impl Serialize, payload: &[u8]) -> Result<Vec<u8>> {
    let cannot = |error: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Serialization,
            format!("log object header: {error}"),
        )
    };
    let json = serde_json::to_vec(header).map_err(|error| cannot(&error))?;
    let length = u32::try_from(json.len()).map_err(|error| cannot(&error))?;
    let mut bytes = Vec::with_capacity(FIXED + json.len() + payload.len() + 2 * CHECKSUM);
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&json);
    let mut hasher = Xxh3Default::new();
    hasher.update(&bytes);
    bytes.extend_from_slice(&hasher.digest128().to_be_bytes());
    hasher.update(&bytes[bytes.len() - CHECKSUM..]);
    hasher.update(payload);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&hasher.digest128().to_be_bytes());
    Ok(bytes)
}

/// Decodes header and payload. `name` is the object's, for messages.
///
/// # Errors
/// `FormatVersion` for an undamaged object of another version, `Restore` for anything else that
/// [`seal`] did not write.
pub fn open<'a, H: DeserializeOwned>(
    name: &str,
    magic: [u8; 4],
    bytes: &'a [u8],
) -> Result<(H, &'a [u8])> {
    let Some(end) = bytes
        .len()
        .checked_sub(CHECKSUM)
        .filter(|end| *end >= FIXED)
    else {
        return Err(too_short(name, bytes.len()));
    };
    let (body, checksum) = bytes.split_at(end);
    if xxh3_128(body).to_be_bytes() != checksum {
        return Err(damaged(
            name,
            "its checksum differs: it was cut or changed after it was written",
        ));
    }
    match open_prefix(name, magic, body)? {
        Some((header, length)) => Ok((header, &body[length..])),
        None => Err(damaged(name, "its header is longer than the object")),
    }
}

/// Decodes and verifies the header in the first bytes of an object. Also returns how many bytes are
/// before the payload. None if the bytes lack a part of the header or of its checksum.
///
/// # Errors
/// `FormatVersion` for another version, which is read before the header's checksum is verified;
/// `Restore` for fewer than 10 bytes, and for anything else that [`seal`] did not write.
pub fn open_prefix<H: DeserializeOwned>(
    name: &str,
    magic: [u8; 4],
    prefix: &[u8],
) -> Result<Option<(H, usize)>> {
    if prefix.len() < FIXED {
        return Err(too_short(name, prefix.len()));
    }
    if prefix[..4] != magic {
        return Err(damaged(name, "it is not an object of this kind"));
    }
    let version = u16::from_le_bytes([prefix[4], prefix[5]]);
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::FormatVersion,
            format!(
                "log object {name} has format version {version}, this version of Holdfast reads \
                 {VERSION}: use the version of Holdfast that wrote it"
            ),
        ));
    }
    let length = u32::from_le_bytes([prefix[6], prefix[7], prefix[8], prefix[9]]) as usize;
    let needed = FIXED + length + CHECKSUM;
    if prefix.len() < needed {
        return Ok(None);
    }
    let (sealed, checksum) = prefix[..needed].split_at(FIXED + length);
    if xxh3_128(sealed).to_be_bytes() != checksum {
        return Err(damaged(
            name,
            "its header's checksum differs: it was changed after it was written",
        ));
    }
    let header = serde_json::from_slice(&sealed[FIXED..])
        .map_err(|error| damaged(name, &format!("its header cannot be read ({error})")))?;
    Ok(Some((header, needed)))
}

fn too_short(name: &str, bytes: usize) -> Error {
    damaged(
        name,
        &format!("it has {bytes} bytes, too few for any object"),
    )
}

/// Returns the error for an object that cannot be used, with advice.
pub fn damaged(name: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Restore,
        format!(
            "log object {name} is damaged: {why}. Nothing of it was applied. Restore the file \
             from a backup of the root; if Spark has not committed its epoch yet, stop the query \
             and remove the epoch's objects with {}, then the next run computes them again",
            drop_command(name)
        ),
    )
}

/// Returns the command that removes an object's epoch from the log; root and epoch come from its
/// path, `<root>/log/<epoch>/<object>`.
fn drop_command(place: &str) -> String {
    let parts = place
        .rsplit_once("/log/")
        .and_then(|(root, rest)| Some((root, rest.split_once('/')?.0.parse::<i64>().ok()?)));
    let (root, epoch) = parts.map_or(("ROOT", "EPOCH".to_owned()), |(root, epoch)| {
        (root, epoch.to_string())
    });
    format!("`holdfast epoch drop {root} {epoch}`")
}
