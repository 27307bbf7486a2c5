//! Rows of the `offsets` family: changelog offsets by store, since one store can lose its data
//! while the others retain theirs (`docs/design/stores.md`).
//!
//! ```text
//! offsets   store | 00 | topic | 00 | partition i32 big-endian → i64 big-endian, or nothing (lost)
//! ```
//!
//! A store without a row for a partition does not depend on that partition: each store may have its
//! own changelog. A new store begins empty, and so does a store in memory. Such a store has lost
//! the data up to the offsets of all other stores of the database, including those that this open
//! does not name.

use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};
use crate::rocks::{Cursor, Family, Snapshot};
use crate::table::{Bounds, FamilyKind};
use crate::transaction::Batch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Offsets of one store by partition; `None` if the store has lost its data.
pub(in crate::database) type StoreOffsets = BTreeMap<TopicPartition, Option<Offset>>;

pub(in crate::database) fn key(store: &str, tp: &TopicPartition) -> Result<Vec<u8>> {
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

pub(in crate::database) fn parse(
    key: &[u8],
    value: &[u8],
) -> Option<(TopicPartition, Option<Offset>)> {
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

/// Reads all offsets of one store as of a snapshot.
pub(in crate::database) fn read(
    snapshot: &Arc<Snapshot>,
    family: Family,
    store: &str,
) -> Result<StoreOffsets> {
    let bounds = Bounds {
        lower: Some([store.as_bytes(), &[0]].concat()),
        upper: Some([store.as_bytes(), &[1]].concat()),
        within_key: false,
    };
    read_within(snapshot, family, &bounds).map_err(|e| e.store(store))
}

/// Reads the offsets in a range of rows. If the range spans several stores, the last store's offset
/// of a partition remains.
fn read_within(snapshot: &Arc<Snapshot>, family: Family, bounds: &Bounds) -> Result<StoreOffsets> {
    let cursor = Cursor::new(snapshot, family, FamilyKind::Offsets, bounds)?;
    let mut offsets = Some(StoreOffsets::new());
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

/// Marks in a batch that a store has lost its data.
pub(in crate::database) fn push_lost(
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

/// Marks in a batch that a new, empty store lacks the data up to the offsets of the other stores.
/// Returns whether the store has an offset already.
pub(in crate::database) fn push_begun(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_row_round_trips() {
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
