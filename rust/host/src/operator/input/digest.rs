//! The digest of an epoch's input.

use super::batch::InputBatch;
use crate::protocol::Digest;

/// A digest of rows that does not depend on their order: the sum of their hashes, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputDigest {
    sum: u128,
    rows: u64,
}

impl InputDigest {
    /// Adds a batch.
    pub fn add(&mut self, input: &InputBatch) {
        input.hashes.iter().for_each(|hash| self.add_row(*hash));
    }

    /// Adds a row by its hash.
    pub fn add_row(&mut self, hash: u128) {
        self.sum = self.sum.wrapping_add(hash);
        self.rows += 1;
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.sum.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rows.to_be_bytes());
        Digest::of(&bytes)
    }
}
