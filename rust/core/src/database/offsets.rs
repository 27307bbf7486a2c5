//! Changelog offsets: kept by store, since a store can lose its data while its neighbours keep
//! theirs (`stores.md` section 2).
//!
//! ```text
//! offsets   store | 00 | topic | 00 | partition i32 big-endian → i64 big-endian, or nothing (lost)
//! ```
//!
//! A store without a row for a partition has nothing to do with it (each store may have a changelog
//! of its own). One that begins empty where others are, opened along with it or not, since it is
//! new or in memory, has lost what these stand at.

use super::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, OffsetChange, TopicPartition};
use crate::rocks::{Cursor, Family, Snapshot};
use crate::table::{Bounds, FamilyKind};
use crate::transaction::Batch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By partition; without an offset where the store has lost its data.
type Offsets = BTreeMap<TopicPartition, Option<Offset>>;

pub(super) fn key(store: &str, tp: &TopicPartition) -> Result<Vec<u8>> {
    tp.check()?;
    Ok([
        store.as_bytes(),
        &[0],
        tp.topic.as_bytes(),
        &[0],
        &tp.partition.to_be_bytes(),
    ]
    .concat())
}

pub(super) fn parse(key: &[u8], value: &[u8]) -> Option<(TopicPartition, Option<Offset>)> {
    let (head, partition) = key.split_last_chunk::<4>()?;
    let mut names = std::str::from_utf8(head).ok()?.split('\0');
    let topic = match (names.next(), names.next(), names.next(), names.next()) {
        (Some(_), Some(topic), Some(""), None) => topic.to_owned(),
        _ => return None,
    };
    let offset = if value.is_empty() {
        None
    } else {
        Some(Offset(i64::from_be_bytes(value.try_into().ok()?)))
    };
    Some((
        TopicPartition {
            topic,
            partition: i32::from_be_bytes(*partition),
        },
        offset,
    ))
}

/// All offsets of one store as of a snapshot.
fn read(snapshot: &Arc<Snapshot>, family: Family, store: &str) -> Result<Offsets> {
    let bounds = Bounds {
        lower: Some([store.as_bytes(), &[0]].concat()),
        upper: Some([store.as_bytes(), &[1]].concat()),
        within_key: false,
    };
    read_within(snapshot, family, &bounds).map_err(|e| e.store(store))
}

/// Offsets of the rows in a range; of several stores some store's.
fn read_within(snapshot: &Arc<Snapshot>, family: Family, bounds: &Bounds) -> Result<Offsets> {
    let cursor = Cursor::new(snapshot, family, FamilyKind::Offsets, bounds)?;
    let mut offsets = Some(Offsets::new());
    cursor.with(|rows| {
        rows.seek_to_first();
        while let (Some((key, value)), Some(known)) = (rows.item(), offsets.as_mut()) {
            match parse(key, value) {
                Some((tp, offset)) => drop(known.insert(tp, offset)),
                None => offsets = None,
            }
            rows.next();
        }
    })?;
    offsets.ok_or_else(|| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "an offset in the database is damaged; restore the directory from the changelog",
        )
        .path(snapshot.rocks().path())
    })
}

/// Adds to a batch that a store has lost its data.
pub(super) fn push_lost(
    snapshot: &Arc<Snapshot>,
    family: Family,
    store: &str,
    batch: &mut Batch,
) -> Result<()> {
    for tp in read(snapshot, family, store)?.keys() {
        batch.push(family.id, &key(store, tp)?, Some(&[]));
    }
    Ok(())
}

/// Adds to a batch that a store which begins empty has nothing of what the others stand at; whether
/// it stands anywhere itself.
pub(super) fn push_begun(
    snapshot: &Arc<Snapshot>,
    family: Family,
    store: &str,
    batch: &mut Batch,
) -> Result<bool> {
    let own = read(snapshot, family, store)?;
    for tp in read_within(snapshot, family, &Bounds::default())?
        .keys()
        .filter(|tp| !own.contains_key(tp))
    {
        batch.push(family.id, &key(store, tp)?, Some(&[]));
    }
    Ok(own.values().any(Option::is_some))
}

impl Database {
    /// The stores whose offsets a commit of the database moves; a database without stores keeps its
    /// own, under no name.
    fn owners(&self) -> Vec<&str> {
        if self.stores.is_empty() {
            vec![""]
        } else {
            self.stores
                .iter()
                .map(|entry| entry.spec.name.as_str())
                .collect()
        }
    }

    /// The offset that all stores of the database stand at; of several the least, and nothing if a
    /// store lost its data.
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

    /// The offset that one store stands at.
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
        let base = Arc::clone(&self.committed.read().base);
        let key = key(store, tp)?;
        let found = self.rocks.get(self.offsets, &key, base.files(), |value| {
            value.map(|value| parse(&key, value))
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

    /// All offsets of the last commit, as [`Self::committed_offset`] has them.
    pub fn committed_offsets(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        self.offsets_of(self.owners())
    }

    /// The same of the stores in files alone: what is in memory is gone when they are opened again.
    pub(super) fn offsets_in_files(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        let is_in_files = |store: &&str| {
            self.stores
                .iter()
                .all(|entry| entry.spec.persistent || entry.spec.name != *store)
        };
        self.offsets_of(self.owners().into_iter().filter(is_in_files).collect())
    }

    fn offsets_of(&self, stores: Vec<&str>) -> Result<Vec<(TopicPartition, Offset)>> {
        self.rocks.check_owner()?;
        let base = Arc::clone(&self.committed.read().base);
        let mut least = Offsets::new();
        for store in stores {
            for (tp, offset) in read(base.files(), self.offsets, store)? {
                let known = least.entry(tp).or_insert(offset);
                *known = offset.min(*known);
            }
        }
        Ok(least
            .into_iter()
            .filter_map(|(tp, offset)| Some((tp, offset?)))
            .collect())
    }

    /// Adds what a commit says of offsets: of all stores, or what a restore says of one. The latter
    /// takes the other stores along where they are behind, since what it read of the changelog was
    /// not theirs; a store that lost its data stays lost.
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
                let base = Arc::clone(&self.committed.read().base);
                for store in owners {
                    for tp in read(base.files(), self.offsets, store)?.keys() {
                        batch.push(self.offsets.id, &key(store, tp)?, None);
                    }
                }
            }
            OffsetChange::Set(offsets) => {
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
                            self.offsets.id,
                            &key(store, tp)?,
                            value.as_ref().map(|v| v.as_slice()),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_comes_back() {
        let tp = TopicPartition {
            topic: "rates".into(),
            partition: -7,
        };
        let key = key("s", &tp).expect("legal");
        assert_eq!(key, b"s\0rates\0\xff\xff\xff\xf9");
        assert_eq!(
            parse(&key, &5i64.to_be_bytes()),
            Some((tp.clone(), Some(Offset(5))))
        );
        assert_eq!(parse(&key, b""), Some((tp, None)));
        assert_eq!(parse(b"short", &5i64.to_be_bytes()), None);
        assert_eq!(parse(&key, b"short"), None);
    }
}
