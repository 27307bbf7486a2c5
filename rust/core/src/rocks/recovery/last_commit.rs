//! Finds the last commit of an open database, of one that cannot be opened, or of the files without
//! their log.

use super::commit_number;
use super::log_gap::NoReplay;
use crate::rocks::options::{RocksOptions, family_options, rocks_options};
use crate::table::{FamilyKind, FamilySpec};
use rust_rocksdb::{ColumnFamilyDescriptor, DB, DBRecoveryMode, Error, IteratorMode, Options};
use std::fmt;
use std::path::Path;

/// A commit in an error message: its number and its changelog offsets.
pub(in crate::rocks) struct LastCommit {
    pub(in crate::rocks) number: u64,
    offsets: Vec<String>,
}

impl fmt::Display for LastCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at offsets {:?}", self.number, self.offsets)
    }
}

/// The number of an open database's last commit; 0 before the first.
pub(in crate::rocks) fn number(db: &DB) -> Result<u64, Error> {
    let metadata = FamilySpec::new(FamilyKind::Metadata, "").name();
    let in_metadata = db
        .cf_handle(&metadata)
        .map(|family| db.get_cf(&family, commit_number::KEY))
        .transpose()?
        .flatten();
    Ok(commit_number::parse(in_metadata.as_deref()))
}

/// The last commit in the files, without a replay of the log; `None` if they cannot be read.
pub(in crate::rocks) fn in_files(path: &Path, options: &RocksOptions) -> Option<LastCommit> {
    find(path, options, |db_options| {
        db_options.set_wal_filter(NoReplay)
    })
}

/// The last commit before the damage in a log; `None` if the damage is in another file.
pub(in crate::rocks) fn before_damage(path: &Path, options: &RocksOptions) -> Option<LastCommit> {
    find(path, options, |db_options| {
        db_options.set_wal_recovery_mode(DBRecoveryMode::PointInTime)
    })
}

fn find(path: &Path, options: &RocksOptions, log: impl FnOnce(&mut Options)) -> Option<LastCommit> {
    let mut db_options = rocks_options(options).ok()?;
    log(&mut db_options);
    read(&open_read_only(path, &db_options, options)?).ok()
}

/// Reads an open database's last commit.
pub(in crate::rocks) fn read(db: &DB) -> Result<LastCommit, Error> {
    let number = number(db)?;
    let mut offsets = Vec::new();
    if let Some(family) = db.cf_handle(&FamilySpec::new(FamilyKind::Offsets, "").name()) {
        for row in db.iterator_cf(&family, IteratorMode::Start) {
            let (key, value) = row?;
            // See `database/rows/offset_rows.rs`: store | 00 | topic | 00 | partition → offset.
            if let (Some((names, partition)), Ok(offset)) =
                (key.split_last_chunk::<4>(), <[u8; 8]>::try_from(&*value))
            {
                let names = String::from_utf8_lossy(names.strip_suffix(&[0]).unwrap_or(names))
                    .replace('\0', ": ");
                offsets.push(format!(
                    "{names}-{} {}",
                    i32::from_be_bytes(*partition),
                    i64::from_be_bytes(offset)
                ));
            }
        }
    }
    Ok(LastCommit { number, offsets })
}

/// Opens a database with all families that its files have. Changes no file.
pub(super) fn open_read_only(
    path: &Path,
    db_options: &Options,
    options: &RocksOptions,
) -> Option<DB> {
    let families: Option<Vec<_>> = DB::list_cf(db_options, path)
        .ok()?
        .into_iter()
        .map(|name| {
            let family = match FamilySpec::parse(&name) {
                Some(spec) => family_options(&spec, options).ok()?,
                None => Options::default(),
            };
            Some(ColumnFamilyDescriptor::new(name, family))
        })
        .collect();
    DB::open_cf_descriptors_read_only(db_options, path, families?, false).ok()
}
