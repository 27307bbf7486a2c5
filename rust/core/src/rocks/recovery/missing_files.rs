//! Restores sorted files that the manifest names and RocksDB has removed.
//!
//! If the manifest's sync fails while sorted files are ingested, RocksDB removes its links to them
//! and reports that nothing has changed. But the manifest may still have the record, and then the
//! next open does not find the files. RocksDB offers no repair: `best_efforts_recovery` returns to
//! an earlier state of a family, which may be an earlier commit. A caller that still has the files
//! can put them back under their numbers.

use super::last_commit::open_read_only;
use super::log_gap::NoReplay;
use super::log_record;
use crate::error::Result;
use crate::rocks::failure::io_failure;
use crate::rocks::options::{RocksOptions, rocks_options, sync_path};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Numbers and sizes in bytes of the files that the manifest names, by family.
type ManifestFiles = BTreeMap<String, BTreeMap<u64, u64>>;

/// Puts back the missing files of a closed database that are among the files of an ingest.
///
/// `families` are the names of families on disk, each with the files that were passed to
/// [`RocksDb::ingest`](crate::rocks::RocksDb::ingest). If other files are missing, the open fails.
pub(crate) fn put_back<'a>(
    rocks: &Path,
    options: &RocksOptions,
    families: impl Iterator<Item = (&'a str, Vec<PathBuf>)>,
) -> Result<()> {
    let Some(named) = named(rocks, options) else {
        return Ok(());
    };
    let place = |number: u64| rocks.join(format!("{number:06}.sst"));
    let back = |family: &str, files: &[PathBuf]| -> std::io::Result<()> {
        let Some(named) = named.get(family) else {
            return Ok(());
        };
        let missing: Vec<u64> = named
            .keys()
            .copied()
            .filter(|number| !place(*number).exists())
            .collect();
        let sizes = files
            .iter()
            .map(|file| Ok(std::fs::metadata(file)?.len()))
            .collect::<std::io::Result<Vec<u64>>>()?;
        let Some(first) = first_number(named, &missing, &sizes) else {
            return Ok(());
        };
        log::warn!(
            "{}: files {missing:?} of {family:?} are missing; they are put back from the commit's \
             files",
            rocks.display()
        );
        (first..)
            .zip(files)
            .try_for_each(|(number, file)| link(file, &place(number)))?;
        sync_path(rocks, options.environment.as_ref())
    };
    for (family, files) in families {
        back(family, &files).map_err(|e| io_failure("putting back a commit's files", rocks, &e))?;
    }
    Ok(())
}

fn named(rocks: &Path, options: &RocksOptions) -> Option<ManifestFiles> {
    log_record::check(rocks, || None).ok()?;
    let mut db_options = rocks_options(options).ok()?;
    db_options.set_wal_filter(NoReplay);
    // With paranoid checks the database does not open without the files.
    db_options.set_paranoid_checks(false);
    let mut named = ManifestFiles::new();
    for file in open_read_only(rocks, &db_options, options)?
        .live_files()
        .ok()?
    {
        let number = file
            .name
            .trim_start_matches('/')
            .strip_suffix(".sst")?
            .parse()
            .ok()?;
        named
            .entry(file.column_family_name)
            .or_default()
            .insert(number, file.size as u64);
    }
    Some(named)
}

/// The number of the first of a family's ingested files. Their numbers are consecutive and include
/// all missing ones. If files of equal size are confused, RocksDB's check of their identity fails.
fn first_number(named: &BTreeMap<u64, u64>, missing: &[u64], sizes: &[u64]) -> Option<u64> {
    let (least, greatest) = (*missing.first()?, *missing.last()?);
    let firsts = (greatest + 1).saturating_sub(sizes.len() as u64)..=least;
    firsts.into_iter().find(|first| {
        (*first..)
            .zip(sizes)
            .all(|(number, size)| named.get(&number) == Some(size))
    })
}

/// Links a file to another name, or copies it if the file system has no links. An existing file
/// stays.
fn link(file: &Path, name: &Path) -> std::io::Result<()> {
    match std::fs::hard_link(file, name) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(_) => {
            let draft = name.with_extension("draft");
            std::fs::copy(file, &draft)?;
            sync_path(&draft, None)?;
            std::fs::rename(draft, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_consecutive_numbers_and_sizes() {
        let named = BTreeMap::from([(3, 70), (5, 10), (6, 20), (7, 30), (8, 10), (9, 20)]);
        // All of them are missing, or only some.
        assert_eq!(first_number(&named, &[5, 6, 7], &[10, 20, 30]), Some(5));
        assert_eq!(first_number(&named, &[7], &[10, 20, 30]), Some(5));
        assert_eq!(first_number(&named, &[5], &[10, 20]), Some(5));
        assert_eq!(first_number(&named, &[8, 9], &[10, 20]), Some(8));
        // No file is missing; the missing file is not of the ingest; or a file beyond the ingest is
        // missing, too.
        assert_eq!(first_number(&named, &[], &[10, 20]), None);
        assert_eq!(first_number(&named, &[3], &[10, 20]), None);
        assert_eq!(first_number(&named, &[3, 5, 6], &[10, 20]), None);
        assert_eq!(first_number(&named, &[5, 8], &[10]), None);
        assert_eq!(first_number(&named, &[9], &[20, 10]), None);
        assert_eq!(first_number(&named, &[3], &[]), None);
    }
}
