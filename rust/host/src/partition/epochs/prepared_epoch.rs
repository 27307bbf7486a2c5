//! Staged epochs in memory.

use holdfast_core::Transaction;

use crate::memory::budget::Share;
use crate::protocol::{Digest, Epoch, RunNumber};

/// A staged epoch in memory, ready to be committed without reading the log. It may be dropped at
/// any time.
pub struct PreparedEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// The run whose object in the log has the same changes.
    pub run: RunNumber,
    /// The digest of the chain before the epoch.
    pub base: Digest,
    /// The epoch's own digest.
    pub digest: Digest,
    /// The epoch's changes.
    pub transaction: Transaction,
    /// The memory of the changes.
    pub memory: Share,
}

/// The prepared epochs of a partition.
#[derive(Default)]
pub struct PreparedEpochs(Vec<PreparedEpoch>);

impl PreparedEpochs {
    /// Adds an epoch unless an equal one is there, and drops older epochs.
    pub fn add(&mut self, prepared: PreparedEpoch) {
        self.0.retain(|other| other.epoch >= prepared.epoch);
        let known = self.0.iter().any(|other| {
            (other.epoch, other.base, other.digest)
                == (prepared.epoch, prepared.base, prepared.digest)
        });
        if !known {
            self.0.push(prepared);
        }
    }

    /// Whether `run` has staged this epoch here.
    pub fn has_of_run(&self, epoch: Epoch, run: RunNumber) -> bool {
        self.0
            .iter()
            .any(|prepared| (prepared.epoch, prepared.run) == (epoch, run))
    }

    /// Takes the prepared epoch with this base and digest. Drops all others with this number or an
    /// older one.
    pub fn take(&mut self, epoch: Epoch, base: Digest, digest: Digest) -> Option<PreparedEpoch> {
        let mut chosen = None;
        for prepared in std::mem::take(&mut self.0) {
            if (prepared.epoch, prepared.base, prepared.digest) == (epoch, base, digest) {
                chosen = Some(prepared);
            } else if prepared.epoch > epoch {
                self.0.push(prepared);
            }
        }
        chosen
    }

    /// Drops this epoch and older ones.
    pub fn drop_through(&mut self, epoch: Epoch) {
        self.0.retain(|prepared| prepared.epoch > epoch);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The size of their changes, in bytes.
    pub fn bytes(&self) -> u64 {
        let sizes = self.0.iter();
        sizes
            .map(|prepared| prepared.transaction.uncommitted_bytes() as u64)
            .sum()
    }

    /// Drops all epochs.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
