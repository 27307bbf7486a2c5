//! Databases of older layouts (`stores.md` section 7): offsets and positions that lie in text files
//! are moved in at open, and with [`DatabaseOptions::older_layout`](super::TaskOptions) they are
//! written back at close, and the database's own families go.
//!
//! What an older layout has no place for (format, stream times, serdes, offsets by store) waits in
//! the default family, so a round trip loses nothing. Where the files no longer say what was
//! written into them, they count: somebody has gone on from there.

use super::metadata::{self, FORMAT_KEY};
use super::text_file::{self, Offsets};
use super::{Committed, Database, offsets};
use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::offset::{Offset, TopicPartition};
use crate::position::Position;
use crate::rocks::{Bounds, Cursor, Family, FamilyKind, KEPT, RocksDb, Snapshot, kept_key};
use crate::store::StoreSpec;
use crate::store::key_range::with_prefix;
use crate::transaction::Batch;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHECKPOINT: &str = ".checkpoint";

fn position_file(store: &str) -> String {
    format!("{store}.position")
}

/// Rows by key.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The text files of a directory.
struct Files {
    checkpoint: Offsets,
    positions: Position,
    paths: Vec<PathBuf>,
}

impl Files {
    fn read(directory: &Path, stores: &[StoreSpec]) -> Result<Self> {
        let mut paths = Vec::new();
        let mut read = |name: String| {
            let path = directory.join(name);
            let offsets = text_file::read_offsets(&path)?;
            paths.extend(offsets.is_some().then_some(path));
            Ok(offsets.unwrap_or_default())
        };
        let checkpoint = read(CHECKPOINT.to_owned())?;
        let positions: Vec<Offsets> = stores
            .iter()
            .map(|spec| read(position_file(&spec.name)))
            .collect::<Result<_>>()?;
        Ok(Self {
            checkpoint,
            positions: positions.into_iter().flatten().collect(),
            paths,
        })
    }
}

/// Moves what text files and the default family hold into the database's own families; on disk when
/// it returns, and the files gone.
///
/// # Errors
/// `StoreCorrupted` for a malformed file, which stays where it is, as does everything else.
pub(super) fn move_in(
    rocks: &Arc<RocksDb>,
    metadata: Family,
    offsets: Family,
    stores: &[StoreSpec],
) -> Result<()> {
    let files = Files::read(rocks.path(), stores)?;
    let snapshot = rocks.snapshot()?;
    let default = rocks.default_family()?;
    let kept = rows(&snapshot, default, &with_prefix(KEPT, None))?;
    if files.paths.is_empty() && kept.is_empty() {
        return Ok(());
    }
    Failpoint::BeforeMoveIn.reached()?;
    let mut batch = Batch::with_capacity(1024);
    for key in kept.keys() {
        batch.push(default.id, key, None);
    }
    // A close that was interrupted leaves both, and what is kept may be old then.
    let is_back = !kept.is_empty()
        && rocks.get(metadata, FORMAT_KEY, &snapshot, |format| format.is_none())?;
    let owners = if stores.is_empty() {
        vec![""]
    } else {
        stores.iter().map(|spec| spec.name.as_str()).collect()
    };
    let changes;
    if is_back {
        for (key, value) in of_family(&kept, "metadata") {
            batch.push(metadata.id, key, Some(value));
        }
        let written = match kept.get(&kept_key("file", CHECKPOINT.as_bytes())) {
            Some(text) => text_file::parse(&String::from_utf8_lossy(text))?,
            None => Offsets::new(),
        };
        changes = differences(&written, &files.checkpoint);
        for (key, value) in of_family(&kept, "offsets") {
            if !offsets::parse(key, value).is_some_and(|(tp, _)| changes.contains_key(&tp)) {
                batch.push(offsets.id, key, Some(value));
            }
        }
    } else {
        let mut new = files.checkpoint.clone();
        for (key, value) in &rows(&snapshot, offsets, &Bounds::default())? {
            if let Some((tp, _)) = offsets::parse(key, value) {
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
                &offsets::key(store, tp)?,
                value.as_ref().map(|v| v.as_slice()),
            );
        }
    }
    for (tp, offset) in files.positions.offsets() {
        let key = metadata::position_key(tp)?;
        let known = match of_family(&kept, "metadata").find(|(kept, _)| is_back && **kept == key) {
            Some((key, value)) => Some(metadata::parse_position(key, value)?.1),
            None => rocks
                .get(metadata, &key, &snapshot, |row| {
                    row.map(|row| metadata::parse_position(&key, row))
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
    Failpoint::AfterMoveIn.reached()?;
    files
        .paths
        .iter()
        .try_for_each(|path| text_file::remove_offsets(path))
}

/// Fails if the files have no place for a topic that the database has an offset or a position of:
/// the open says it, not the close.
///
/// # Errors
/// `InvalidValue` for a topic with white space in it.
pub(super) fn check_topics(
    snapshot: &Arc<Snapshot>,
    offsets: Family,
    position: &Position,
) -> Result<()> {
    let stored = rows(snapshot, offsets, &Bounds::default())?;
    let committed = stored
        .iter()
        .filter_map(|(key, value)| offsets::parse(key, value))
        .map(|(tp, _)| tp);
    committed
        .chain(position.offsets().map(|(tp, _)| tp.clone()))
        .try_for_each(|tp| text_file::check_topic(&tp.topic))
}

fn rows(snapshot: &Arc<Snapshot>, family: Family, bounds: &Bounds) -> Result<Rows> {
    let cursor = Cursor::new(snapshot, family, FamilyKind::Metadata, bounds)?;
    let mut found = Rows::new();
    cursor.with(|rows| {
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            found.insert(key.to_vec(), value.to_vec());
            rows.next();
        }
    })?;
    Ok(found)
}

/// The rows of a family among those that were kept.
fn of_family<'a>(kept: &'a Rows, family: &str) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let prefix = kept_key(family, b"");
    kept.iter().filter_map(move |(key, value)| {
        Some((key.strip_prefix(prefix.as_slice())?, value.as_slice()))
    })
}

/// Where two files differ, what the second says.
fn differences(before: &Offsets, now: &Offsets) -> BTreeMap<TopicPartition, Option<Offset>> {
    let both = before.keys().chain(now.keys());
    both.filter(|tp| before.get(tp) != now.get(tp))
        .map(|tp| (tp.clone(), now.get(tp).copied()))
        .collect()
}

impl Database {
    /// Writes the text files, and keeps what they have no place for; the database's own families
    /// are to go next. A stop in between loses nothing: until the first family is gone they have
    /// all that the files say.
    pub(super) fn move_out(&self) -> Result<()> {
        Failpoint::BeforeMoveOut.reached()?;
        let checkpoint: Offsets = self.offsets_in_files()?.into_iter().collect();
        let Committed { base, .. } = self.committed.read().clone();
        let position: Offsets = base
            .position()
            .offsets()
            .map(|(tp, offset)| (tp.clone(), offset))
            .collect();
        let persistent = self.stores.iter().filter(|entry| entry.spec.persistent);
        let mut files = vec![(CHECKPOINT.to_owned(), checkpoint)];
        files.extend(persistent.map(|entry| (position_file(&entry.spec.name), position.clone())));
        // Kafka Streams, too, has no file for nothing.
        files.retain(|(_, offsets)| !offsets.is_empty());
        for (name, offsets) in &files {
            text_file::write_offsets(&self.path().join(name), offsets)?;
        }
        Failpoint::FilesMovedOut.reached()?;
        let texts: Vec<(String, String)> = files
            .into_iter()
            .map(|(name, offsets)| (name, text_file::text(&offsets)))
            .collect();
        self.rocks.keep_rows(&texts)
    }
}
