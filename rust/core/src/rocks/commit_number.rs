//! A number for each write, and how it is known that none was lost.
//!
//! A write carries its number into the database, in the metadata family. The file `COMMITTED`
//! beside the database says up to which number nothing can be lost any more: with a log, each write
//! that has returned; without one, each that was flushed. It is written after the fact and never
//! synced, so after a crash it may say less than the truth, never more. Files that hold less than
//! it says were damaged, cut short or replaced by older ones. RocksDB cannot tell: a log that is
//! cut looks like one that was never written on, and a manifest that is cut names the files of a
//! state that was right once.
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

pub(super) const KEY: &[u8] = b"commit";
const FILE: &str = "COMMITTED";

/// The number of the last write, and the file.
pub(super) struct CommitNumber {
    last: Mutex<u64>,
    file: Option<File>,
}

/// What the file beside a database says; nothing if there is none, or none that can be read.
pub(super) fn durable(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path.join(FILE)).ok()?;
    let (number, complement) = bytes.split_first_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    (complement == (!number).to_be_bytes()).then_some(number)
}

/// The number that the database holds.
pub(super) fn parse(stored: Option<&[u8]>) -> u64 {
    stored
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_be_bytes)
}

/// The number that a record of the log ends with, as `next`'s caller appends it: key and value with
/// their lengths.
pub(super) fn of_record(record: &[u8]) -> Option<u64> {
    let (rest, number) = record.split_last_chunk::<8>()?;
    rest.strip_suffix(&[8])?
        .strip_suffix(KEY)?
        .strip_suffix(&[KEY.len() as u8])?;
    Some(u64::from_be_bytes(*number))
}

/// What to say of files that hold less than they did.
pub(super) fn lost(last: &str, durable: u64, path: &Path) -> Error {
    Error::new(
        ErrorKind::StoreCorrupted,
        format!(
            "the last good commit in the files is {last}, but commit {durable} had been made \
             durable: a file was damaged, cut short or replaced by an older one; restore the \
             directory from a checkpoint or the changelog, or delete the file {FILE} in it to go \
             on from that last good commit"
        ),
    )
    .path(path)
}

impl CommitNumber {
    /// Without a path there is no file: the database lies in memory.
    pub(super) fn new(last: u64, path: Option<&Path>) -> Self {
        // Without the file damage is only less likely to be noticed.
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
    pub(super) fn last(&self) -> u64 {
        *self.last.lock()
    }

    /// Does a write with the next number; it counts if it succeeds.
    pub(super) fn next<E>(&self, write: impl FnOnce(u64) -> Result<(), E>) -> Result<u64, E> {
        let mut last = self.last.lock();
        write(*last + 1)?;
        *last += 1;
        Ok(*last)
    }

    /// Takes over a number that the database is found to hold.
    pub(super) fn found(&self, number: u64) -> u64 {
        let mut last = self.last.lock();
        *last = number.max(*last);
        *last
    }

    /// Notes that nothing up to a number can be lost any more.
    pub(super) fn is_durable(&self, number: u64) {
        let Some(file) = &self.file else { return };
        // The write itself has taken place. Half a number says nothing, so damage is only less
        // likely to be noticed.
        if let Err(error) =
            file.write_all_at(&[number.to_be_bytes(), (!number).to_be_bytes()].concat(), 0)
        {
            log::warn!("commit {number} is durable, and {FILE} cannot say so: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_says_nothing() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let number = CommitNumber::new(0, Some(dir.path()));
        assert_eq!(durable(dir.path()), None);
        number.is_durable(7);
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
