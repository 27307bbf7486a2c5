//! The number of each write, and the check that no durable write is missing.
//!
//! Every call of `RocksDb::write` also writes its number, in the metadata family. The file
//! `COMMITTED` beside the database holds the number up to which no write can be lost: with a log,
//! the last write that returned; without one, the last that was flushed or has a commit file. The
//! file is written after the write and never synced. After a crash its number may be too low, never
//! too high.
//!
//! If the database's files hold a lower number, they were damaged, cut short or replaced by older
//! ones. RocksDB cannot detect it: a log that is cut looks like one that ends there, and a manifest
//! that is cut names the files of an earlier valid state.
//!
//! ```text
//! metadata   commit → number u64 big-endian
//! COMMITTED  number u64 big-endian | its complement
//! ```

use crate::error::{Error, ErrorKind};
use parking_lot::Mutex;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(in crate::rocks) const KEY: &[u8] = b"commit";
const FILE: &str = "COMMITTED";

/// The number of the last write, and the `COMMITTED` file.
pub(in crate::rocks) struct CommitNumber {
    last: Mutex<u64>,
    file: Option<File>,
}

/// Reads the `COMMITTED` file; `None` if it is missing, damaged or unreadable.
pub(in crate::rocks) fn durable(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path.join(FILE)).ok()?;
    let (number, complement) = bytes.split_first_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    (complement == (!number).to_be_bytes()).then_some(number)
}

/// Parses a stored number; 0 if there is none.
pub(in crate::rocks) fn parse(stored: Option<&[u8]>) -> u64 {
    stored
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}

/// The number at the end of a log record. The callers of [`CommitNumber::next`] append it last: key
/// and value, each with its length.
pub(super) fn of_record(record: &[u8]) -> Option<u64> {
    let (rest, number) = record.split_last_chunk::<8>()?;
    rest.strip_suffix(&[8])?
        .strip_suffix(KEY)?
        .strip_suffix(&[KEY.len() as u8])?;
    Some(u64::from_be_bytes(*number))
}

/// The error of files that lack a durable commit.
pub(in crate::rocks) fn lost(last: &str, durable: u64, path: &Path) -> Error {
    Error::new(
        ErrorKind::StoreCorrupted,
        format!(
            "the last good commit in the files is {last}, but commit {durable} had been made \
             durable: a file was damaged, cut short or replaced by an older one; restore the \
             directory from a checkpoint or the changelog, or delete the file {FILE} in it to \
             continue from that last good commit"
        ),
    )
    .path(path)
}

impl CommitNumber {
    /// Opens the `COMMITTED` file. `path` is `None` for a database in memory or a temporary one,
    /// which has no such file.
    pub(in crate::rocks) fn new(last: u64, path: Option<&Path>) -> Self {
        // If the file cannot be created, damage is less likely to be detected.
        let file = path.and_then(|path| {
            File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path.join(FILE))
                .ok()
        });
        Self {
            last: Mutex::new(last),
            file,
        }
    }

    /// The number of the last write.
    pub(in crate::rocks) fn last(&self) -> u64 {
        *self.last.lock()
    }

    /// Makes a write with the next number. If the write fails, the number is used again.
    pub(in crate::rocks) fn next<E>(
        &self,
        write: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut last = self.last.lock();
        write(*last + 1)?;
        *last += 1;
        Ok(*last)
    }

    /// Raises the number to one that was read from the database; returns the greater one.
    pub(in crate::rocks) fn raise(&self, number: u64) -> u64 {
        let mut last = self.last.lock();
        *last = number.max(*last);
        *last
    }

    /// Records that no write up to this number can be lost any more.
    pub(in crate::rocks) fn mark_durable(&self, number: u64) {
        let Some(file) = &self.file else { return };
        // The write itself succeeded. A file with only a part of a number is ignored, and damage is
        // then less likely to be detected.
        if let Err(error) =
            file.write_all_at(&[number.to_be_bytes(), (!number).to_be_bytes()].concat(), 0)
        {
            log::warn!("commit {number} is durable, but {FILE} cannot be written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_file_is_ignored() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let number = CommitNumber::new(0, Some(dir.path()));
        assert_eq!(durable(dir.path()), None);
        number.mark_durable(7);
        assert_eq!(durable(dir.path()), Some(7));
        let file = dir.path().join(FILE);
        let good = std::fs::read(&file)?;
        for n in 0..good.len() {
            let mut bad = good.clone();
            bad[n] ^= 4;
            std::fs::write(&file, &bad)?;
            assert_eq!(durable(dir.path()), None);
            std::fs::write(&file, &good[..n])?;
            assert_eq!(durable(dir.path()), None);
        }
        Ok(())
    }
}
