//! Sorted files that the manifest names and that RocksDB has removed.
//!
//! Where the disk refuses the sync of the manifest while sorted files are taken in, RocksDB removes
//! its links to them: nothing has happened, it says. But the record may be in the manifest all the
//! same, and then the next open misses the files. RocksDB offers no way back
//! (`best_efforts_recovery` goes back to an earlier state of a family, whichever file is missing:
//! that may be an earlier commit); whoever kept the files can put them back under their numbers.

use super::environment::sync_path;
use super::last_commit::look;
use super::log_gap::NoReplay;
use super::log_record;
use super::options::{RocksOptions, rocks_options};
use super::sorted_files::refused;
use crate::error::Result;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Numbers and sizes in bytes of the files that the manifest names, by family.
type Named = BTreeMap<String, BTreeMap<u64, u64>>;

/// Puts the missing files of a closed database back, where they are some of those that were to be
/// taken in: the names of families on disk, each with its files as they were handed to
/// [`RocksDb::ingest`](super::Database::ingest). What else is missing is left to the open to tell.
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
            "{}: files {missing:?} of {family:?} are missing, and are put back from a commit's",
            rocks.display()
        );
        (first..)
            .zip(files)
            .try_for_each(|(number, file)| link(file, &place(number)))?;
        sync_path(rocks, options.environment.as_ref())
    };
    for (family, files) in families {
        back(family, &files).map_err(|e| refused("putting back a commit's files", rocks, &e))?;
    }
    Ok(())
}

fn named(rocks: &Path, options: &RocksOptions) -> Option<Named> {
    log_record::check(rocks, || None).ok()?;
    let mut db_options = rocks_options(options).ok()?;
    db_options.set_wal_filter(NoReplay);
    // Or it is not opened without the files.
    db_options.set_paranoid_checks(false);
    let mut named = Named::new();
    for file in look(rocks, &db_options, options)?.live_files().ok()? {
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

/// Which number the first of a family's files was given: they are given numbers in a row, and among
/// those are all that are missing. Should files of one size be taken for each other, RocksDB's own
/// check of their identity refuses them.
fn first_number(named: &BTreeMap<u64, u64>, missing: &[u64], sizes: &[u64]) -> Option<u64> {
    let (least, greatest) = (*missing.first()?, *missing.last()?);
    let firsts = (greatest + 1).saturating_sub(sizes.len() as u64)..=least;
    firsts.into_iter().find(|first| {
        (*first..)
            .zip(sizes)
            .all(|(number, size)| named.get(&number) == Some(size))
    })
}

/// Gives a file another name, or makes a copy of it where the file system has no links; one that is
/// there is left.
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
    fn files_are_found_by_their_numbers_in_a_row_and_their_sizes() {
        let named = BTreeMap::from([(3, 70), (5, 10), (6, 20), (7, 30), (8, 10), (9, 20)]);
        // All of them are missing, or only some.
        assert_eq!(first_number(&named, &[5, 6, 7], &[10, 20, 30]), Some(5));
        assert_eq!(first_number(&named, &[7], &[10, 20, 30]), Some(5));
        assert_eq!(first_number(&named, &[5], &[10, 20]), Some(5));
        assert_eq!(first_number(&named, &[8, 9], &[10, 20]), Some(8));
        // None is missing, or none of these, or others too.
        assert_eq!(first_number(&named, &[], &[10, 20]), None);
        assert_eq!(first_number(&named, &[3], &[10, 20]), None);
        assert_eq!(first_number(&named, &[3, 5, 6], &[10, 20]), None);
        assert_eq!(first_number(&named, &[5, 8], &[10]), None);
        assert_eq!(first_number(&named, &[9], &[20, 10]), None);
        assert_eq!(first_number(&named, &[3], &[]), None);
    }
}
