//! Staged epochs in memory.

use holdfast_core::Transaction;

use super::dropped_changes::DroppedChanges;
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
    /// The bytes of their keys and values in the log.
    pub bytes: u64,
    /// The memory of the changes.
    pub memory: Share,
}

/// The prepared epochs of a partition. Dropped ones are handed to the caller, except by `clear`.
#[derive(Default)]
pub struct PreparedEpochs(Vec<PreparedEpoch>);

impl PreparedEpochs {
    /// Adds an epoch unless an equal one is there, and drops older epochs.
    pub fn add(&mut self, prepared: PreparedEpoch, dropped: &mut DroppedChanges) {
        let older = self.0.extract_if(.., |other| other.epoch < prepared.epoch);
        older.for_each(|older| dropped.add(older));
        let known = self.0.iter().any(|other| {
            (other.epoch, other.base, other.digest)
                == (prepared.epoch, prepared.base, prepared.digest)
        });
        if known {
            dropped.add(prepared);
        } else {
            self.0.push(prepared);
        }
    }

    /// Returns whether an epoch that `run` prepared is here. If not, the run may still have staged
    /// it.
    pub fn has_of_run(&self, epoch: Epoch, run: RunNumber) -> bool {
        self.0
            .iter()
            .any(|prepared| (prepared.epoch, prepared.run) == (epoch, run))
    }

    /// Takes the prepared epoch with this base and digest. Drops all others with this number or an
    /// older one.
    pub fn take(
        &mut self,
        epoch: Epoch,
        (base, digest): (Digest, Digest),
        dropped: &mut DroppedChanges,
    ) -> Option<PreparedEpoch> {
        let mut chosen = None;
        for prepared in std::mem::take(&mut self.0) {
            if (prepared.epoch, prepared.base, prepared.digest) == (epoch, base, digest) {
                chosen = Some(prepared);
            } else if prepared.epoch > epoch {
                self.0.push(prepared);
            } else {
                dropped.add(prepared);
            }
        }
        chosen
    }

    /// Drops this epoch and older ones.
    pub fn drop_through(&mut self, epoch: Epoch, dropped: &mut DroppedChanges) {
        let older = self.0.extract_if(.., |prepared| prepared.epoch <= epoch);
        older.for_each(|older| dropped.add(older));
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory of their changes, in bytes.
    pub fn bytes(&self) -> u64 {
        let sizes = self.0.iter();
        sizes
            .map(|prepared| prepared.transaction.uncommitted_bytes() as u64)
            .sum()
    }

    /// Drops all epochs, and deletes their changes at once.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Database, DatabaseOptions};

    use super::*;
    use crate::memory::budget::Budget;

    #[test]
    fn caller_deletes_what_is_dropped() {
        let db = Database::open_in_memory(&[], DatabaseOptions::default()).expect("opens");
        let budget = Budget::new(usize::MAX);
        let prepared = |epoch, text: &[u8]| {
            let mut memory = budget.share();
            memory.set(1);
            PreparedEpoch {
                epoch: Epoch(epoch),
                run: RunNumber(1),
                base: Digest::ZERO,
                digest: Digest::of(text),
                transaction: db.begin().expect("begins"),
                bytes: 1,
                memory,
            }
        };
        let (mut epochs, mut dropped) = (PreparedEpochs::default(), DroppedChanges::default());
        let check = |held, dropped: &mut DroppedChanges| {
            assert_eq!(budget.held(), held, "nothing is deleted yet");
            drop(std::mem::take(dropped));
            budget.held()
        };
        // An older epoch, and the same one twice.
        for (epoch, text) in [(0, b"a"), (1, b"b"), (1, b"b"), (1, b"c")] {
            epochs.add(prepared(epoch, text), &mut dropped);
        }
        assert_eq!(check(4, &mut dropped), 2);
        let digests = (Digest::ZERO, Digest::of(b"b"));
        let taken = epochs.take(Epoch(1), digests, &mut dropped);
        assert_eq!(check(2, &mut dropped), 1);
        drop(taken);
        epochs.add(prepared(2, b"d"), &mut dropped);
        epochs.drop_through(Epoch(2), &mut dropped);
        assert_eq!(check(1, &mut dropped), 0);
    }
}
