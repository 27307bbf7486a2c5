//! The record of an epoch's decision as an object: an envelope without a payload.

use holdfast_core::Result;

use super::envelope;
use crate::protocol::EpochDecision;

const MAGIC: [u8; 4] = *b"HFLD";

/// Encodes a decision.
///
/// # Errors
/// `Serialization` for a decision above 4 GiB.
pub fn encode_decision(decision: &EpochDecision) -> Result<Vec<u8>> {
    envelope::seal(MAGIC, decision, &[])
}

/// Decodes a decision. `name` is the object's, for messages.
///
/// # Errors
/// `Restore` for a damaged object, `FormatVersion` for another version's.
pub fn decode_decision(name: &str, bytes: &[u8]) -> Result<EpochDecision> {
    envelope::open(name, MAGIC, bytes).map(|(decision, _)| decision)
}
