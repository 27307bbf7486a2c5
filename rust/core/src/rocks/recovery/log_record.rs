//! Finds records of logs and manifests that RocksDB would read forever.
//!
//! If damage turns the type of a record into that of a recycled log, `ReadPhysicalRecord`
//! (`db/log_reader.cc`, 11.12; <https://github.com/facebook/rocksdb/issues/13333> is about the same
//! place) detects the damage, but does not skip the record and reports nothing: an open would never
//! end. This module therefore checks the files first, with the same steps as that reader. Format:
//! <https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format>.

use super::commit_number;
use crate::error::{Error, ErrorKind, Result};
use crc_fast::CrcAlgorithm;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const BLOCK: usize = 32 * 1024;
/// Checksum, 4 bytes | length, 2 | type, 1.
const HEADER: usize = 7;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// The record types of recycled logs. Holdfast never writes such logs.
const RECYCLED: [u8; 6] = [5, 6, 7, 8, 11, 131];

/// Checks the current manifest of a closed database.
///
/// # Errors
/// As [`check`].
pub(in crate::rocks) fn check_manifest(path: &Path) -> Result<()> {
    let Ok(current) = std::fs::read_to_string(path.join("CURRENT")) else {
        return Ok(());
    };
    let manifest = path.join(current.trim_end());
    match LogWalk::default().read(&manifest) {
        Some(stuck) => Err(damaged(path, stuck, &manifest, "")),
        None => Ok(()),
    }
}

/// Checks the current manifest and the logs of a closed database.
///
/// `state` returns the number of the last commit in the other files. It is called only if a log
/// is damaged.
///
/// # Errors
/// `StoreCorrupted` for a record that RocksDB would read forever. Other damage is not reported.
pub(in crate::rocks) fn check(path: &Path, state: impl FnOnce() -> Option<u64>) -> Result<()> {
    check_manifest(path)?;
    let mut walk = LogWalk::default();
    for log in logs(path) {
        if let Some(stuck) = walk.read(&log) {
            let last = state().into_iter().chain(walk.commit).max().unwrap_or(0);
            return Err(damaged(
                path,
                stuck,
                &log,
                &format!("; the last good commit before it is {last}"),
            ));
        }
    }
    Ok(())
}

fn damaged(path: &Path, at: u64, file: &Path, last: &str) -> Error {
    let file = file.file_name().unwrap_or_default().display();
    let message = format!(
        "the record at byte {at} of {file} is damaged{last}; restore the directory from a \
         checkpoint, or delete it where a changelog can rebuild it"
    );
    Error::new(ErrorKind::StoreCorrupted, message).path(path)
}

/// The logs of a database, oldest first.
pub(in crate::rocks) fn logs(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path());
    let mut logs: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

/// The state of a walk over a manifest, or over all logs in order.
#[derive(Default)]
struct LogWalk {
    /// The parts of a record so far, if it has several.
    record: Option<Vec<u8>>,
    /// Whether a record of this file was read.
    has_read: bool,
    /// The commit number at the end of the last record so far that has one.
    commit: Option<u64>,
}

impl LogWalk {
    /// The offset of a file's record that RocksDB would read forever; `None` if there is no such
    /// record or the file cannot be read.
    fn read(&mut self, file: &Path) -> Option<u64> {
        (self.record, self.has_read) = (None, false);
        let mut file = File::open(file).ok()?;
        let (mut block, mut before) = (Vec::with_capacity(BLOCK), 0);
        loop {
            block.clear();
            let read: io::Result<usize> = file.by_ref().take(BLOCK as u64).read_to_end(&mut block);
            match self.block(&block) {
                BlockEnd::Stuck(at) => return Some(before + at as u64),
                BlockEnd::Done if read.is_ok_and(|read| read == BLOCK) => before += BLOCK as u64,
                BlockEnd::Done | BlockEnd::Recycled => return None,
            }
        }
    }

    fn block(&mut self, block: &[u8]) -> BlockEnd {
        let mut at = 0;
        while let Some((header, rest)) = block[at..].split_first_chunk::<HEADER>() {
            let [c0, c1, c2, c3, l0, l1, kind] = *header;
            if RECYCLED.contains(&kind) {
                return if self.has_read {
                    BlockEnd::Stuck(at)
                } else {
                    BlockEnd::Recycled
                };
            }
            let length = usize::from(u16::from_le_bytes([l0, l1]));
            let checksum = unmasked(u32::from_le_bytes([c0, c1, c2, c3]));
            let whole = rest
                .get(..length)
                .filter(|_| crc(&block[at + HEADER - 1..at + HEADER + length]) == checksum);
            let Some(part) = whole else {
                // The length may be wrong, so the rest of the block is skipped.
                self.record = None;
                return BlockEnd::Done;
            };
            self.part(kind, part);
            at += HEADER + length;
        }
        BlockEnd::Done
    }

    fn part(&mut self, kind: u8, part: &[u8]) {
        match kind {
            FULL => self.whole(part),
            FIRST => self.record = Some(part.to_vec()),
            MIDDLE | LAST => {
                let Some(mut record) = self.record.take() else {
                    return;
                };
                record.extend_from_slice(part);
                if kind == LAST {
                    self.whole(&record);
                } else {
                    self.record = Some(record);
                }
            }
            _ => {}
        }
    }

    fn whole(&mut self, record: &[u8]) {
        self.has_read = true;
        self.commit = commit_number::of_record(record).or(self.commit);
    }
}

/// Where the walk of a block ended.
enum BlockEnd {
    Stuck(usize),
    /// The end of the block, or a record that the reader skips with the rest of the block.
    Done,
    /// The file's first record makes it a recycled log. RocksDB reads such a log in another way.
    Recycled,
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Undoes the mask of `util/crc32c.h`.
fn unmasked(stored: u32) -> u32 {
    stored.wrapping_sub(0xa282_ead8).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of records, cut into blocks as RocksDB's writer does it.
    fn written(records: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let (mut rest, mut begins) = (*record, true);
            loop {
                let room = BLOCK - file.len() % BLOCK;
                if room < HEADER {
                    file.resize(file.len() + room, 0);
                    continue;
                }
                let (part, behind) = rest.split_at(rest.len().min(room - HEADER));
                let kind = match (begins, behind.is_empty()) {
                    (true, true) => FULL,
                    (true, false) => FIRST,
                    (false, false) => MIDDLE,
                    (false, true) => LAST,
                };
                let checksum = crc(&[&[kind], part].concat())
                    .rotate_right(15)
                    .wrapping_add(0xa282_ead8);
                file.extend_from_slice(&checksum.to_le_bytes());
                file.extend_from_slice(&(part.len() as u16).to_le_bytes());
                file.push(kind);
                file.extend_from_slice(part);
                (rest, begins) = (behind, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        file
    }

    fn commit(number: u64, bytes: usize) -> Vec<u8> {
        [
            &vec![1; bytes],
            &[6][..],
            commit_number::KEY,
            &[8],
            &number.to_be_bytes(),
        ]
        .concat()
    }

    fn read(file: &[u8]) -> std::io::Result<(Option<u64>, Option<u64>)> {
        let path = tempfile::NamedTempFile::new()?;
        std::fs::write(path.path(), file)?;
        let mut walk = LogWalk::default();
        Ok((walk.read(path.path()), walk.commit))
    }

    #[test]
    fn endless_record_is_found_with_the_commit_before_it() -> std::io::Result<()> {
        let records = [commit(7, 10), commit(8, 3 * BLOCK), commit(9, 10)];
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let good = written(&records);
        assert_eq!(read(&good)?, (None, Some(9)));
        let last = written(&records[..2]).len();
        for kind in RECYCLED {
            let mut bad = good.clone();
            bad[last + HEADER - 1] = kind;
            assert_eq!(read(&bad)?, (Some(last as u64), Some(8)), "type {kind}");
            // As the file's first record it makes the file a recycled log, which is read in
            // another way.
            let mut first = good.clone();
            first[HEADER - 1] = kind;
            assert_eq!(read(&first)?, (None, None), "type {kind}");
        }
        Ok(())
    }

    #[test]
    fn records_that_rocksdb_skips_are_skipped() -> std::io::Result<()> {
        let records = [
            commit(7, 10),
            commit(8, 10),
            commit(9, BLOCK),
            commit(10, 10),
        ];
        let good = written(&records.iter().map(Vec::as_slice).collect::<Vec<_>>());
        // The rest of a block after a wrong checksum is skipped.
        let second = written(&[&records[0]]).len();
        let mut bad = good.clone();
        bad[second + HEADER] ^= 1;
        bad[written(&[&records[0], &records[1]]).len() + HEADER - 1] = 5;
        assert_eq!(read(&bad)?, (None, Some(10)));
        // The file was cut short.
        for cut in (0..good.len()).step_by(61) {
            assert_eq!(read(&good[..cut])?.0, None, "{cut}");
        }
        Ok(())
    }
}
