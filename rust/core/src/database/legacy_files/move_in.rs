//! Opens a database that an older layout has written.

use super::files::{CHECKPOINT, LegacyFiles};
use super::text_file::{self, Offsets};
use crate::database::rows::keys::{self, FORMAT_KEY};
use crate::database::rows::offset_rows;
use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::offset::{Offset, TopicPartition};
use crate::position::Position;
use crate::rocks::{Cursor, Family, OLDER_LAYOUT_PREFIX, RocksDb, Snapshot, older_layout_key};
use crate::store::StoreSpec;
use crate::store::key_range::with_prefix;
use crate::table::{Bounds, FamilyKind};
use crate::transaction::Batch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows by key.
type RowsByKey = BTreeMap<Vec<u8>, Vec<u8>>;

/// Moves the rows of text files and of the `default` family into the database's own families. On
/// return they are on disk, and the files are deleted.
///
/// # Errors
/// `StoreCorrupted` for a malformed file; nothing has changed then.
pub(in crate::database) fn move_in(
    rocks: &Arc<RocksDb>,
    metadata: Family,
    offsets: Family,
    stores: &[StoreSpec],
) -> Result<()> {
    let files = LegacyFiles::read(rocks.path(), stores)?;
    let snapshot = rocks.snapshot()?;
    let default = rocks.default_family()?;
    let saved = rows_by_key(&snapshot, default, &with_prefix(OLDER_LAYOUT_PREFIX, None))?;
    if files.paths.is_empty() && saved.is_empty() {
        return Ok(());
    }
    Failpoint::BeforeMoveIn.pass()?;
    let mut batch = Batch::with_capacity(1024);
    for key in saved.keys() {
        batch.push(default.id, key, None);
    }
    // An interrupted close leaves the saved rows and the metadata rows; the saved rows may then be
    // old.
    let is_back = !saved.is_empty()
        && rocks.get(metadata, FORMAT_KEY, &snapshot, |format| format.is_none())?;
    let owners = if stores.is_empty() {
        vec![""]
    } else {
        stores.iter().map(|spec| spec.name.as_str()).collect()
    };
    let changes;
    if is_back {
        for (key, value) in of_family(&saved, "metadata") {
            batch.push(metadata.id, key, Some(value));
        }
        let written = match saved.get(&older_layout_key("file", CHECKPOINT.as_bytes())) {
            Some(text) => text_file::parse(&String::from_utf8_lossy(text))?,
            None => Offsets::new(),
        };
        changes = differences(&written, &files.checkpoint);
        for (key, value) in of_family(&saved, "offsets") {
            if !offset_rows::parse(key, value).is_some_and(|(tp, _)| changes.contains_key(&tp)) {
                batch.push(offsets.id, key, Some(value));
            }
        }
    } else {
        let mut new = files.checkpoint.clone();
        for (key, value) in &rows_by_key(&snapshot, offsets, &Bounds::default())? {
            if let Some((tp, _)) = offset_rows::parse(key, value) {
                new.remove(&tp);
            }
        }
        changes = differences(&Offsets::new(), &new);
    }
    for (tp, offset) in &changes {
        for store in &owners {
            let value = offset.map(|offset| offset.0.to_be_bytes());
            batch.push(
                offsets.id,
                &offset_rows::key(store, tp)?,
                value.as_ref().map(|v| v.as_slice()),
            );
        }
    }
    for (tp, offset) in files.positions.offsets() {
        let key = keys::position_key(tp)?;
        let known = match of_family(&saved, "metadata")
            .find(|(saved_key, _)| is_back && **saved_key == key)
        {
            Some((key, value)) => Some(keys::parse_position(key, value)?.1),
            None => rocks
                .get(metadata, &key, &snapshot, |row| {
                    row.map(|row| keys::parse_position(&key, row))
                })?
                .transpose()?
                .map(|p| p.1),
        };
        if known.is_none_or(|known| is_back && known < offset) {
            batch.push(metadata.id, &key, Some(&offset.0.to_be_bytes()));
        }
    }
    rocks.write(&mut batch)?;
    rocks.flush(true)?;
    Failpoint::AfterMoveIn.pass()?;
    files
        .paths
        .iter()
        .try_for_each(|path| text_file::remove_offsets(path))
}

/// Fails for a topic of an offset or position that the text files cannot hold, so that the open
/// fails and not the close.
///
/// # Errors
/// `InvalidValue` for a topic with white space in it.
pub(in crate::database) fn check_topics(
    snapshot: &Arc<Snapshot>,
    offsets: Family,
    position: &Position,
) -> Result<()> {
    let stored = rows_by_key(snapshot, offsets, &Bounds::default())?;
    let committed = stored
        .iter()
        .filter_map(|(key, value)| offset_rows::parse(key, value))
        .map(|(tp, _)| tp);
    committed
        .chain(position.offsets().map(|(tp, _)| tp.clone()))
        .try_for_each(|tp| text_file::check_topic(&tp.topic))
}

fn rows_by_key(snapshot: &Arc<Snapshot>, family: Family, bounds: &Bounds) -> Result<RowsByKey> {
    let cursor = Cursor::new(snapshot, family, FamilyKind::Metadata, bounds)?;
    let mut found = RowsByKey::new();
    cursor.with(|rows| {
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            found.insert(key.to_vec(), value.to_vec());
            rows.next();
        }
    })?;
    Ok(found)
}

/// The rows of one family among the saved ones.
fn of_family<'a>(saved: &'a RowsByKey, family: &str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let prefix = older_layout_key(family, b"");
    saved.iter().filter_map(move |(key, value)| {
        Some((key.strip_prefix(prefix.as_slice())?, value.as_slice()))
    })
}

/// The entries in which two files differ, as the second has them.
fn differences(before: &Offsets, now: &Offsets) -> BTreeMap<TopicPartition, Option<Offset>> {
    let both = before.keys().chain(now.keys());
    both.filter(|tp| before.get(tp) != now.get(tp))
        .map(|tp| (tp.clone(), now.get(tp).copied()))
        .collect()
}
