//! Changelog offsets of the last commit and of the next one.

use super::database::Database;
use super::rows::offset_rows::{self, StoreOffsets};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, OffsetChange, TopicPartition};
use crate::transaction::Batch;

impl Database {
    /// The names of the stores whose offsets a commit moves. If the database has no stores, its
    /// offsets are stored under an empty name.
    fn owners(&self) -> Vec<&str> {
        if self.stores.entries.is_empty() {
            vec![""]
        } else {
            self.stores
                .entries
                .iter()
                .map(|entry| entry.spec.name.as_str())
                .collect()
        }
    }

    /// Returns the offset of a partition up to which all stores have data: the least of the stores'
    /// offsets. Returns `None` if there is none, or if a store has lost its data.
    ///
    /// # Errors
    /// `InvalidValue` for a topic with a NUL character in it.
    pub fn committed_offset(&self, tp: &TopicPartition) -> Result<Option<Offset>> {
        let mut found: Option<Option<Offset>> = None;
        for store in self.owners() {
            if let Some(offset) = self.read_offset(store, tp)? {
                found = Some(found.map_or(offset, |least| least.min(offset)));
            }
        }
        Ok(found.flatten())
    }

    /// Returns the offset of a partition up to which one store has data.
    ///
    /// # Errors
    /// As [`Self::committed_offset`]; `InvalidValue` for a store that the database was not opened
    /// with.
    pub fn store_offset(&self, store: &str, tp: &TopicPartition) -> Result<Option<Offset>> {
        self.entry(store)?;
        Ok(self.read_offset(store, tp)?.flatten())
    }

    fn read_offset(&self, store: &str, tp: &TopicPartition) -> Result<Option<Option<Offset>>> {
        self.rocks.check_owner()?;
        let base = self.base();
        let key = offset_rows::key(store, tp)?;
        let found = self
            .rocks
            .get(self.families.offsets, &key, base.files(), |value| {
                value.map(|value| offset_rows::parse(&key, value))
            })?;
        match found {
            None => Ok(None),
            Some(Some((_, offset))) => Ok(Some(offset)),
            Some(None) => {
                let words = "an offset in the database is damaged; restore the directory from the \
                             changelog";
                Err(Error::new(ErrorKind::StoreCorrupted, words)
                    .store(store)
                    .path(self.path()))
            }
        }
    }

    /// Returns all offsets of the last commit, each as [`Self::committed_offset`] returns it.
    pub fn committed_offsets(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        self.rocks.check_owner()?;
        let base = self.base();
        let mut least = StoreOffsets::new();
        for store in self.owners() {
            for (tp, offset) in offset_rows::read(base.files(), self.families.offsets, store)? {
                let known = least.entry(tp).or_insert(offset);
                *known = offset.min(*known);
            }
        }
        Ok(least
            .into_iter()
            .filter_map(|(tp, offset)| Some((tp, offset?)))
            .collect())
    }

    /// Adds the offsets of a commit to a batch: for all stores or, in a restore, for the restored
    /// store.
    ///
    /// A restore also raises lower offsets of other stores: the caller gives offsets only when all
    /// stores have the records up to them. A store that has lost its data stays lost. A store with
    /// which the database was not opened lacks the records that a commit reads from a partition
    /// that is new to the store: it gets an offset of lost data, as a new store does.
    pub(super) fn push_offsets(
        &self,
        change: &OffsetChange,
        restored: Option<&str>,
        batch: &mut Batch,
    ) -> Result<()> {
        let owners = self.owners();
        match change {
            OffsetChange::Keep => {}
            OffsetChange::Forget => {
                let base = self.base();
                for store in owners {
                    for tp in offset_rows::read(base.files(), self.families.offsets, store)?.keys()
                    {
                        batch.push(
                            self.families.offsets.id,
                            &offset_rows::key(store, tp)?,
                            None,
                        );
                    }
                }
            }
            OffsetChange::Set(offsets) => {
                let absent = self.stores.absent.iter().filter(|_| restored.is_none());
                for store in absent {
                    for (tp, _) in offsets.iter().filter(|(_, offset)| offset.is_some()) {
                        if self.read_offset(store, tp)?.is_none() {
                            let key = offset_rows::key(store, tp)?;
                            batch.push(self.families.offsets.id, &key, Some(&[]));
                        }
                    }
                }
                for (store, (tp, offset)) in owners
                    .into_iter()
                    .flat_map(|store| offsets.iter().map(move |offset| (store, offset)))
                {
                    let moves = match restored {
                        Some(restored) if restored != store => {
                            matches!(self.read_offset(store, tp)?,
                                Some(Some(known)) if Some(known) < *offset)
                        }
                        _ => true,
                    };
                    if moves {
                        let value = offset.map(|offset| offset.0.to_be_bytes());
                        batch.push(
                            self.families.offsets.id,
                            &offset_rows::key(store, tp)?,
                            value.as_ref().map(|v| v.as_slice()),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
